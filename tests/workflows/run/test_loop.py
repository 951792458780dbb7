"""The round loop: in which order it asks, what ends it, and that everything that goes round runs this very loop."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from clients.replay.replayed_run import ReplayedRun
from clients.replay.trial_source import Asked, Gone, Recomputed
from clients.reports.facts import Iteration, RunFacts, SplitSamples
from clients.temporal import ratchet_plugin
from clients.testing import World, simulate
from ratchet._formats.canonical import content_hash
from ratchet.optimizer import Part, StopReason, TrialFacts
from tests.support.replaying import HISTORIES
from tests.support.spec_building import NOW, proposal, request, result, state
from workflows.model.run.candidates import Candidate, Rejection
from workflows.model.run.contract import Prepared
from workflows.model.run.rounds import PROPOSAL_FAILURE, RoundRecord
from workflows.model.spec.judgement import Judged
from workflows.model.trial import Purpose, Split, TrialResult
from workflows.optimization import OptimizationWorkflow
from workflows.run.end.ended import RunEnded
from workflows.run.loop import RoundLoop
from workflows.run.state import RunState
from workflows.trial import TrialWorkflow

PRODUCT = Path(__file__).parents[3]
FAILED = "failed"
CANNOT_SCORE = "cannot be scored"
KEPT_OUT = "kept out"

Measured = float | str | Part


@dataclass
class Scripted:
    """Surroundings that note what they are asked. Each step is a list of what its candidates will score, or fail with."""

    run: RunState
    steps: list[list[Measured]] = field(default_factory=list)
    baseline: Measured = 0.5
    looks: tuple[str, ...] = ()
    hours_per_step: int = 0
    pauses: bool = False
    stopped_while_resting: bool = False
    optimizer_stops_after: int | None = None
    calls: list[str] = field(default_factory=list)
    records: list[RoundRecord] = field(default_factory=list)
    observed: list[list[TrialFacts]] = field(default_factory=list)
    _scores: dict[str, Measured] = field(default_factory=dict)
    _taken: int = 0

    def now(self) -> datetime:
        return NOW + timedelta(hours=self.hours_per_step * self._taken)

    async def check_clock(self) -> None:
        self.calls.append("check_clock")

    def show(self, phase: str) -> None:
        self.calls.append(f"show {phase}")

    async def flush(self) -> None:
        self.calls.append("flush")

    async def measure(self, candidates: Sequence[Candidate], purpose: Purpose) -> list[TrialResult]:
        self.calls.append(f"measure {len(candidates)} {purpose}")
        found = [self._result(one, self._scores.get(one.candidate_id, self.baseline)) for one in candidates]
        return [one.model_copy(update={"first_look": self.looks}) for one in found] if purpose is Purpose.BASELINE else found

    def _result(self, candidate: Candidate, measured: Measured) -> TrialResult:
        if isinstance(measured, str):
            failed = result(candidate, None, "failed", error=measured)
            return failed.model_copy(update={"failure": "scoring" if measured == CANNOT_SCORE else "execution"})
        return result(candidate, 0.5 if isinstance(measured, Part) else measured)

    async def complete(self, candidate: Candidate, raced: TrialResult) -> TrialResult:
        raise NotImplementedError

    async def propose(self) -> tuple[list[Candidate], list[Rejection]]:
        self.calls.append("propose")
        self._taken += 1
        wanted = self.steps.pop(0) if self.steps else []
        proposals = []
        for place, measured in enumerate(wanted):
            prompt = "changed" if measured == KEPT_OUT else f"{self._taken}.{place} {{{{input.q}}}}"
            proposals.append(proposal(prompt=prompt, part=measured if isinstance(measured, Part) else None))
        self.run.use_round()
        candidates, rejections = self.run.admit(proposals)
        for candidate, measured in zip(candidates, [one for one in wanted if one != KEPT_OUT], strict=True):
            self._scores[candidate.candidate_id] = measured
        return candidates, rejections

    def initialize(self) -> None:
        self.calls.append("initialize")

    async def stopped_by_policy(self) -> RunEnded | None:
        self.calls.append("stopped_by_policy")
        return None

    def stopped_by_optimizer(self) -> RunEnded | None:
        self.calls.append("stopped_by_optimizer")
        if self.optimizer_stops_after is None or self.run.round < self.optimizer_stops_after:
            return None
        return RunEnded(StopReason.CONVERGENCE, "nothing more to find", by="optimizer")

    def observe(self, facts: Sequence[TrialFacts]) -> None:
        self.calls.append("observe")
        self.observed.append(list(facts))

    def record(self, record: RoundRecord) -> None:
        self.calls.append(f"record {record.round}{' open' if record.open else ''}")
        self.records.append(record)

    async def rest(self) -> bool:
        self.calls.append("rest")
        if not self.pauses:
            return False
        self.pauses = False
        if self.stopped_while_resting:
            self.run.stop_requested = "Stopped early"
        return True

    async def continue_as_new(self) -> None:
        self.calls.append("continue_as_new")

    def ended(self, end: RunEnded) -> None:
        raise end


async def to_its_end(scripted: Scripted) -> RunEnded:
    loop = RoundLoop(scripted.run, scripted)
    try:
        await loop.measure_baseline()
        await loop.rounds()
    except RunEnded as end:
        return end


FREE: dict[str, Any] = {"max_rounds": 0, "no_improvement": 0}

BASELINE = ["show measuring the baseline", "flush", "measure 1 baseline", "record 0", "initialize"]
ASKS = ["check_clock", "stopped_by_policy", "stopped_by_optimizer", "rest", "continue_as_new"]
NOISE: dict[str, Any] = {"judgement": {"noise": {"samples": 4, "replicates": 2}}}


def round_of(number: int, trials: int) -> list[str]:
    shown = [f"show round {number}: proposing", "propose", f"show round {number}: {trials} trials"]
    return [*shown, f"measure {trials} candidate", "observe", f"record {number}"]


# -- the order ----------------------------------------------------------------------------------------------------------------


async def test_a_run_asks_in_this_order() -> None:
    scripted = Scripted(state(stop={"max_rounds": 2, "no_improvement": 0}), [[0.6, 0.4], [0.7]])
    end = await to_its_end(scripted)
    assert end.reason is StopReason.MAX_ROUNDS
    assert scripted.calls == [*BASELINE, *ASKS, *round_of(1, 2), *ASKS, *round_of(2, 1), "check_clock"]
    assert [record.best_so_far for record in scripted.records] == [0.5, 0.6, 0.7]
    assert [[fact.score for fact in facts] for facts in scripted.observed] == [[0.6, 0.4], [0.7]]


async def test_the_noise_is_measured_before_the_baseline() -> None:
    scripted = Scripted(state(stop={"max_rounds": 1, "no_improvement": 0}, **NOISE), [[0.6]])
    await to_its_end(scripted)
    assert scripted.calls[:5] == ["show measuring how much scores vary", "flush", "measure 1 noise", *BASELINE[:2]]


async def test_a_step_of_parts_leaves_its_round_open() -> None:
    part = Part(split="search", first=0, count=2)
    scripted = Scripted(state(stop={"max_rounds": 1, "no_improvement": 0}), [[part], [part, KEPT_OUT], [0.6]])
    await to_its_end(scripted)
    steps = [call for call in scripted.calls if call.startswith(("show round", "record"))]
    assert steps == [
        "record 0",
        "show round 1: proposing", "show round 1: 1 trials of some samples",
        "show round 1: proposing", "show round 1: 1 trials of some samples", "record 0 open",
        "show round 1: proposing", "show round 1: 1 trials", "record 1",
    ]  # fmt: skip
    assert [len(facts) for facts in scripted.observed] == [1, 1, 1]
    assert scripted.run.spending.spend.trials == 4


async def test_who_rested_is_asked_again_whether_to_stop() -> None:
    scripted = Scripted(state(stop=FREE), [[0.6]], pauses=True, stopped_while_resting=True)
    end = await to_its_end(scripted)
    assert (end.reason, end.by) == (StopReason.STOPPED_EARLY, "person")
    assert scripted.calls == [*BASELINE, *ASKS[:-1]]


async def test_a_round_goes_on_in_surroundings_that_want_to_see_more() -> None:
    scripted = Scripted(state(stop={"max_rounds": 1, "no_improvement": 0}), [[0.6], [0.7]])
    ends: list[str] = []

    def note(end: RunEnded) -> None:
        ends.append(end.message)
        if len(scripted.records) == 3:
            raise end

    scripted.ended = note  # type: ignore[method-assign]
    await to_its_end(scripted)
    assert [record.best_so_far for record in scripted.records] == [0.5, 0.6, 0.7]
    assert len(ends) == 2


# -- the end ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "script", "reason", "status", "by"),
    [
        ({"stop": {"max_rounds": 1}}, {}, StopReason.MAX_ROUNDS, "completed", "rules"),
        ({"stop": {**FREE, "score": 0.9}}, {"steps": [[0.6], [0.95]]}, StopReason.TARGET_REACHED, "completed", "rules"),
        (
            {"stop": {"max_rounds": 0, "no_improvement": 2}},
            {"steps": [[0.6], [0.4], [0.4], [0.4]]},
            StopReason.NO_IMPROVEMENT, "completed", "rules",
        ),
        ({"stop": FREE}, {}, StopReason.CONVERGENCE, "completed", "rules"),
        (
            {"stop": FREE, "budget": {"wall_time": "3h"}},
            {"steps": [[0.4]] * 5, "hours_per_step": 2},
            StopReason.TIME_BUDGET, "completed", "rules",
        ),
        ({"stop": FREE, "budget": {"samples": 35}}, {"steps": [[0.4]] * 5}, StopReason.SAMPLE_BUDGET, "completed", "rules"),
        ({"stop": FREE, "budget": {"tokens": 250}}, {"steps": [[0.4]] * 5}, StopReason.TOKEN_BUDGET, "completed", "rules"),
        ({"stop": FREE, "budget": {"cost": 0.25}}, {"steps": [[0.4]] * 5}, StopReason.COST_BUDGET, "completed", "rules"),
        (
            {"stop": FREE, "execution": {"max_consecutive_failed_trials": 2}},
            {"steps": [[FAILED]] * 5},
            StopReason.TOO_MANY_FAILURES, "failed", "rules",
        ),
        ({"stop": FREE}, {"steps": [[0.4]] * 5, "optimizer_stops_after": 2}, StopReason.CONVERGENCE, "completed", "optimizer"),
        ({"stop": FREE}, {"steps": [[0.6], [CANNOT_SCORE]]}, StopReason.SCORING_FAILURE, "failed", "rules"),
        ({"stop": FREE}, {"baseline": FAILED}, StopReason.BASELINE_FAILED, "failed", "rules"),
        ({"stop": FREE, **NOISE}, {"baseline": FAILED}, StopReason.BASELINE_FAILED, "failed", "rules"),
        ({"execution": {"first_look": "strict"}}, {"looks": ("None passes.",)}, StopReason.FIRST_LOOK, "failed", "rules"),
    ],
)  # fmt: skip
async def test_every_rule_ends_it(
    changes: dict[str, Any], script: dict[str, Any], reason: StopReason, status: str, by: str
) -> None:
    scripted = Scripted(state(**changes), **script)
    end = await to_its_end(scripted)
    assert (end.reason, end.status, end.by) == (reason, status, by)
    assert ("initialize" in scripted.calls) == (reason not in (StopReason.BASELINE_FAILED, StopReason.FIRST_LOOK))


@pytest.mark.parametrize(
    ("mode", "looks", "pauses"),
    [("ask", ("None passes.",), True), ("ask", (), False), ("tell", ("None passes.",), False), ("strict", (), False)],
)
async def test_where_the_first_look_finds_something_a_run_pauses_that_shall_ask(
    mode: str, looks: tuple[str, ...], pauses: bool
) -> None:
    scripted = Scripted(state(execution={"first_look": mode}, stop={"max_rounds": 1}), [[0.6]], looks=looks)
    await to_its_end(scripted)
    assert (scripted.run.paused, scripted.run.first_look) == (pauses, looks)


async def test_a_persons_word_comes_before_every_rule() -> None:
    scripted = Scripted(state(stop={"max_rounds": 1}), [[0.6]], optimizer_stops_after=0)
    scripted.run.stop_requested = "Stopped early: enough"
    end = await to_its_end(scripted)
    assert (end.reason, end.message) == (StopReason.STOPPED_EARLY, "Stopped early: enough")
    assert scripted.calls == BASELINE


# -- one loop -----------------------------------------------------------------------------------------------------------------


class Changed(Exception):
    """What the changed loop does."""


@pytest.fixture
def changed_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def step(self: RoundLoop) -> None:
        raise Changed

    monkeypatch.setattr(RoundLoop, "step", step)


@pytest.mark.usefixtures("changed_loop")
def test_the_test_kit_runs_this_loop() -> None:
    number = {"value": 0, "change": "structured", "type": "integer", "min": 0, "max": 9}
    refine = {"name": "refine", "proposer": {"kind": "step"}}
    with pytest.raises(Changed):
        simulate({"configuration": {"x": number}, "optimizer": refine}, World(target=lambda *_: 0.5, samples=range(2)))


async def workflow_replays() -> bool:
    document = json.loads((HISTORIES / "completed.json").read_text())
    history = WorkflowHistory.from_json(document["workflow_id"], document["history"])
    replayer = Replayer(workflows=[OptimizationWorkflow, TrialWorkflow], plugins=[ratchet_plugin()])
    return (await replayer.replay_workflow(history, raise_on_replay_failure=False)).replay_failure is None


async def test_the_workflow_runs_this_loop(request: pytest.FixtureRequest) -> None:
    assert await workflow_replays()
    request.getfixturevalue("changed_loop")
    assert not await workflow_replays()


@dataclass
class AsRecorded:
    """Trials come out as they are recorded."""

    tally: Gone = field(default_factory=Gone)

    async def trial(self, past: Iteration, asked: Asked) -> Recomputed:
        again = TrialResult(
            optimization_id="triage-1",
            candidate_id=past.candidate_id,
            mask_id=past.config_hash,
            experiment_id=past.trial_id,
            status=past.trial_status,
            objective_score=past.score,
            error=past.error,
        )
        return Recomputed(past, again)

    async def judged(self, reference: Iteration, candidate: Iteration, asked: Asked) -> Judged:
        raise NotImplementedError

    async def alike(self, before: Iteration, afresh: Iteration) -> bool:
        raise NotImplementedError


def recorded(*rounds: list[float], **changes: Any) -> RunFacts:
    """A run of which so many rounds are recorded, each with the scores of its candidates."""
    asked = request(**changes)
    made = RunState("triage-1", asked, NOW)
    made.open(Prepared(dataset_id="d" * 64, evaluation_suite_id="e" * 64, search_split=Split.ALL, search_samples=10))
    first = made.baseline_candidate(content_hash(asked.baseline))
    iterations = [_iteration(first, 0.5, Purpose.BASELINE)]
    for number, scores in enumerate(rounds, start=1):
        made.round = number - 1
        candidates, _ = made.admit([proposal(prompt=f"{number}.{place} {{{{input.q}}}}") for place in range(len(scores))])
        iterations += [_iteration(one, score) for one, score in zip(candidates, scores, strict=True)]
    decided = [RoundRecord(run_id="triage-1", round=number, decided_at=NOW) for number in range(len(rounds) + 1)]
    return RunFacts(
        run_id="triage-1",
        use_case="triage",
        experiment="triage",
        status="running",
        request=asked,
        started_at=NOW,
        iterations=tuple(iterations),
        rounds=tuple(decided),
        splits=(SplitSamples(split=Split.ALL, samples=10),),
    )


def _iteration(candidate: Candidate, score: float, purpose: Purpose = Purpose.CANDIDATE) -> Iteration:
    return Iteration(
        number=0,
        round=candidate.round,
        candidate_id=candidate.candidate_id,
        config_hash=candidate.config_hash,
        configuration=candidate.configuration,
        index=candidate.index,
        trial_id=f"triage-1/{candidate.candidate_id}",
        score=score,
        purpose=purpose,
        samples=10,
    )


@pytest.mark.usefixtures("changed_loop")
async def test_the_replay_of_decisions_runs_this_loop() -> None:
    with pytest.raises(Changed):
        await ReplayedRun(recorded([0.6]), AsRecorded()).again()


async def test_a_record_is_gone_through_to_its_last_round() -> None:
    replayed = ReplayedRun(recorded([0.6], [0.4, 0.7], stop=FREE), AsRecorded())
    again = await replayed.again()
    assert replayed.findings == []
    assert [record.best_so_far for record in again.rounds] == [0.5, 0.6, 0.7]
    assert [record.counts.completed for record in again.rounds] == [1, 2, 4]


async def test_a_record_that_goes_on_after_an_end_is_a_finding_and_is_gone_through_all_the_same() -> None:
    replayed = ReplayedRun(recorded([0.6], [0.7], [0.8], stop={"max_rounds": 1}), AsRecorded())
    again = await replayed.again()
    assert [found.field for found in replayed.findings] == ["rounds[1].stopped", "rounds[2].stopped"]
    assert all(str(found.recomputed).startswith("the run ends here: ") for found in replayed.findings)
    assert [record.best_so_far for record in again.rounds] == [0.5, 0.6, 0.7, 0.8]


async def test_a_record_that_goes_on_without_a_baseline_is_not_gone_through() -> None:
    facts = recorded([0.6], stop=FREE)
    broken = facts.iterations[0].model_copy(update={"score": None, "trial_status": "failed", "error": "no answer"})
    replayed = ReplayedRun(facts.model_copy(update={"iterations": (broken, *facts.iterations[1:])}), AsRecorded())
    again = await replayed.again()
    assert [found.field for found in replayed.findings] == ["rounds[1]"]
    assert replayed.findings[0].recomputed == "the run has ended: The baseline failed: no answer"
    assert len(again.rounds) == 1


async def test_a_record_that_goes_on_after_a_proposal_that_ends_the_run_is_a_finding() -> None:
    facts = recorded([0.6], stop=FREE)
    lost = RoundRecord(run_id="triage-1", round=2, decided_at=NOW, extra={PROPOSAL_FAILURE: "no answer"})
    replayed = ReplayedRun(facts.model_copy(update={"rounds": (*facts.rounds, lost)}), AsRecorded())
    again = await replayed.again()
    assert [(found.field, found.recomputed) for found in replayed.findings] == [("rounds[2]", "the run ended: no answer")]
    assert again.rounds[2].extra == lost.extra


BOOKS = {"record_baseline", "record_noise", "record_round", "round_record", "step_record", "unfinished_winner", "unmeasured"}


def test_nothing_else_keeps_the_books_of_a_round() -> None:
    """A second loop could not do without these."""
    callers: dict[str, set[str]] = {}
    for room in ("workflows", "clients", "activities", "store"):
        for path in (PRODUCT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    called = getattr(node.func, "attr", getattr(node.func, "id", ""))
                    callers.setdefault(called, set()).add(path.relative_to(PRODUCT).as_posix())
    loop = {"workflows/run/loop.py"}
    # The state's own method of that name asks the rule of that name.
    expected = {name: loop | ({"workflows/run/state.py"} if name == "unfinished_winner" else set()) for name in BOOKS}
    assert {name: callers[name] for name in BOOKS} == expected
