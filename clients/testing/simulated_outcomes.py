"""The outcomes of a simulated run, kept like the store keeps them: one for each configuration, sample and replicate."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from clients.testing.world import Answer, World, as_samples, asked
from ratchet import Record, Sample
from workflows.model.suite import MeasuredSample
from workflows.model.trial import Split

Key = tuple[str, Split, int, int]
"""Configuration, split, place, replicate."""


class SimulatedOutcomes:
    """Asks the world for what is not known yet, as long as the budget lasts."""

    def __init__(self, world: World, search_split: Split, metric: str, passes_at: float) -> None:
        self._world = world
        self._samples = {search_split: as_samples(world.samples, "s"), Split.TRAIN: as_samples(world.train, "t")}
        self._metric = metric
        self._passes_at = passes_at
        self._answers: dict[Key, Answer] = {}
        self._by_configuration: dict[tuple[str, Split], list[Key]] = {}
        self.calls = 0
        """Of the target."""
        self.seconds = 0.0
        """Spent in the target, which are not the optimizer's."""

    def samples(self, split: Split) -> Sequence[Sample]:
        return self._samples[split]

    async def answer(
        self,
        configuration: Mapping[str, Any],
        config_hash: str,
        split: Split,
        pairs: Sequence[tuple[int, int]],
        most_calls: int | None,
    ) -> tuple[list[MeasuredSample], list[MeasuredSample]]:
        """The answers to pairs of (place, replicate), and those of them that were paid for now. Nothing is paid for twice, and
        nothing that the budget does not cover is asked."""
        measured: list[MeasuredSample] = []
        bought: list[MeasuredSample] = []
        for place, replicate in pairs:
            key = (config_hash, split, place, replicate)
            known = key in self._answers
            if not known and most_calls is not None and len(bought) >= most_calls:
                continue
            if not known:
                await self._ask(key, configuration)
                bought.append(self._measured(key))
            measured.append(self._measured(key))
        return measured, bought

    async def _ask(self, key: Key, configuration: Mapping[str, Any]) -> None:
        config_hash, split, place, replicate = key
        began = time.perf_counter()
        self._answers[key] = await asked(self._world, configuration, self._samples[split][place], replicate)
        self.seconds += time.perf_counter() - began
        self.calls += 1
        self._by_configuration.setdefault((config_hash, split), []).append(key)

    def _measured(self, key: Key) -> MeasuredSample:
        _, split, place, replicate = key
        answer = self._answers[key]
        passed = answer.score >= self._passes_at
        return MeasuredSample(
            position=place,
            weight=self._samples[split][place].weight,
            replicate=replicate,
            status="answered",
            scores={self._metric: answer.score},
            passed=passed,
            tokens=answer.tokens,
            cost=answer.cost,
            latency_ms=None,
            ttft_ms=None,
            per_score_passed={self._metric: passed},
        )

    def of(self, config_hash: str, split: Split, replicates: range, places: range) -> list[MeasuredSample]:
        """What is known of a configuration."""
        keys = sorted(self._by_configuration.get((config_hash, split), ()))
        return [self._measured(key) for key in keys if key[2] in places and key[3] in replicates]

    def records(
        self, config_hash: str, split: Split, limit: int, *, worst_first: bool, sign: float, places: range | None = None
    ) -> list[Record]:
        """Evaluated samples as proposers see them: failed ones first, then from the worst score, or in the split's order."""
        keys = [key for key in self._by_configuration.get((config_hash, split), ()) if places is None or key[2] in places]

        def rank(key: Key) -> tuple[float, ...]:
            score = self._answers[key].score
            return (score >= self._passes_at, sign * score, key[2], key[3]) if worst_first else (key[2], key[3])

        return [self._record(key) for key in sorted(keys, key=rank)[:limit]]

    def _record(self, key: Key) -> Record:
        answer, sample = self._answers[key], self._samples[key[1]][key[2]]
        return Record(
            inputs=sample.input, output=answer.output, score=answer.score, feedback=answer.feedback, expected=sample.expected
        )
