"""Baseline against candidate, sample by sample: what was fixed, what was broken, and by how much they differ."""

from __future__ import annotations

import asyncio
import marshal
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from pydantic import Field

from ratchet._formats.canonical import canonical_json
from ratchet._frozen import Payload
from store.connection import Connection, Database
from store.read.samples.sample_pairs import (
    TURNS,
    MeasuredTrial,
    SamplePair,
    Turn,
    answers_of,
    inputs_of,
    measured_trial,
    pairs_of,
)
from workflows.model.spec.judgement import Evidence, Judged, JudgementSpec
from workflows.rules.decisions.verdicts import judge

MOST_VERDICTS: Final = 64
MOST_CONTRASTS: Final = 4
"""Of 10,000 samples one takes some megabytes."""


class ComparedTrial(Payload):
    """One side of a comparison."""

    optimization_id: str
    candidate_id: str
    purpose: str
    status: str
    split: str
    objective_score: float | None


class ComparedAnswer(Payload):
    """One answer to a sample."""

    replicate: int
    status: str
    passed: bool
    scores: dict[str, float]
    score_details: dict[str, Any] = Field(default_factory=dict)
    output: Any
    error: str | None
    feedback: str
    tokens: int
    cost: float
    latency_ms: float | None
    trace: Any = None
    """What the target told of its way to it: the turns of an agent, the steps of a chain."""
    printed: str | None = None
    texts_removed: bool = False
    """Its texts are gone, by a policy."""


class ComparedSample(Payload):
    """One sample with what both trials made of it."""

    position: int
    item_id: str
    item_hash: str
    turn: Turn
    weight: float
    baseline_score: float | None
    candidate_score: float | None
    input: Any
    expected: Any
    tags: tuple[str, ...]
    baseline_answers: tuple[ComparedAnswer, ...]
    candidate_answers: tuple[ComparedAnswer, ...]


class Comparison(Payload):
    """Two trials over the samples that both drew."""

    baseline: ComparedTrial
    candidate: ComparedTrial
    counts: dict[Turn, int]
    """How many samples were fixed, broken, passed in both, in neither, or lack an answer."""
    judged: Judged | None
    """The verdict on this pair alone, by the run's own rules; what a round decided is with the trial. None where nothing was
    answered."""
    turns: tuple[Turn, ...]
    """Of every common sample, in order."""
    total: int
    """Samples that `only` lets through."""
    items: tuple[ComparedSample, ...]


def counted(pairs: list[SamplePair]) -> dict[Turn, int]:
    """How many samples took which turn; every turn is named."""
    turns = [pair.turn for pair in pairs]
    return {turn: turns.count(turn) for turn in TURNS}


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two trials over the samples that both drew, as they were read. Nothing is judged yet: that takes long."""

    baseline: MeasuredTrial
    candidate: MeasuredTrial
    pairs: list[SamplePair]
    named: dict[Turn, tuple[str, ...]] = field(default_factory=dict)
    """The ids of the first few samples that took a turn."""
    inputs: dict[str, Any] = field(default_factory=dict)
    """By their ids, what these samples ask."""

    def evidence(self) -> Evidence | None:
        """What comparing both finds, by the rules of the candidate's run; None when no sample has a score in both."""
        from workflows.rules.statistics import compare

        pairs = self.pairs
        if not any(pair.one.mean is not None and pair.other.mean is not None for pair in pairs):
            return None
        return compare(
            [pair.one.mean for pair in pairs],
            [pair.other.mean for pair in pairs],
            [pair.one.weight for pair in pairs],
            spec=self.spec,
            direction=self.candidate.direction,
            reference_id=self.baseline.candidate_id,
            seed=self.candidate.seed,
            singles=([pair.one.singles for pair in pairs], [pair.other.singles for pair in pairs]),
            clusters=[pair.other.cluster for pair in pairs],
        )

    def key(self) -> bytes:
        """The same for all that the verdict is found from."""
        samples = [
            (pair.one.mean, pair.other.mean, pair.one.weight, pair.one.singles, pair.other.singles, pair.other.cluster)
            for pair in self.pairs
        ]
        of = (self.candidate.direction.value, self.candidate.seed, self.baseline.candidate_id)
        # Without references: those tell apart what is equal.
        return blake2b(marshal.dumps((canonical_json(self.candidate.judgement), of, samples), 2), digest_size=16).digest()

    @property
    def spec(self) -> JudgementSpec:
        return JudgementSpec.model_validate(self.candidate.judgement)

    def judged(self) -> Judged | None:
        """The verdict on this pair alone."""
        found = self.evidence()
        return None if found is None else judge([found], self.spec)[0]


async def _contrast(connection: Connection, baseline: MeasuredTrial, candidate: MeasuredTrial, *, named: int = 0) -> Contrast:
    """Two trials, with the ids of the first few samples that were fixed, and broken."""
    pairs = await pairs_of(connection, baseline, candidate)
    turns: tuple[Turn, ...] = ("fixed", "broken")
    first = {turn: [pair.one.item_hash for pair in pairs if pair.turn == turn][:named] for turn in turns}
    known = await inputs_of(connection, baseline.run_id, baseline.split, [one for found in first.values() for one in found])
    told = {turn: tuple(known[one]["item_id"] for one in found) for turn, found in first.items()}
    return Contrast(baseline, candidate, pairs, told, {one["item_id"]: one["input"] for one in known.values()})


class KeptVerdicts:
    """The verdicts asked for last: one who turns the pages of a comparison waits for its statistics once."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Judged | None] = OrderedDict()
        self._choosing = threading.Lock()

    def of(self, contrast: Contrast) -> Judged | None:
        """The verdict on what was read. For any thread."""
        key = contrast.key()
        with self._choosing:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        found = contrast.judged()
        with self._choosing:
            self._known[key] = found
            if len(self._known) > MOST_VERDICTS:
                self._known.popitem(last=False)
        return found


class KeptContrasts:
    """Pairs of ended trials that were read last: one who turns the pages of a comparison waits for all samples once."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[tuple[Any, ...], ...], Contrast] = OrderedDict()

    async def of(self, connection: Connection, baseline: MeasuredTrial, candidate: MeasuredTrial) -> Contrast:
        """Both as they are stored."""
        if baseline.finished_at is None or candidate.finished_at is None:
            return await _contrast(connection, baseline, candidate)
        key = tuple(
            (trial.run_id, trial.candidate_id, trial.purpose, trial.part, trial.config_hash, trial.finished_at)
            for trial in (baseline, candidate)
        )
        found = self._known.get(key)
        if found is None:
            found = await _contrast(connection, baseline, candidate)
            self._known[key] = found
            if len(self._known) > MOST_CONTRASTS:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return found


@dataclass(frozen=True, slots=True)
class ReadComparison:
    """A comparison as it was read, with some of its samples in full."""

    contrast: Contrast
    wanted: int
    """Samples that the filter lets through."""
    shown: list[SamplePair]
    inputs: dict[str, dict[str, Any]]
    before: dict[str, list[dict[str, Any]]]
    after: dict[str, list[dict[str, Any]]]

    def told(self, verdicts: KeptVerdicts | None) -> Comparison:
        """The comparison in full. Finding its verdict takes long: call it in a thread, and hold nothing meanwhile."""
        found = self.contrast
        return Comparison(
            baseline=_side(found.baseline),
            candidate=_side(found.candidate),
            counts=counted(found.pairs),
            judged=None if verdicts is None else verdicts.of(found),
            turns=tuple(pair.turn for pair in found.pairs),
            total=self.wanted,
            items=tuple(
                ComparedSample(
                    position=pair.one.position,
                    item_hash=pair.one.item_hash,
                    turn=pair.turn,
                    weight=pair.one.weight,
                    baseline_score=pair.one.mean,
                    candidate_score=pair.other.mean,
                    baseline_answers=_answers(self.before, pair),
                    candidate_answers=_answers(self.after, pair),
                    **self.inputs[pair.one.item_hash],
                )
                for pair in self.shown
            ),
        )


async def _read(
    connection: Connection, found: Contrast, *, only: Turn | None = None, offset: int = 0, limit: int = 20
) -> ReadComparison:
    """Two trials, with some of their samples in full."""
    baseline, candidate = found.baseline, found.candidate
    wanted = [pair for pair in found.pairs if only is None or pair.turn == only]
    shown = wanted[offset : offset + limit]
    hashes = [pair.one.item_hash for pair in shown]
    inputs = await inputs_of(connection, baseline.run_id, baseline.split, hashes)
    before = await answers_of(connection, baseline, hashes, traces=True)
    after = await answers_of(connection, candidate, hashes, traces=True)
    return ReadComparison(found, len(wanted), shown, inputs, before, after)


def _answers(given: dict[str, list[dict[str, Any]]], pair: SamplePair) -> tuple[ComparedAnswer, ...]:
    return tuple(ComparedAnswer(**answer) for answer in given.get(pair.one.item_hash, []))


def _side(trial: MeasuredTrial) -> ComparedTrial:
    return ComparedTrial(
        optimization_id=trial.run_id,
        candidate_id=trial.candidate_id,
        purpose=trial.purpose,
        status=trial.status,
        split=trial.split,
        objective_score=trial.score,
    )


class ComparisonReader:
    """Two trials beside each other."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._verdicts = KeptVerdicts()
        self._contrasts = KeptContrasts()

    async def load(
        self,
        baseline: tuple[str, str, str | None],
        candidate: tuple[str, str, str | None],
        *,
        only: Turn | None = None,
        offset: int = 0,
        limit: int = 20,
    ) -> Comparison | None:
        """Two trials sample by sample, each by run, candidate and purpose; None when one of them is not there."""
        async with self._database.snapshot() as connection:
            one, other = await measured_trial(connection, *baseline), await measured_trial(connection, *candidate)
            if one is None or other is None:
                return None
            contrast = await self._contrasts.of(connection, one, other)
            found = await _read(connection, contrast, only=only, offset=offset, limit=limit)
        return await asyncio.to_thread(found.told, self._verdicts if limit > 0 else None)

    async def contrast(
        self, baseline: tuple[str, str, str | None], candidate: tuple[str, str, str | None], *, named: int
    ) -> Contrast | None:
        """Two trials as they were read, for whoever judges several together; None when one of them is not there."""
        async with self._database.snapshot() as connection:
            one, other = await measured_trial(connection, *baseline), await measured_trial(connection, *candidate)
            return None if one is None or other is None else await _contrast(connection, one, other, named=named)
