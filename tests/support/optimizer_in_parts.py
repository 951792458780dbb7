"""A small optimizer that measures its candidates in parts first, and the worker that knows it.

Each round is three steps: four neighbours of the best on the first samples, the better two of them on the next ones, and the
best of these in full.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

import workflows.optimization
import workflows.optimizers
from ratchet._formats.canonical import derive_seed
from ratchet.optimizer import (
    GO_ON,
    CandidateProposal,
    Optimizer,
    OptimizerState,
    Part,
    RunContext,
    StopDecision,
    TrialFacts,
    TrialHistory,
)
from workflows.model.spec.extensions.optimizer_options import OptimizerSpec
from workflows.optimizers.frame import Frame
from workflows.optimizers.refine import RefineOptimizer

FIRST, NEXT = Part(split="search", first=0, count=4), Part(split="search", first=4, count=4)
MARK = 33
"""So many candidates a round ask for this optimizer: there is no name for it in a spec."""


class InParts:
    """Measures little of many and much of few."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def initialize(self, context: RunContext) -> OptimizerState:
        return OptimizerState(best_candidate_id=context.baseline_candidate_id, algorithm_data={"left": []})

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        left = state.algorithm_data["left"]
        assert isinstance(left, list)
        if not left:
            return await self._neighbours(state)
        part = NEXT if len(left) > 1 else None
        return [
            CandidateProposal(
                configuration=await self._frame.configuration(str(name)), parent_candidate_ids=(str(name),), part=part
            )
            for name in left
        ]

    async def _neighbours(self, state: OptimizerState) -> list[CandidateProposal]:
        best = state.best_candidate_id or ""
        configuration = await self._frame.configuration(best)
        x = configuration["x"]
        assert isinstance(x, int)
        random = Random(derive_seed(self._frame.context.seed, "neighbours", state.generation))
        steps = random.sample([number * 10 for number in range(1, 30)], 4)
        return [
            CandidateProposal(
                configuration={**configuration, "x": min(x + step, 1000)},
                parent_candidate_ids=(best,),
                part=FIRST,
                extra={"origin": "step"},
            )
            for step in steps
        ]

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        parts = sorted((trial for trial in trials if trial.part), key=lambda trial: (-(trial.score or 0), trial.candidate_id))
        keep = 2 if parts and parts[0].part == FIRST else 1
        best = next((trial.candidate_id for trial in trials if trial.kept), state.best_candidate_id)
        left: list[Any] = [trial.candidate_id for trial in parts[:keep]]
        return OptimizerState(generation=state.generation + (not parts), best_candidate_id=best, algorithm_data={"left": left})

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        return GO_ON


known = workflows.optimizers.build_optimizer


def _build(spec: OptimizerSpec, frame: Frame) -> Optimizer:
    marked = isinstance(spec, RefineOptimizer) and spec.candidates_per_round == MARK
    return InParts(frame) if marked else known(spec, frame)


@contextmanager
def in_parts() -> Iterator[None]:
    """Workers of this process know the optimizer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workflows.optimizers, "build_optimizer", _build)
        patch.setattr(workflows.optimization, "build_optimizer", _build)
        yield


def spec(**parts: Any) -> dict[str, Any]:
    """A hill, climbed in parts; keyword arguments replace parts of the spec."""
    return {
        "name": "in-parts",
        "configuration": {
            "x": {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 1000, "step": 10},
            "unit": "metre",
        },
        "target": {"kind": "python", "ref": "plugged:hill"},
        "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(20)], "splits": "none"},
        "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height"}],
        "objective": {"metric": "height"},
        "optimizer": {"proposer": {"kind": "step"}, "candidates_per_round": MARK},
        "stop": {"max_rounds": 4, "no_improvement": 0},
        "seed": 7,
    } | parts


if __name__ == "__main__":
    from worker import main

    with in_parts():
        raise SystemExit(main())
