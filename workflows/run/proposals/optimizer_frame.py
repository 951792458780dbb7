"""What the run hands its optimizer, on top of activities."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from pydantic import JsonValue
from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from ratchet._formats.canonical import derive_seed
from ratchet.optimizer import Part, RunContext, StopReason
from ratchet.prompts.template import PromptTemplate
from workflows.contracts import Bookkeeping, Evaluating
from workflows.error_reason import reason_of
from workflows.model.activities.computation import ComputeInput, Reads
from workflows.model.activities.optimizer_steps import CustomStepInput, CustomStepResult, version_key
from workflows.model.failures import BUDGET_EXHAUSTED, WORKER_LOST
from workflows.model.run.candidates import Candidate
from workflows.model.run.contract import CandidateKey, ProposalInput, Proposed, RankedConfiguration, ShownSamples
from workflows.model.run.team_rest import TeamRest
from workflows.model.spec.extensions.proposers import AskedProposer
from workflows.model.spec.factors import Configuration, Factor, TextFactor
from workflows.optimizers.frame import Brief, BudgetRefused, ProposalFailed, Prospects, Shown
from workflows.policies import COMPUTE, PROPOSE, STORE, fitting_one_message
from workflows.rules.proposals.validation import Refusal
from workflows.rules.scoring.objective_score import describe_objective
from workflows.rules.spec.prompt_factors import template_of
from workflows.run.end.ended import RunEnded
from workflows.run.proposals.remaining_work import prospects_of
from workflows.run.state import RunState
from workflows.run.timed_calls import TimedCalls


class WorkflowFrame:
    """The optimizer's only door to the world: every call through it is an activity, recorded and retried."""

    def __init__(self, state: RunState, calls: TimedCalls, flush: Callable[[], Awaitable[None]]) -> None:
        self._state = state
        self._calls = calls
        self._flush = flush
        size = len(state.request.model_dump_json(include={"optimizer", "prices"}))
        self._room = asyncio.Semaphore(fitting_one_message(size))
        self._answers_before = 0

    def begin_step(self) -> None:
        """What is asked for from now on belongs to the next step of the round."""
        self._answers_before = self._state.open_round.answers

    @property
    def context(self) -> RunContext:
        return self._state.context()

    @property
    def factors(self) -> dict[str, Factor]:
        return self._state.request.factors_in_play

    @property
    def template(self) -> PromptTemplate | None:
        return template_of(self._state.request)

    @property
    def prospects(self) -> Prospects:
        return prospects_of(self._state)

    async def configuration(self, candidate_id: str) -> Configuration:
        """The best, the baseline and the newest are at hand; others are read from the store."""
        state = self._state
        if state.best and candidate_id == state.best.candidate_id:
            return state.best.configuration
        if state.last and candidate_id == state.last.candidate_id:
            return state.last.configuration
        if candidate_id in state.at_hand:
            return state.at_hand[candidate_id]
        return (await self.candidate_of(state.run_id, candidate_id)).configuration

    async def candidate_of(self, run_id: str, candidate_id: str) -> Candidate:
        """As it is stored, of any run."""
        key = CandidateKey(run_id=run_id, candidate_id=candidate_id)
        return await workflow.execute_activity_method(Bookkeeping.load_candidate, key, **STORE)

    async def new_values(
        self,
        proposer: AskedProposer,
        *,
        parent: str,
        factors: tuple[str, ...],
        index: int,
        feedback: str,
        configuration: Configuration | None = None,
        shown: tuple[Shown, ...] = (),
        brief: Brief | None = None,
    ) -> Proposed:
        """One answer of a model or a plug-in. The books are written first: a proposal may take minutes."""
        state = self._state
        place = state.answer_place(index, self._answers_before)
        await self._flush()
        assert state.prepared
        request = ProposalInput(
            run_id=state.run_id,
            round=state.round + 1,
            index=place,
            batch_position=index,
            side_by_side=1 if state.request.optimizer is None else state.request.optimizer.candidates_per_round,
            parent=parent,
            config_hash=state.hash_of(parent),
            configuration=configuration,
            factors=factors,
            proposer=proposer,
            feedback=feedback,
            objective=describe_objective(state.request.objective, state.request.metric),
            limits={name: factor.max_length for name, factor in self.factors.items() if isinstance(factor, TextFactor)},
            split=state.prepared.search_split,
            template=brief.template if brief else None,
            hall_of_fame=tuple(
                RankedConfiguration(config_hash=state.hash_of(name), score=score)
                for name, score in (brief.hall_of_fame if brief else ())
            ),
            shown=tuple(self._samples(samples) for samples in shown),
            seed=derive_seed(state.request.seed, "propose", state.round + 1, place),
            metered=state.metered,
            retry_of=state.request.retry_of,
            prices={name: price.model_dump() for name, price in state.request.prices.items()},
            priority=state.priority,
            rate_limits=state.rate_limits,
        )
        try:
            async with self._room:
                summary = f"round {request.round}: new values for {', '.join(factors)}"
                proposed = await self._calls.call(Evaluating.propose_values, request, summary=summary, policy=PROPOSE)
        except ActivityError as error:
            state.spending.add_answers(*_taken_in_vain(error))
            raise _as_told_to_optimizers(error) from error
        state.spending.add_answers(proposed.tokens, proposed.cost)
        return proposed

    def _samples(self, shown: Shown) -> ShownSamples:
        """The same for those who only know what is stored."""
        located = self._state.extents.located(Part(split=shown.split, first=shown.first, count=shown.count))
        if isinstance(located, Refusal):
            raise ValueError(f"shown: {located.message}")
        return ShownSamples(
            config_hash=self._state.hash_of(shown.candidate_id),
            split=self._state.split_of(located),
            first=located.first,
            count=located.count,
            limit=shown.limit,
            worst_first=shown.worst_first,
        )

    async def own_step(self, step: CustomStepInput) -> CustomStepResult:
        """One step of a user's optimizer, which reads the books."""
        await self._flush()
        state = self._state
        assert state.prepared
        ref = step.optimizer.ref
        fingerprint = state.prepared.versions.get(version_key("optimizer", ref), "")
        try:
            return await self._calls.call(
                Evaluating.step_optimizer,
                step.model_copy(update={"fingerprint": fingerprint, "search_split": state.prepared.search_split}),
                summary=f"round {state.round + 1}: {ref}",
                policy=PROPOSE,
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            raise RunEnded(StopReason.EXECUTION_FAILURE, reason_of(error), "failed") from error

    async def compute(
        self, function: str, arguments: Mapping[str, JsonValue], *, reads: Reads, plugin: str | None = None
    ) -> JsonValue:
        """One computation over what is stored, which the books are part of."""
        await self._flush()
        state = self._state
        request = ComputeInput(
            run_id=state.run_id,
            function=function,
            arguments=dict(arguments),
            reads=reads,
            config_hash=state.hash_of(reads.records.candidate_id) if reads.records else None,
            plugin=plugin,
        )
        try:
            summary = f"round {state.round + 1}: {function}"
            computed = await self._calls.call(
                Evaluating.compute, request, summary=summary, policy=COMPUTE, may_end_later=plugin is None
            )
        except ActivityError as error:
            raise _as_told_to_optimizers(error) from error
        return computed.value


def _taken_in_vain(error: ActivityError) -> tuple[int, float]:
    """Tokens and cost of answers that led to no proposal."""
    told = error.cause.details if isinstance(error.cause, ApplicationError) else ()
    return (int(told[1][0]), float(told[1][1])) if len(told) > 1 else (0, 0.0)


def _as_told_to_optimizers(error: ActivityError) -> BaseException:
    """What an optimizer may catch; a cancellation stays what it is."""
    if is_cancelled_exception(error):
        return error
    if isinstance(error.cause, ApplicationError) and error.cause.type == BUDGET_EXHAUSTED:
        resource, _, rest = (*error.cause.details, None, None)[:3]
        return BudgetRefused(resource, None if rest is None else TeamRest.model_validate(rest))
    if isinstance(error.cause, ApplicationError) and error.cause.type == WORKER_LOST:  # asking again would cost more workers
        return RunEnded(StopReason.EXECUTION_FAILURE, reason_of(error), "failed")
    return ProposalFailed(reason_of(error))
