"""Whole runs without Temporal and without a database: the real books, the real optimizer, a synthetic target."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from clients.testing.measurement import Measuring
from clients.testing.simulated_frame import SimulatedFrame
from clients.testing.simulated_outcomes import SimulatedOutcomes
from clients.testing.world import World
from ratchet.optimizer import StopReason, TrialFacts
from workflows.model.activities.computation import StoredTrial
from workflows.model.run.candidates import Candidate, Rejection
from workflows.model.run.contract import Prepared
from workflows.model.run.rounds import RoundRecord, RunStatus
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import Purpose, Split, TrialResult
from workflows.optimizers import build_optimizer
from workflows.rules.proposals.optimizer_step import Call
from workflows.rules.spec.check import check_request
from workflows.run.end.ended import RunEnded
from workflows.run.loop import RoundLoop
from workflows.run.proposals.optimizer_calls import OptimizerCalls
from workflows.run.round_records import last_round
from workflows.run.state import RunState

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
"""No time passes in a simulation: budgets of wall time are not simulated."""

UNDER_TEST = "simulated:optimizer"
METRIC = "score"
PASSES_AT = 0.5

MOST_IDLE_STEPS = 100
"""So many steps in a row that end no round and pay for nothing would go on for ever."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """What became of a simulated run."""

    status: RunStatus
    stop_reason: StopReason
    message: str
    baseline_score: float | None
    best_score: float | None
    best_candidate_id: str | None
    best_configuration: Mapping[str, Any]
    calls: int
    """Of the target, each paid for once."""
    proposals: int
    """Of the world's proposer."""
    rounds: tuple[RoundRecord, ...]
    trials: tuple[StoredTrial, ...]
    """Everything that was measured, in order, with its means by sample."""
    rejections: tuple[Rejection, ...]
    history: tuple[TrialFacts, ...]
    state: Mapping[str, Any]
    """The optimizer's, at the end."""
    overhead_seconds: float = field(compare=False)
    """Spent outside of the world: the optimizer's and the frame's own time."""


def simulate(
    request: OptimizationRequest | Mapping[str, Any],
    world: World,
    *,
    optimizer: Callable[..., Any] | None = None,
    call: Call | None = None,
) -> Simulated:
    """Run an optimizer to its end against a synthetic target, by the rules of real runs: admission, decisions, budgets, stops.

    `request` is a spec, of which `target`, `dataset`, `scorers` and `objective` may be left out; `budget: {samples: 500}`
    counts calls of the world's target. The same request and the same world give the same run.

    `optimizer` is a class of your own, or whatever makes one; `request` may then say its `optimizer.options` and
    `optimizer.candidates_per_round`. With `call` its methods are called in another way than directly.
    """
    return asyncio.run(simulate_async(request, world, optimizer=optimizer, call=call))


async def simulate_async(
    request: OptimizationRequest | Mapping[str, Any],
    world: World,
    *,
    optimizer: Callable[..., Any] | None = None,
    call: Call | None = None,
) -> Simulated:
    """The same where a loop runs already."""
    if optimizer is not None and isinstance(request, Mapping):
        request = {**request, "optimizer": {"name": "python", "ref": UNDER_TEST, **request.get("optimizer", {})}}
    return await _Run(_complete(request, world), world, optimizer, call).to_the_end()


def _complete(request: OptimizationRequest | Mapping[str, Any], world: World) -> OptimizationRequest:
    if isinstance(request, Mapping):
        splits = {"train": 0.5, "validation": 0.5} if world.train else None
        stand_ins = {
            "target": {"kind": "python", "ref": "simulated:target"},
            "dataset": {"items": [{"id": "simulated", "input": {}}], "splits": splits},
            "scorers": [{"kind": "reported", "name": METRIC}],
            "objective": {"metric": METRIC},
        }
        request = OptimizationRequest.model_validate({**stand_ins, **request})
    if request.judgement.racing is not None or request.noise_first is not None:
        raise ValueError("racing and measuring the noise first are not simulated; leave judgement.racing, noise and auto out")
    if problems := check_request(request):
        raise ValueError("; ".join(problems))
    return request


class _Run(OptimizerCalls):
    """One simulated run: what `workflows.run.loop` runs in where nothing is real but the rules."""

    def __init__(self, request: OptimizationRequest, world: World, make: Callable[..., Any] | None, call: Call | None) -> None:
        state = RunState("simulated", request, BEGINNING)
        search_split = Split.VALIDATION if world.train else Split.ALL
        state.open(
            Prepared(
                dataset_id="0" * 64,
                evaluation_suite_id="0" * 64,
                search_split=search_split,
                search_samples=min(len(world.samples), request.samples_per_trial or len(world.samples)),
                train_samples=min(len(world.train), request.samples_per_trial or len(world.train)),
            )
        )
        self._outcomes = SimulatedOutcomes(world, search_split, request.metric, PASSES_AT)
        self._measuring = Measuring(state, self._outcomes)
        self._frame = SimulatedFrame(state, world, self._measuring, make, call)
        super().__init__(state, build_optimizer(request.optimizer, self._frame), self._frame.begin_step)
        self._rounds: list[RoundRecord] = []
        self._rejections: list[Rejection] = []
        self._idle_steps = 0

    async def to_the_end(self) -> Simulated:
        began = time.perf_counter()
        loop = RoundLoop(self._state, self)
        try:
            await loop.measure_baseline()
            await loop.rounds()
        except RunEnded as end:
            outside = time.perf_counter() - began - self._outcomes.seconds - self._frame.seconds
            return self._told(end, outside)

    def now(self) -> datetime:
        return BEGINNING

    def show(self, phase: str) -> None:
        self._state.status, self._state.phase = "running", phase

    async def measure(self, candidates: Sequence[Candidate], purpose: Purpose) -> list[TrialResult]:
        for candidate in candidates:
            self._frame.remember(candidate.candidate_id, candidate.configuration)
        calls = self._outcomes.calls
        results = await self._measuring.run_all(candidates, purpose)
        self._refuse_standstill(candidates, self._outcomes.calls - calls)
        return results

    async def complete(self, candidate: Candidate, raced: TrialResult) -> TrialResult:
        raise AssertionError("a spec with racing was refused before its run began")

    def record(self, record: RoundRecord) -> None:
        self._rejections += record.rejections
        if not record.open:
            self._rounds.append(record)

    def ended(self, end: RunEnded) -> None:
        raise end

    def _refuse_standstill(self, candidates: Sequence[Candidate], paid: int) -> None:
        self._idle_steps = 0 if paid or not all(candidate.part for candidate in candidates) else self._idle_steps + 1
        if self._idle_steps > MOST_IDLE_STEPS:
            told = f"{MOST_IDLE_STEPS} steps in a row asked only for what is known already; this would go on for ever"
            raise RunEnded(StopReason.EXECUTION_FAILURE, told, "failed")

    def _told(self, end: RunEnded, overhead_seconds: float) -> Simulated:
        state = self._state
        if (last := last_round(state, end.reason, end.status)) is not None:
            self._rounds[-1] = last
        return Simulated(
            status=end.status,
            stop_reason=end.reason,
            message=end.message,
            baseline_score=state.baseline.score if state.baseline else None,
            best_score=state.best.score if state.best else None,
            best_candidate_id=state.best.candidate_id if state.best else None,
            best_configuration=state.best.configuration if state.best else {},
            calls=self._outcomes.calls,
            proposals=self._frame.proposals,
            rounds=tuple(self._rounds),
            trials=tuple(self._measuring.stored),
            rejections=tuple(self._rejections),
            history=tuple(state.history),
            state=state.optimizer_state.model_dump(mode="json"),
            overhead_seconds=overhead_seconds,
        )
