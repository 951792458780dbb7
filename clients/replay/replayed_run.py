"""A run's course, gone through again: the workflow's own loop takes the workflow's own decisions, round after round.

Taken as it is recorded is only what comes from outside: which configurations were proposed, what was answered, when
things happened, and what people asked for. Everything else follows.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from clients.replay.consistency import contradictions
from clients.replay.differences import NOTHING, ReplayDifference
from clients.replay.replayed_confirmation import ReplayedConfirmation
from clients.replay.trial_source import Asked, Recomputing, candidate_of
from clients.reports.facts import Iteration, RunFacts
from ratchet.optimizer import Part, StopReason
from workflows.model.run.candidates import Candidate, ReasonCode, Rejection
from workflows.model.run.contract import Prepared
from workflows.model.run.rounds import PROPOSAL_FAILURE, Counts, LimitsInForce, RoundRecord, Spend
from workflows.model.run.run_result import Confirmation, OptimizationResult
from workflows.model.trial import RUN_ENDED_FIRST, Purpose, Split, TrialResult
from workflows.rules.decisions.budget import TrialsLeft
from workflows.rules.statistics.detectable_effect import assumed_plan
from workflows.run.end.ended import RunEnded
from workflows.run.end.ending import ended_by_rules, ending_of, result_of, scoring_broke
from workflows.run.loop import RoundLoop, Surroundings
from workflows.run.references import planning_at_baseline, planning_of, race_of, references_of
from workflows.run.round_records import last_round
from workflows.run.state import RunState

REPORTED = "what the optimizer reported as its {name}"
GOES_ON = "the run goes on: no stop rule and no budget calls for an end"
OF_PEOPLE = {StopReason.STOPPED_EARLY, StopReason.CANCELLED}
OF_WHAT_WAS_MEASURED = {StopReason.SCORING_FAILURE, StopReason.FIRST_LOOK}
OF_PROPOSERS = {
    StopReason.PROPOSAL_FAILURE,
    StopReason.TIME_BUDGET,
    StopReason.SAMPLE_BUDGET,
    StopReason.TOKEN_BUDGET,
    StopReason.COST_BUDGET,
}


class _RecordOver(Exception):
    """The record tells of no further step."""


@dataclass(slots=True)
class ReplayedRun(Surroundings):
    """One run, gone through once: what `workflows.run.loop` runs in where everything is recorded already.

    For how long the run stood still is recorded with its rounds, what the optimizer made of them with its proposals.
    """

    facts: RunFacts
    trials: Recomputing
    findings: list[ReplayDifference] = field(default_factory=list)
    """What contradicts itself without being a recorded value that comes out otherwise."""
    _state: RunState = field(init=False)
    _now: datetime = field(init=False)
    _records: list[RoundRecord] = field(default_factory=list)
    _again: dict[str, Iteration] = field(default_factory=dict)
    _undecided: list[TrialResult] = field(default_factory=list)
    """Of trials of a round that was never decided: a run that was cancelled books them, where they have said how they ended."""
    _round_open: bool = False
    _step: list[Iteration] = field(default_factory=list)
    """The trials of the step that is gone through."""
    _asked: Asked = field(default_factory=Asked)
    """What the run wanted to know of them."""
    _end: RunEnded | None = None

    async def again(self) -> RunFacts:
        """The run as it comes out again."""
        facts = self.facts
        self.findings += contradictions(facts)
        self._now = self._started_at
        self._state = RunState(facts.run_id, facts.request, self._started_at)
        self._state.open(self._prepared())
        loop = RoundLoop(self._state, self)
        with suppress(_RecordOver):
            await loop.measure_baseline()
            await loop.rounds()
        self._never_reached()
        await self._left_over()
        result = await self._result()
        return self._facts(result)

    @property
    def _started_at(self) -> datetime:
        result = self.facts.result
        return result.started_at if result is not None and result.started_at is not None else self.facts.started_at

    def _prepared(self) -> Prepared:
        facts = self.facts
        samples = {drawn.split: drawn.samples for drawn in facts.splits}
        searched = samples[facts.search_split]
        return Prepared(
            dataset_id=facts.dataset_id or "",
            evaluation_suite_id=facts.evaluation_suite_id or "",
            search_split=facts.search_split,
            search_samples=searched,
            test_samples=samples.get(Split.TEST, 0),
            train_samples=samples.get(Split.TRAIN, 0) if facts.search_split is not Split.TRAIN else 0,
            plan=assumed_plan(facts.request, searched, samples.get(Split.TEST, 0)),
            cross_fits=not samples.get(Split.TEST) and not facts.request.dataset.holds_nothing_back,
            confirms_in_time=True,
        )

    # -- what the loop asks -----------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """When the newest round was decided."""
        return self._now

    def show(self, phase: str) -> None:
        """Nobody watches; but records say that the run went on."""
        self._state.status, self._state.phase = "running", phase

    async def measure(self, candidates: Sequence[Candidate], purpose: Purpose) -> list[TrialResult]:
        """The trials as they come out again."""
        if purpose is Purpose.NOISE:
            return [await self._noise()]
        if purpose is Purpose.BASELINE:
            return [await self._baseline(candidates[0])]
        in_full = sum(1 for candidate in candidates if candidate.part is None)
        self._asked = self._asked_of(in_full)
        asked = [self._asked if candidate.part is None else Asked() for candidate in candidates]
        return [await self._measured(past, wanted) for past, wanted in zip(self._step, asked, strict=True)]

    async def complete(self, candidate: Candidate, raced: TrialResult) -> TrialResult:
        """The trial in full. What its race lost is part of what is recorded."""
        [past] = [one for one in self._step if one.candidate_id == candidate.candidate_id]
        return await self._measured(past, Asked(self._asked.references, self._asked.race, in_full=True))

    async def _noise(self) -> TrialResult:
        recorded = self._further(Purpose.NOISE)
        if not recorded:
            if self.facts.iterations:
                self.findings.append(ReplayDifference("further", NOTHING, "the measurement of the noise"))
            raise _RecordOver
        return await self._measured(recorded[0], Asked(planning=planning_of(self._state)))

    async def _baseline(self, baseline: Candidate) -> TrialResult:
        """The first trial. A run without a decided round has not seen its result."""
        facts = self.facts
        if not facts.iterations:
            raise _RecordOver
        self._expect("iterations[0].candidate_id", facts.iterations[0].candidate_id, baseline.candidate_id)
        planning = planning_at_baseline(self._state) if facts.plan != self._state.plan else None
        result = await self._measured(facts.iterations[0], Asked(planning=planning))
        result = result.model_copy(update={"first_look": () if facts.first_look is None else facts.first_look.warnings})
        if not facts.rounds:
            raise _RecordOver
        self._in_the_time_of(facts.rounds[0])
        return result

    def _asked_of(self, candidates: int) -> Asked:
        return Asked(references_of(self._state), race_of(self._state, candidates) if candidates else None)

    async def propose(self) -> tuple[list[Candidate], list[Rejection]]:
        """What was tried in the next round: first all that was measured in part, then what decided the round."""
        state, facts = self._state, self.facts
        number = state.round + 1
        if state.best is None or len(self._records) >= len(facts.rounds):
            raise _RecordOver
        stored = facts.rounds[len(self._records)]
        if not self._round_open:
            self._round_open = True
            self._in_the_time_of(stored)
            self._proposals(number)
            self._step = [one for one in self._further(Purpose.EXPLORATION) if one.round == number]
            if self._step:
                return [self._in_part(one) for one in self._step], []
        self._step = [one for one in facts.iterations if one.round == number]
        candidates = [candidate_of(one) for one in self._step]
        rejections = [one for one in facts.rejections if one.round == number]
        state.counts = state.counts.model_copy(
            update={
                "proposed": state.counts.proposed + len(candidates) + len(rejections),
                "rejected": state.counts.rejected + len(rejections),
                "running": len(candidates),
            }
        )
        self._out_of_budget(candidates, rejections)
        self._lost(stored)
        return candidates, rejections

    def _in_part(self, past: Iteration) -> Candidate:
        split: Literal["train", "search"] = "search" if past.split == self.facts.search_split else "train"
        part = Part(split=split, first=past.first, count=past.samples)
        return candidate_of(past).model_copy(update={"part": part})

    def _proposals(self, number: int) -> None:
        spending = self._state.spending
        for cost in self.facts.proposals:
            if cost.round == number:
                spending.spend = _plus(spending.spend, Spend(tokens=cost.tokens, cost=cost.cost))

    def _out_of_budget(self, candidates: Sequence[Candidate], rejections: Sequence[Rejection]) -> None:
        """Nothing was admitted, and a budget was what kept it out: that ends the run."""
        state = self._state
        refused = any(one.reason_code is ReasonCode.BUDGET for one in rejections)
        if refused and not candidates:
            room = TrialsLeft(state.limits.budget, state.spending.spend, state.needs, state.spending.lost)
            room.take(state.needs.calls)
            state.spending.over = room.over

    def _lost(self, stored: RoundRecord) -> None:
        """Asking for proposals failed, which only the record knows."""
        why = stored.extra.get(PROPOSAL_FAILURE)
        if not isinstance(why, str):
            self._state.use_round()
        elif self._state.lose_round(why):
            self.findings.append(ReplayDifference(f"rounds[{len(self._records)}]", stored.round, f"the run ended: {why}"))

    def _in_the_time_of(self, stored: RoundRecord) -> None:
        """Take over when a round was decided, and what people had changed by then."""
        self._now = stored.decided_at
        self._state.time.paused_for = stored.paused_for
        self._in_force(stored.limits)

    def _in_force(self, limits: LimitsInForce | None) -> None:
        state = self._state
        if limits is not None:
            state.adjusted = True
            state.limits = replace(state.limits, stop=limits.stop, budget=limits.budget)

    def record(self, record: RoundRecord) -> None:
        """Keep the round as it comes out. Its notes are the optimizer's; rejections are kept apart from rounds."""
        stored = self.facts.rounds[len(self._records)]
        self._records.append(record.model_copy(update={"extra": stored.extra, "rejections": ()}))
        self._round_open = False

    def ended(self, end: RunEnded) -> None:
        """Stop here, unless the record goes on: then that is a finding. Limits within a round are not recorded."""
        if self._round_open and end.reason is not StopReason.SCORING_FAILURE:
            return
        done = len(self._records)
        if self._state.best is not None and done < len(self.facts.rounds):
            self.findings.append(ReplayDifference(f"rounds[{done - 1}].stopped", False, f"the run ends here: {end.message}"))
            return
        self._end = end
        raise _RecordOver

    def _never_reached(self) -> None:
        """Rounds that are recorded, although the run could not go on to them."""
        told = f"the run has ended: {self._end.message}" if self._end is not None else "there is no baseline to go on from"
        for place, stored in enumerate(self.facts.rounds):
            if place >= max(len(self._records), 1):
                self.findings.append(ReplayDifference(f"rounds[{place}]", stored.round, told))

    async def _left_over(self) -> None:
        """Trials of a round that was never decided, and of its steps."""
        opened = self._state.best is not None and self._state.baseline is not None
        left = [one for one in self.facts.iterations if one.trial_id not in self._again]
        asked = self._asked_of(len(left)) if opened else Asked()
        for one in left:
            self._undecided.append(await self._measured(one, replace(asked, in_full=_won_its_race(one))))

    # -- closing ----------------------------------------------------------------------------------------------------------

    async def _result(self) -> OptimizationResult | None:
        stored, state = self.facts.result, self._state
        if stored is None:
            return None
        await self._after_the_last_round(stored)
        end = self._end_again(stored)
        confirmation = await self._confirmed_again(stored) if end.status == "completed" else None
        result = result_of(state, end, confirmation, stored.finished_at or self.facts.started_at)
        ending = ending_of(state, end, stored.ending.decided_at) if stored.ending else None
        last = last_round(state, end.reason, end.status)
        if last is not None and self._records:
            self._records[-1] = last.model_copy(update={"extra": self._records[-1].extra})
        return result.model_copy(update={**self._reported(stored, result), "ending": ending})

    async def _confirmed_again(self, stored: OptimizationResult) -> Confirmation | None:
        past = self._further(Purpose.CONFIRMATION)
        course = ReplayedConfirmation(self.facts, self._state, self.trials, self._measured, self._again, self.findings)
        return await course.confirmation(stored.confirmation, past)

    def _reported(self, stored: OptimizationResult, result: OptimizationResult) -> dict[str, Any]:
        """What others than the frame put into the result: the optimizer, and whoever was asked for a release."""
        others = set(OptimizationResult.model_fields) - result.model_fields_set - {"ending"}
        told = {name: getattr(stored, name) for name in sorted(others)}
        for name in [name for name, value in told.items() if value is not None and name != "release"]:
            self.trials.tally.cannot(REPORTED.format(name=name))
        return told

    async def _parts(self, number: int) -> None:
        """The steps of a round that was never decided. Answers that cannot be scored ended it."""
        past = [one for one in self._further(Purpose.EXPLORATION) if one.round == number]
        results = [await self._measured(one, Asked()) for one in past]
        self._state.record_parts([self._in_part(one) for one in past], results)
        self._end = scoring_broke(results) or self._end

    async def _after_the_last_round(self, stored: OptimizationResult) -> None:
        """What was spent after the last decided round. A run that was interrupted booked only what it had waited for."""
        state = self._state
        before = state.spending.spend
        steps = [one.round for one in self.facts.proposals] + [one.round for one in self._further(Purpose.EXPLORATION)]
        for number in sorted(set(steps)):
            if number > state.round:
                await self._parts(number)
                self._proposals(number)
        refused = sum(one.round > state.round for one in self.facts.rejections)
        state.counts = state.counts.model_copy(
            update={"proposed": state.counts.proposed + refused, "rejected": state.counts.rejected + refused}
        )
        paid = [
            Spend(samples=one.paid_samples, trials=1, tokens=one.paid_tokens, cost=one.paid_cost) for one in self._undecided
        ]
        if stored.status != "completed" and _within(before, stored.spend, functools.reduce(_plus, paid, state.spending.spend)):
            state.spending.spend = stored.spend
            state.spending.lost, state.spending.reused = stored.lost, stored.reused
            state.counts = _interrupted(state.counts, stored.counts)
        if stored.ending is not None:
            state.time.paused_for = stored.ending.paused_for
            self._in_force(stored.ending.limits)

    def _end_again(self, stored: OptimizationResult) -> RunEnded:
        """The end as the rules have it, or as the record has it where rules have no say."""
        recorded = RunEnded(stored.stop_reason, stored.message, stored.status, by=stored.ending.by if stored.ending else None)
        if stored.ending is None:
            self.trials.tally.cannot("why the run ended: the record does not say who decided it")
            return recorded
        state, after_round = self._state, self._end
        if state.best is None and after_round is None:
            return recorded
        unusable = after_round is not None and (state.best is None or after_round.reason in OF_WHAT_WAS_MEASURED)
        by_rules = after_round if unusable else ended_by_rules(state, stored.ending.decided_at)
        by, reason = stored.ending.by, stored.stop_reason
        if by == "rules":
            if by_rules is None:
                self.findings.append(ReplayDifference("result.stop_reason", reason.value, GOES_ON))
            return by_rules or recorded
        own = {"person": OF_PEOPLE, "proposer": OF_PROPOSERS, "failure": {StopReason.EXECUTION_FAILURE}}.get(by)
        if own is not None and reason not in own:
            self.findings.append(ReplayDifference("result.stop_reason", reason.value, f"no end that comes from the {by}"))
        sooner = {"policy": by_rules, "optimizer": by_rules, "proposer": after_round}.get(by)
        if sooner is not None:
            self.findings.append(ReplayDifference("result.ending.by", by, f"rules: {sooner.message}"))
            return sooner
        status = {"person": "cancelled" if reason is StopReason.CANCELLED else "completed", "failure": "failed"}
        return RunEnded(reason, stored.message, status.get(by, "completed"), by=by)  # type: ignore[arg-type]

    # -- what comes out ---------------------------------------------------------------------------------------------------

    def _facts(self, result: OptimizationResult | None) -> RunFacts:
        facts, state = self.facts, self._state
        again = [self._again.get(one.trial_id, one).model_copy(update={"number": n}) for n, one in enumerate(facts.iterations)]
        further = [self._again.get(one.trial_id, one).model_copy(update={"number": 0}) for one in facts.further]
        every = [*again, *further]
        update: dict[str, Any] = {
            "iterations": tuple(again),
            "further": tuple(further),
            "rounds": tuple(self._records),
            "result": result,
            "plan": state.plan,
            "noise": state.noise,
            "answers": sum(one.statistics.sample_count for one in every),
            "reused": sum(one.reused for one in every),
        }
        if result is not None:
            counts = result.counts.model_copy(update={"running": 0})  # none runs any more
            spend = functools.reduce(_plus, self._not_waited_for(every, result), result.spend)
            update |= {"status": result.status, "counts": counts, "spend": spend}
        return facts.model_copy(update=update)

    def _not_waited_for(self, every: Sequence[Iteration], result: OptimizationResult) -> list[Spend]:
        """What trials were paid that the result of an interrupted run says nothing of: the run's row counts it."""
        undecided = {one.experiment_id for one in self._undecided}
        left = [one.paid for one in every if one.error == RUN_ENDED_FIRST or one.trial_id in undecided]
        missing = sum(one.paid.samples for one in every) - result.spend.samples
        if result.status == "completed" or not missing or missing != sum(paid.samples for paid in left):
            return []
        return [paid.model_copy(update={"trials": 0}) for paid in left]

    def _further(self, purpose: Purpose) -> list[Iteration]:
        return [one for one in self.facts.further if one.purpose is purpose]

    async def _measured(self, past: Iteration, asked: Asked) -> TrialResult:
        again = await self.trials.trial(past, asked)
        self._again[past.trial_id] = again.iteration
        return again.result

    def _expect(self, where: str, stored: Any, recomputed: Any) -> None:
        if stored != recomputed:
            self.findings.append(ReplayDifference(where, stored, recomputed))


def _won_its_race(past: Iteration) -> bool:
    """Whether it was measured in full, or on the way there, after its race was over."""
    return bool(past.looks) and not past.looks[-1].go_on and past.stopped_early is None


def _plus(one: Spend, other: Spend) -> Spend:
    return Spend(
        samples=one.samples + other.samples,
        trials=one.trials + other.trials,
        tokens=one.tokens + other.tokens,
        cost=one.cost + other.cost,
    )


def _interrupted(counts: Counts, stored: Counts) -> Counts:
    """Of a round that was never decided, only the totals say what was proposed and what was still running."""
    names = ("proposed", "rejected", "running")
    known = {name: max(getattr(counts, name), getattr(stored, name)) for name in names}
    return counts.model_copy(update=known)


def _within(low: Spend, spend: Spend, high: Spend) -> bool:
    slack = 1e-9
    return all(
        getattr(low, name) - slack <= getattr(spend, name) <= getattr(high, name) + slack
        for name in ("samples", "trials", "tokens", "cost")
    )


def plain(facts: RunFacts) -> Mapping[str, Any]:
    """The facts as plain values, without what replay has nothing to say about. Intervals follow from scores and samples, which
    are there; that the store's columns agree is looked at by itself."""
    trials = {"__all__": {"low", "high"}}
    left_out: dict[str, Any] = {"request": True, "slices": True, "releases": True, "iterations": trials, "further": trials}
    return facts.model_dump(mode="json", exclude=left_out)
