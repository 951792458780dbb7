"""The run's books: standing, counts, spend and history, kept by plain methods that no Temporal is needed to test.

The workflow asks and tells; every number that a query, a report or a stop rule sees comes from here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ratchet._formats.canonical import normalize
from ratchet.optimizer import CandidateProposal, OptimizerState, Part, RunContext, StopFacts, TrialFacts, TrialHistory
from workflows.model.run.candidates import Candidate, Rejection
from workflows.model.run.contract import OpenRound, Pending, Prepared, Standing, TrialRow
from workflows.model.run.decisions import Decision, FrontMember
from workflows.model.run.rounds import Counts, LimitsInForce, RoundRecord, RunStatus
from workflows.model.spec.design import Design
from workflows.model.spec.execution import Adjustment, only_given
from workflows.model.spec.factors import Configuration
from workflows.model.spec.judgement import Noise, Plan
from workflows.model.spec.limits import changed_limits
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import Split, TrialResult
from workflows.rules.decisions.best import first_standing
from workflows.rules.decisions.budget import Needs, TrialsLeft, needs_of
from workflows.rules.decisions.round_decision import (
    Rules,
    decide_round,
    decided_against,
    decision_on_baseline,
    front_after,
    unfinished_winner,
)
from workflows.rules.decisions.stop_rules import Facts, Limits
from workflows.rules.decisions.trial_facts import facts_of
from workflows.rules.decisions.verdicts import Family, share_of_round
from workflows.rules.proposals.parts import Extents
from workflows.rules.proposals.validation import KnownConfigurations, candidate_name
from workflows.run.proposals.admission import Admission, AdmissionStep
from workflows.run.run_time import RunTime
from workflows.run.spending import Spending

NEWEST = 100
"""How many trials, rounds and rejections queries answer from; the store has all."""

MOST_AT_HAND = 64
"""Configurations kept in memory; of older candidates the store is asked."""

MOST_STEPS = 1_000
"""Of one round: an optimizer that measures parts for ever would otherwise never meet a rule that counts rounds."""


class RunState:
    """What is known of a run. Decisions are taken elsewhere, from what stands here."""

    def __init__(self, run_id: str, request: OptimizationRequest, started_at: datetime) -> None:
        self.run_id = run_id
        self.request = request
        self.time = RunTime(started_at)
        self.status: RunStatus = "initialized"
        self.phase = "preparing"
        several = request.optimizer.candidates_per_round > 1
        self.limits = Limits(request.stop, request.budget, request.execution.max_consecutive_failed_trials, several)
        self.concurrent_trials = request.execution.concurrent_trials
        self.concurrent_samples = request.execution.concurrent_samples
        self.priority = request.execution.priority
        self.rate_limits = request.execution.rate_limits
        self.prepared: Prepared | None = None
        self.round = 0
        self.baseline: TrialFacts | None = None
        self.best: Standing | None = None
        self.last: Candidate | None = None
        self.optimizer_state = OptimizerState()
        self.counts = Counts()
        self.spending = Spending()
        self.budget_adjusted = False
        self.adjusted = False
        """Whether stop rules or the budget are no longer those of the spec."""
        self.consecutive_failures = 0
        self.rounds_without_admission = 0
        self.paused = False
        self.stop_requested: str | None = None
        self.waiting: list[Pending] = []
        self.executions = 1
        self.history: list[TrialFacts] = []
        self.recent_trials: list[TrialResult] = []
        self.recent_rejections: list[Rejection] = []
        self.recent_rounds: list[RoundRecord] = []
        self.recent_parts: list[TrialFacts] = []
        self.open_round = OpenRound()
        self.rounds_without_proposal = 0
        """In a row, without a proposal."""
        self.lost_why: str | None = None
        """Why this round has none."""
        self.last_failure: str | None = None
        """Why the newest failed trial failed."""
        self.at_hand: dict[str, Configuration] = {}
        """Configurations of the newest candidates."""
        self.decisions: list[Decision] = []
        """What the newest round decided about its candidates."""
        self.front: tuple[FrontMember, ...] = ()
        self.noise: Noise | None = None
        self.plan: Plan | None = None
        """What the run can find out."""
        self.first_look: tuple[str, ...] = ()
        """What is probably wrong, as the baseline's answers tell it."""
        self._admission = Admission(request.factors_in_play)

    def open(self, prepared: Prepared) -> None:
        """Go on with what was found out. What the spec only named is part of the request from here on, and so is what
        plug-ins say of themselves."""
        self.request = self.request.described(prepared.descriptions)
        stop = self.limits.stop.model_copy(update={"policy": self.request.stop.policy})
        self.limits = replace(self.limits, stop=stop)
        if prepared.read is not None:
            prompt, snapshot = self.request.prompt, prepared.read.snapshot
            prompt = prompt if prompt is None else prompt.model_copy(update={"snapshot": snapshot})
            configuration = prepared.read.configuration
            self.request = self.request.model_copy(update={"configuration": configuration, "prompt": prompt})
            self._admission = Admission(self.request.factors_in_play)
        if prepared.prices:
            self.request = self.request.model_copy(update={"prices": {**prepared.prices, **self.request.prices}})
        self.prepared = prepared.model_copy(update={"read": None})
        self.plan = prepared.plan

    def remember(self, rows: Sequence[TrialRow]) -> None:
        """Trials of earlier executions, read back from the store."""
        for row in rows:
            trial = row.facts
            if trial.part is not None:
                self._admission.note_part(trial.candidate_id, trial.config_hash, trial.parent_candidate_ids)
                self._admission.note_answers(trial, trial.part)
                continue
            self.history.append(trial)
            replicates = self.design.replicates if trial.round else self._replicates_of_baseline
            self._admission.note(trial.candidate_id, trial.config_hash, row.first_replicate + replicates)
            if row.first_replicate == 0:
                self._admission.note_answers(trial, self.extents.whole)

    # -- rounds -----------------------------------------------------------------------------------------------------------

    def baseline_candidate(self, config_hash: str) -> Candidate:
        """Round 0: the configuration as given."""
        name = candidate_name(0, config_hash, ())
        self._admission.note(name, config_hash, self._replicates_of_baseline)
        self.counts = self.counts.model_copy(update={"running": 1})
        return Candidate(
            candidate_id=name,
            config_hash=config_hash,
            configuration=self._baseline_configuration(),
            round=0,
            index=0,
            extra={"origin": "baseline"},
        )

    @property
    def _replicates_of_baseline(self) -> int:
        """How often it answers a sample at most."""
        noise = self.request.noise_first
        return max(self.design.baseline_replicates, noise.replicates if noise else 0)

    def admit(self, proposals: Sequence[CandidateProposal]) -> tuple[list[Candidate], list[Rejection]]:
        """Judge a step's proposals, in their order, against everything tried before and against each other."""
        room = TrialsLeft(self.limits.budget, self.spending.spend, self.needs, self.spending.lost)
        step = AdmissionStep(self.round + 1, self.open_round.proposals, self.design.replicates, self.extents)
        candidates, rejections = self._admission.admit(proposals, step, room)
        parts = sum(1 for candidate in candidates if candidate.part is not None)
        self._count_proposals(len(proposals) - parts, rejections, len(candidates) - parts)
        taken = self.open_round.proposals + len(proposals)
        self.open_round = self.open_round.model_copy(update={"proposals": taken})
        self.spending.over = None if candidates else room.over
        self._keep_at_hand(candidates)
        return candidates, rejections

    def _keep_at_hand(self, candidates: Sequence[Candidate]) -> None:
        for candidate in candidates:
            self.at_hand.pop(candidate.candidate_id, None)
            self.at_hand[candidate.candidate_id] = candidate.configuration
        for oldest in list(self.at_hand)[:-MOST_AT_HAND]:
            del self.at_hand[oldest]

    def lose_round(self, why: str) -> bool:
        """The optimizer has nothing to propose in this round, because what it asked for failed. Whether that ends the run."""
        self.rounds_without_proposal, self.lost_why = self.rounds_without_proposal + 1, why
        return self.rounds_without_proposal >= self.request.optimizer.most_lost_rounds

    def use_round(self) -> None:
        """The optimizer has something to propose, or knows that it has nothing."""
        self.rounds_without_proposal, self.lost_why = 0, None

    def answer_place(self, index: int, before: int) -> int:
        """The place in the round of an answer of a model or a plug-in, which is the step's nth."""
        place = before + index
        self.open_round = self.open_round.model_copy(update={"answers": max(self.open_round.answers, place + 1)})
        return place

    def _baseline_configuration(self) -> Configuration:
        """In canonical form, like every other candidate's: `1.0` in the spec is tried and shipped as `1`."""
        return {name: normalize(value) for name, value in self.request.baseline.items()}

    def baseline_candidate_again(self) -> Candidate:
        """Round 0 once more, for the confirmation."""
        assert self.baseline
        return Candidate(
            candidate_id=self.baseline.candidate_id,
            config_hash=self.baseline.config_hash,
            configuration=self._baseline_configuration(),
            round=0,
            index=0,
        )

    def best_candidate(self) -> Candidate:
        """The best candidate once more, for the confirmation."""
        assert self.best
        return Candidate(
            candidate_id=self.best.candidate_id,
            config_hash=self.best.config_hash,
            configuration=self.best.configuration,
            round=self.best.round,
            index=0,
        )

    def with_fresh_answers(self, candidate: Candidate) -> Candidate:
        """The same once more on samples that it has answered already."""
        used = self._admission.replicates_used(candidate.config_hash)
        return candidate.model_copy(update={"first_replicate": used})

    def _count_proposals(self, proposed: int, rejections: Sequence[Rejection], running: int) -> None:
        self.recent_rejections = [*self.recent_rejections, *rejections][-NEWEST:]
        self.counts = self.counts.model_copy(
            update={
                "proposed": self.counts.proposed + proposed,
                "rejected": self.counts.rejected + len(rejections),
                "running": running,
            }
        )

    def record_noise(self, result: TrialResult) -> None:
        """What was learned of the noise decides how much is measured, where the spec leaves that open."""
        self.spending.add_trial(result)
        if result.plan is not None:
            self.noise, self.plan = result.noise, result.plan

    def record_baseline(self, candidate: Candidate, result: TrialResult) -> TrialFacts:
        """The baseline stands as the best until something beats it. Its answers tell what can be found out."""
        self.plan, self.first_look = result.plan or self.plan, result.first_look
        self.decisions = [decision_on_baseline(candidate, result)]
        self.baseline = self._state(candidate, result, self.decisions[0])
        if self.baseline.score is not None:
            self.best = first_standing(candidate, self.baseline.score)
        return self.baseline

    def ends_round(self, candidates: Sequence[Candidate]) -> bool:
        """Whether a step decides the round. One that only measures parts goes on with it."""
        only_parts = bool(candidates) and all(candidate.part is not None for candidate in candidates)
        return not only_parts or self.open_round.steps + 1 >= MOST_STEPS

    def record_parts(self, candidates: Sequence[Candidate], results: Sequence[TrialResult]) -> list[TrialFacts]:
        """Book a step's trials of parts: they are paid for and told to the optimizer, and decide nothing."""
        self.open_round = self.open_round.model_copy(update={"steps": self.open_round.steps + 1})
        learned = []
        for candidate, result in zip(candidates, results, strict=True):
            if candidate.part is None:
                continue
            facts = facts_of(candidate, result, Decision(candidate_id=candidate.candidate_id), self.split_of(candidate.part))
            self.spending.add_trial(result)
            self._count_failure(result)
            self._admission.note_answers(facts, candidate.part)
            learned.append(facts)
        self.recent_parts = [*self.recent_parts, *learned][-NEWEST:]
        return learned

    def split_of(self, part: Part) -> Split:
        """Where the samples of a part are."""
        assert self.prepared
        return Split.TRAIN if part.split == "train" else self.prepared.search_split

    def unfinished_winner(
        self, candidates: Sequence[Candidate], results: Sequence[TrialResult], finished: Collection[int]
    ) -> int | None:
        """The place of a candidate that will be the best, but was not measured in full yet."""
        assert self.best and self.baseline
        places = [place for place, candidate in enumerate(candidates) if candidate.part is None]
        found = unfinished_winner(
            self.best,
            self.baseline.candidate_id,
            [candidates[place] for place in places],
            [results[place] for place in places],
            self._rules(self.round + 1),
            [places.index(place) for place in finished],
        )
        return None if found is None else places[found]

    def record_round(self, candidates: Sequence[Candidate], results: Sequence[TrialResult]) -> list[TrialFacts]:
        """Book a round's trials in the order of their proposals; the order in which they finished decides nothing."""
        assert self.best and self.baseline
        self.round += 1
        self.open_round = OpenRound()
        if candidates or self.lost_why is None:
            self.rounds_without_admission = 0 if candidates else self.rounds_without_admission + 1
        baseline, rules = self.baseline.candidate_id, self._rules(self.round)
        results = [result for candidate, result in zip(candidates, results, strict=True) if candidate.part is None]
        candidates = [candidate for candidate in candidates if candidate.part is None]
        self.best, self.decisions = decide_round(self.best, baseline, candidates, results, rules)
        self.front = front_after(self.front, baseline, results, rules.judgement, self.request.metric, rules.family.share)
        return [self._state(*booked) for booked in zip(candidates, results, self.decisions, strict=True)]

    def family_of(self, number: int) -> Family:
        """What a round's decision is corrected for beside its own candidates. A best of several trials was lucky."""
        assert self.best and self.baseline
        spec, baseline = self.request.judgement, self.baseline.candidate_id
        share = share_of_round(spec, number, rounds=self.request.optimizer.rounds)
        against = decided_against(spec, baseline, self.best.candidate_id)
        chosen = against != baseline or (spec.accept == "score" and spec.rule == "improvement")
        scored = sum(1 for trial in self.history if trial.score is not None)
        return Family(share, max(scored, 1) if chosen else 1)

    def _rules(self, number: int) -> Rules:
        return Rules(
            self.request.judgement,
            self.request.objective.direction,
            self.limits.stop.min_delta,
            self.request.optimizer.prefers_shorter,
            self.family_of(number),
        )

    def _state(self, candidate: Candidate, result: TrialResult, decision: Decision) -> TrialFacts:
        facts = facts_of(candidate, result, decision)
        self.history.append(facts)
        if candidate.first_replicate == 0:
            self._admission.note_answers(facts, self.extents.whole)
        self.recent_trials = [*self.recent_trials, result][-NEWEST:]
        self.last = candidate
        self._count_failure(result)
        outcome = {"completed": "completed", "failed": "failed"}.get(result.status, "stopped")
        self.counts = self.counts.model_copy(
            update={outcome: getattr(self.counts, outcome) + 1, "running": max(self.counts.running - 1, 0)}
        )
        self.spending.add_trial(result)
        return facts

    def _count_failure(self, result: TrialResult) -> None:
        failed = result.status == "failed"
        self.consecutive_failures = self.consecutive_failures + 1 if failed else 0
        self.last_failure = result.error if failed else self.last_failure

    @property
    def design(self) -> Design:
        """How much is measured of every configuration."""
        if self.plan is not None and self.noise is not None and self.request.replicates == "auto":
            plan = self.plan
            return Design(samples=plan.samples, replicates=plan.replicates, baseline_replicates=plan.baseline_replicates)
        return self.request.design(self.prepared.search_samples if self.prepared else 0)

    @property
    def extents(self) -> Extents:
        """How many samples there are to measure."""
        return Extents(self.design.samples, self.prepared.train_samples if self.prepared else 0)

    # -- asked by the workflow and by stop rules --------------------------------------------------------------------------

    @property
    def needs(self) -> Needs:
        """What one trial, and the confirmation, ask of the budget."""
        return needs_of(self.request, self.design, self.prepared.test_samples if self.prepared else 0)

    @property
    def waits_after_first_look(self) -> bool:
        """Whether a person is asked whether to go on: before the first round, where something is probably wrong."""
        return bool(self.first_look) and self.request.execution.first_look == "ask" and self.round == 0

    @property
    def is_confirmed(self) -> bool:
        """Whether a winner has to be confirmed to be the result."""
        prepared = self.prepared
        return prepared is not None and bool(prepared.test_samples or prepared.cross_fits or self.needs.confirmation_calls)

    @property
    def metered(self) -> bool:
        """Whether what calls take is set aside before they are made."""
        budget = self.limits.budget
        of_team = self.prepared is not None and self.prepared.team_budgeted
        return of_team or bool(budget.samples or budget.tokens or budget.cost)

    @property
    def trial_history(self) -> TrialHistory:
        """Every finished trial, for the optimizer. Built without validating again what was validated before."""
        return TrialHistory.model_construct(trials=tuple(self.history))

    @property
    def limits_if_adjusted(self) -> LimitsInForce | None:
        """The limits in force, where they are not those of the spec."""
        return LimitsInForce(stop=self.limits.stop, budget=self.limits.budget) if self.adjusted else None

    @property
    def end_of_time(self) -> datetime | None:
        """When the time budget is over."""
        return self.time.end_of(self.limits.budget.wall_time)

    @property
    def deadline(self) -> datetime | None:
        """When the time of the search is over."""
        end = self.end_of_time
        return None if end is None else end - self.time_to_confirm

    @property
    def time_to_confirm(self) -> timedelta:
        """What the search leaves of the time budget: what the confirmation takes, if its calls take as long as those of the
        opening did, but never more than half of it."""
        allowed, needs = self.limits.budget.wall_time, self.needs
        if not allowed or self.prepared is None or not self.prepared.confirms_in_time or not needs.opening_calls:
            return timedelta(0)
        return min(self.time.opened_in * (needs.confirmation_calls / needs.opening_calls), allowed / 2)

    def is_out_of_time(self, now: datetime) -> bool:
        """Whether the time of the search is over, by what is known."""
        allowed = self.limits.budget.wall_time
        return bool(allowed) and self.time.elapsed(now) + self.time_to_confirm >= allowed

    def note_metered(self, result: TrialResult) -> None:
        """Its team may have been given its first budget while the run was under way: a trial that was metered tells of it."""
        if result.metered and not self.metered and self.prepared is not None:
            self.prepared = self.prepared.model_copy(update={"team_budgeted": True})

    def facts(self, now: datetime) -> Facts:
        """What stop rules look at."""
        return Facts(
            round=self.round,
            best_score=self.best.score if self.best else None,
            improved_round=self.best.since_round if self.best else 0,
            elapsed=self.time.elapsed(now),
            time_to_confirm=self.time_to_confirm,
            spend=self.spending.counted,
            rounds_without_admission=self.rounds_without_admission,
            consecutive_failures=self.consecutive_failures,
            direction=self.request.objective.direction,
        )

    def facts_for_policy(self, now: datetime) -> StopFacts:
        """What a stop policy of the user's is told; the trials are read from the store."""
        facts = self.facts(now)
        return StopFacts(
            round=facts.round,
            direction=facts.direction,
            baseline_score=self.baseline.score if self.baseline else None,
            best_score=facts.best_score,
            best_candidate_id=self.best.candidate_id if self.best else None,
            improved_round=facts.improved_round,
            elapsed_seconds=facts.elapsed.total_seconds(),
            **facts.spend.model_dump(),
        )

    def context(self) -> RunContext:
        """What the optimizer is told once the baseline stands."""
        assert self.prepared and self.baseline and self.baseline.score is not None
        return RunContext(
            optimization_id=self.run_id,
            evaluation_suite_id=self.prepared.evaluation_suite_id,
            objective_name=self.request.metric,
            direction=self.request.objective.direction,
            baseline_candidate_id=self.baseline.candidate_id,
            baseline_score=self.baseline.score,
            max_candidates_per_step=self.request.optimizer.candidates_per_round,
            factors=tuple(self.request.optimizer.factors or self.request.changeable),
            seed=self.request.seed,
            search_samples=self.extents.search,
            train_samples=self.extents.train or self.extents.search,
        )

    def hash_of(self, candidate_id: str) -> str:
        """The configuration of a candidate, by its hash."""
        return self._admission.hash_of(candidate_id)

    def known(self) -> KnownConfigurations:
        """What a person's own proposal is checked against before it is queued."""
        return self._admission.known()

    # -- told by people ---------------------------------------------------------------------------------------------------

    def adjust(self, adjustment: Adjustment) -> None:
        """Apply new limits; what is left out stays."""
        given = only_given(adjustment)
        self.concurrent_trials = given.get("concurrent_trials", self.concurrent_trials)
        self.concurrent_samples = given.get("concurrent_samples", self.concurrent_samples)
        self.priority = given.get("priority", self.priority)
        self.rate_limits = changed_limits(self.rate_limits, given.get("rate_limits", {}))
        rules = ("max_rounds", "no_improvement", "min_delta", "score")
        stop: dict[str, object] = {name: given[name] for name in rules if name in given}
        budget = only_given(adjustment.budget) if adjustment.budget else {}
        if budget:
            self.budget_adjusted, self.spending.exhausted, self.spending.over = True, None, None
            self.spending.team_rest = None
        self.adjusted = self.adjusted or bool(stop or budget)
        self.limits = replace(
            self.limits,
            stop=self.limits.stop.model_copy(update=stop),
            budget=self.limits.budget.model_copy(update=budget),
        )
