"""Proposers that are activities of the user's: what they return is JSON of a stranger, and at worst a proposal that failed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from temporalio.exceptions import ApplicationError

from activities.budget.lease import BudgetLease
from activities.budget.metering import metered
from activities.endpoints.call_context import CallContext
from activities.plugins.own_activities import OwnActivities, OwnActivityAway, OwnActivityFailed
from activities.proposals.kept_requests import kept_request
from activities.shards.outcome_batches import until_back
from ratchet import Record
from ratchet._formats.canonical import canonical_json, content_hash
from store.write.proposals import ModelAnswer, ModelAnswers
from workflows.model.failures import PROPOSER_FAILED, shorten
from workflows.model.run.amounts import NOTHING, Amount
from workflows.model.run.contract import ProposalInput, Proposed
from workflows.model.spec.extensions.proposers import ActivityProposer
from workflows.model.spec.factors import Configuration
from workflows.rules.scoring.external_answers import bill_of


def asked_of(
    proposer: ActivityProposer, request: ProposalInput, configuration: Configuration, records: Sequence[Record]
) -> dict[str, Any]:
    """What the activity is told: the candidate to start from, what became of samples, and which factors may change."""
    return {
        "configuration": dict(configuration),
        "factors": list(request.factors),
        "records": [asdict(record) for record in records],
        "feedback": request.feedback,
        "objective": request.objective,
        "limits": dict(request.limits),
        "index": request.index,
        "seed": request.seed,
        "execution_params": dict(proposer.execution_params),
        "context": {"run_id": request.run_id, "round": request.round, "parent": request.parent},
    }


class ActivityProposals:
    """Asks activities, and keeps what they return as it comes: that is paid for, whatever becomes of it."""

    def __init__(
        self, answers: ModelAnswers, activities: OwnActivities | None, is_away: Callable[[BaseException], bool]
    ) -> None:
        self._answers = answers
        self._activities = activities
        self._is_away = is_away

    async def proposed(
        self,
        proposer: ActivityProposer,
        request: ProposalInput,
        asked: dict[str, Any],
        budget_lease: BudgetLease | None,
        context: CallContext,
    ) -> Proposed:
        """The new values that the activity gives. What cannot be used fails for good: the spec says how often it is tried."""
        key = content_hash({"activity": proposer.activity, "task_queue": proposer.task_queue, "asked": asked})
        known = await until_back(lambda: self._answers.load(request.run_id, key), self._is_away)
        if known is None:
            returned, bill = await self._returned(proposer, request, asked, context)
            text = canonical_json(returned)
            answer = ModelAnswer(
                request.round,
                request.index,
                text,
                cut_off=False,
                tokens=bill.tokens,
                cost=bill.cost,
                asked_of=proposer.activity,
                asked=await asyncio.to_thread(kept_request, asked),
            )
            known = await self._kept(request.run_id, key, answer, budget_lease)
        return _read(proposer, json.loads(known.text), known)

    async def _returned(
        self, proposer: ActivityProposer, request: ProposalInput, asked: dict[str, Any], context: CallContext
    ) -> tuple[Any, Amount]:
        if self._activities is None:
            raise _failed(proposer, "this worker calls no activities")
        stated = NOTHING if proposer.at_most is None else Amount(tokens=proposer.at_most.tokens, cost=proposer.at_most.cost)
        try:
            async with metered(context, lambda: stated) as call:
                returned = await self._activities.call(proposer, asked, f"{request.run_id}/propose")
                bill = bill_of(returned)
                call.took(bill.tokens, bill.cost)
                return returned, bill
        except (OwnActivityAway, OwnActivityFailed) as error:
            raise _failed(proposer, str(error)) from None

    async def _kept(self, run_id: str, key: str, answer: ModelAnswer, budget_lease: BudgetLease | None) -> ModelAnswer:
        """A store that is away is waited for."""
        answers = self._answers
        if budget_lease is None:
            return await until_back(lambda: answers.keep(run_id, key, answer), self._is_away)
        return await until_back(
            lambda: budget_lease.written_with(lambda name, balance: answers.keep(run_id, key, answer, (name, balance))),
            self._is_away,
        )


def _read(proposer: ActivityProposer, returned: Any, kept: ModelAnswer) -> Proposed:
    values = returned.get("values") if isinstance(returned, Mapping) else None
    if not isinstance(returned, Mapping) or not isinstance(values, Mapping):
        shown = shorten(repr(returned), 200)
        why = f"it returned {shown}; return an object with the new values by factor name as `values`"
        raise _failed(proposer, why, [kept.tokens, kept.cost])
    rationale = returned.get("rationale")
    told = shorten(rationale, 2_000) if isinstance(rationale, str) else None
    return Proposed(values=dict(values), rationale=told, tokens=kept.tokens, cost=kept.cost)


def _failed(proposer: ActivityProposer, why: str, took: list[float] | None = None) -> ApplicationError:
    """What an answer cost that led to nothing is told with the failure, for the run's books."""
    message = shorten(f"proposer {proposer.activity}: {why}")
    if took is None:
        return ApplicationError(message, type=PROPOSER_FAILED, non_retryable=True)
    return ApplicationError(message, None, took, type=PROPOSER_FAILED, non_retryable=True)
