"""The rule task as the `gepa` package and hill climbing do it, in the peer's environment: one JSON job in, one JSON answer out.

Each is run once, to the largest budget. What it would have answered at a smaller one follows from when it found what: GEPA
finishes the iteration that it began within its budget, which may take `2 b + 100` calls more; that is granted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import gepa  # type: ignore[import-not-found,unused-ignore]
from gepa.core.adapter import EvaluationBatch  # type: ignore[import-not-found,unused-ignore]

from benchmarks.quality_world import RuleWorld, Task

COMPONENT = "prompt"


class Adapter:
    """Calls the world, one sample after the other, with fresh noise every time."""

    def __init__(self, world: RuleWorld, random: Random) -> None:
        self._world, self._random = world, random
        self.calls = 0

    def evaluate(self, batch: list[tuple[str, int]], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        self.calls += len(batch)
        answers = [self._world.call(candidate[COMPONENT], split, place, self._random) for split, place in batch]
        scores = [score for score, _ in answers]
        return EvaluationBatch(outputs=scores, scores=scores, trajectories=answers if capture_traces else None)

    def make_reflective_dataset(self, candidate: dict[str, str], evaluated: Any, components: list[str]) -> dict[str, Any]:
        failed = [feedback for score, feedback in evaluated.trajectories if score < 1]
        return {name: [{"Feedback": feedback} for feedback in failed or [""]] for name in components}

    def propose_new_texts(
        self, candidate: dict[str, str], records: Mapping[str, Sequence[Mapping[str, str]]], components: list[str]
    ) -> dict[str, str]:
        return {
            name: self._world.reflect(candidate[name], [record["Feedback"] for record in records[name]], self._random)
            for name in components
        }


class Silent:
    def log(self, message: str) -> None:
        """Its default logger prints every iteration."""


def by_gepa(world: RuleWorld, seed: int, budgets: Sequence[int], selection: str, minibatch: int) -> list[float]:
    adapter = Adapter(world, Random(f"gepa {seed}"))
    found = gepa.optimize(
        seed_candidate={COMPONENT: world.baseline},
        trainset=[("train", place) for place in range(world.task.train)],
        valset=[("validation", place) for place in range(world.task.validation)],
        adapter=adapter,
        max_metric_calls=max(budgets),
        reflection_minibatch_size=minibatch,
        candidate_selection_strategy=selection,
        seed=seed,
        logger=Silent(),
    )
    granted = 2 * minibatch + world.task.validation
    answers = []
    for budget in budgets:
        began = [place for place, calls in enumerate(found.discovery_eval_counts) if place == 0 or calls - granted < budget]
        best = max(began, key=lambda place: (found.val_aggregate_scores[place], -place))
        answers.append(world.truth(found.candidates[best][COMPONENT]))
    return answers


def by_hill_climbing(world: RuleWorld, seed: int, budgets: Sequence[int], minibatch: int) -> list[float]:
    """The best so far against its rewrite on as many training samples; whoever passes more of them stays."""
    random = Random(f"hill {seed}")
    current, calls, answers = world.baseline, 0, list[float]()

    def measured(prompt: str, places: Sequence[int]) -> list[tuple[float, str]]:
        return [world.call(prompt, "train", place, random) for place in places]

    for budget in sorted(budgets):
        while calls + 2 * minibatch <= budget:
            places = random.sample(range(world.task.train), minibatch)
            before = measured(current, places)
            rewritten = world.reflect(current, [feedback for score, feedback in before if score < 1], random)
            after = measured(rewritten, places)
            calls += 2 * minibatch
            if sum(score for score, _ in after) > sum(score for score, _ in before):
                current = rewritten
        answers.append(world.truth(current))
    return answers


def answered(job: dict[str, Any]) -> dict[str, list[list[float]]]:
    """For every setting of every peer, seed by seed, the true accuracy of its answer at every budget."""
    found: dict[str, list[list[float]]] = {}
    for seed in job["seeds"]:
        world = RuleWorld(seed, Task(**job["task"]))
        for selection, minibatch in job["gepa"]:
            name = f"gepa package, {selection}, b={minibatch}"
            found.setdefault(name, []).append(by_gepa(world, seed, job["budgets"], selection, minibatch))
        for minibatch in job["hill"]:
            answers = by_hill_climbing(world, seed, job["budgets"], minibatch)
            found.setdefault(f"hill climbing, b={minibatch}", []).append(answers)
    return found


if __name__ == "__main__":
    print("\n" + json.dumps(answered(json.load(sys.stdin))))
