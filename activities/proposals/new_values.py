"""New values for factors: from a chat model that is shown what went wrong, or from a plug-in. Paid for once, then stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.budget.lease import BudgetLease, fresh_nonce
from activities.budget.metering import BudgetExhausted
from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_models import ChatModels
from activities.plugins.calls import PluginCalls
from activities.plugins.isolation import IsolatedFault, Isolation
from activities.plugins.loader import Plugins
from activities.plugins.lost_attempts import attempts_before, failure_of_isolated, refuse_killers
from activities.plugins.own_activities import OwnActivities
from activities.plugins.probe import LONGEST_IMPORT, import_elsewhere
from activities.proposals.activity_proposer import ActivityProposals, asked_of
from activities.proposals.kept_requests import kept_request, proposed_hash
from activities.proposals.model_proposer import Reflecting
from activities.proposals.reflection_prompt import Material
from activities.shards.outcome_batches import until_back
from activities.targets.attached_files import attached_to_reader
from ratchet import Record
from ratchet._formats.canonical import NotCanonical, canonical_json, normalize
from store.budget_leases import LeaseBalance, LeaseKey
from store.write.proposals import ProposalOrigin
from store.write.repositories import Store
from workflows.model.failures import BUDGET_EXHAUSTED, PROPOSER_FAILED, described, shorten
from workflows.model.run.contract import ProposalInput, Proposed
from workflows.model.spec.extensions.proposers import ActivityProposer, ModelProposer, PythonProposer
from workflows.model.spec.factors import LARGEST_CONFIGURATION, Configuration


@dataclass(frozen=True, slots=True)
class _Written:
    """What a proposer made of a request."""

    proposed: Proposed
    configuration: Configuration
    """That it started from."""
    asked: Any = None
    """What a plug-in was called with; what others were asked is stored with each of their answers."""


class Proposing:
    """Asks for proposals on behalf of an optimizer."""

    def __init__(
        self,
        store: Store,
        models: ChatModels,
        plugins: Plugins,
        calls: PluginCalls,
        is_away: Callable[[BaseException], bool],
        isolation: Isolation | None = None,
        own_activities: OwnActivities | None = None,
    ) -> None:
        self._by_activities = ActivityProposals(store.model_answers, own_activities, is_away)
        self._isolation = isolation or Isolation()
        self._store = store
        self._models = models
        self._plugins = plugins
        self._calls = calls
        self._is_away = is_away

    async def propose(self, request: ProposalInput, context: CallContext) -> Proposed:
        known = await self._store.proposals.load(request.run_id, request.round, request.index)
        if known is not None:
            return known
        if request.metered:
            budget_lease = self._budget_lease(request)
            async with budget_lease.open():
                return await self._within(budget_lease, request, context)
        return await self._kept(request, await self._proposed(request, None, context), None)

    async def _within(self, budget_lease: BudgetLease, request: ProposalInput, context: CallContext) -> Proposed:
        reservation = await budget_lease.reservation()
        try:
            written = await self._proposed(request, budget_lease, replace(context, meter=reservation))
        except BudgetExhausted as error:
            raise _exhausted(error, (0, 0.0)) from None
        finally:
            reservation.close()
        return await budget_lease.written_with(lambda key, balance: self._kept(request, written, (key, balance)))

    def _budget_lease(self, request: ProposalInput) -> BudgetLease:
        holder = f"proposal {request.round}/{request.index}"
        key = LeaseKey(request.run_id, holder, activity.info().attempt, fresh_nonce())
        meters = self._models.observation.meters
        return BudgetLease(self._store.budgets, key, self._is_away, samples_each=0, meters=meters)

    async def _kept(self, request: ProposalInput, written: _Written, lease: tuple[LeaseKey, LeaseBalance] | None) -> Proposed:
        """It is paid for: a store that is away is waited for."""
        place = (request.run_id, request.round, request.index)
        asked = None if written.asked is None else await asyncio.to_thread(kept_request, written.asked)
        made = await asyncio.to_thread(_made_hash, request, written)
        origin = ProposalOrigin(request.config_hash, made, request.proposer.asked_of, asked)
        return await until_back(lambda: self._store.proposals.store(*place, written.proposed, origin, lease), self._is_away)

    async def _proposed(self, request: ProposalInput, budget_lease: BudgetLease | None, context: CallContext) -> _Written:
        configuration = request.configuration or await self._store.overlays.load(request.config_hash)
        if request.retry_of is not None:
            place = (request.retry_of, request.round, request.index)
            known = await self._store.proposals.load_of(*place, request.config_hash)
            if known is not None:
                return _Written(known, configuration)
        records = await self._shown(request)
        match request.proposer:
            case ModelProposer() as proposer:
                answers = self._store.model_answers
                files = await attached_to_reader(self._store.files, (record.inputs for record in records), proposer.files)
                records = [replace(record, inputs=files.marked(record.inputs)) for record in records]
                reflecting = Reflecting(answers, self._models, self._is_away, request, proposer, budget_lease, context, files)
                with telling_what_it_took(reflecting):
                    answered = await reflecting.proposed(configuration, Material(records, await self._hall_of_fame(request)))
                    return _Written(_canonical_values(answered), configuration)
            case PythonProposer() as proposer:
                told = {
                    "current": dict(configuration),
                    "records": [asdict(record) for record in records],
                    "factors": list(request.factors),
                }
                answered = await self._returned_by_plugin(request, proposer, configuration, records)
                return _Written(answered, configuration, told)
            case ActivityProposer() as proposer:
                asked = asked_of(proposer, request, configuration, records)
                proposed = await self._by_activities.proposed(proposer, request, asked, budget_lease, context)
                values = _canonical(proposed.values, f"proposer {proposer.activity}")
                return _Written(proposed.model_copy(update={"values": values}), configuration)

    async def _hall_of_fame(self, request: ProposalInput) -> list[tuple[float, Configuration]]:
        return [(ranked.score, await self._store.overlays.load(ranked.config_hash)) for ranked in request.hall_of_fame]

    async def _shown(self, request: ProposalInput) -> Sequence[Record]:
        """What the proposer reads about: the parent's samples, or those that the optimizer names."""
        usual = request.proposer.examples
        if not request.shown:
            return await self._store.evaluated_samples.records(request.run_id, request.split, request.config_hash, usual)
        records: list[Record] = []
        for named in request.shown:
            records += await self._store.evaluated_samples.records(
                request.run_id,
                named.split,
                named.config_hash,
                usual if named.limit is None else named.limit,
                named.worst_first,
                named.first,
                named.count,
            )
        return records

    async def _returned_by_plugin(
        self, request: ProposalInput, proposer: PythonProposer, configuration: Configuration, records: Sequence[Record]
    ) -> Proposed:
        arguments = (dict(configuration), list(records), list(request.factors))
        offered = {"index": request.index, "seed": request.seed}
        if attempts_before().isolates:
            return await self._isolated(proposer, *arguments, offered)
        await import_elsewhere(self._plugins, [proposer.ref], LONGEST_IMPORT)
        plugin = await self._calls.threads.run(partial(self._plugins.resolve, proposer.ref, 3))
        named = plugin.taken(offered)
        try:
            returned = await self._calls.call(plugin, *arguments, **named)
            if isinstance(returned, Mapping):
                await self._calls.threads.run(partial(plugin.validate, returned, configuration))
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            raise ApplicationError(
                shorten(f"proposer {proposer.ref} raised {described(error)}"), type=PROPOSER_FAILED
            ) from error
        if not isinstance(returned, Mapping):
            raise _no_mapping(proposer.ref, type(returned).__name__)
        return Proposed(values=_canonical(returned, f"proposer {proposer.ref}"))

    async def _isolated(
        self,
        proposer: PythonProposer,
        configuration: Configuration,
        records: Sequence[Record],
        factors: Sequence[str],
        offered: Mapping[str, int],
    ) -> Proposed:
        """By a proposer that may be what killed the workers before."""
        refuse_killers([f"{proposer.ref} (proposer)"])
        told = {"configuration": configuration, "records": [asdict(record) for record in records], "factors": list(factors)}
        try:
            returned = await self._isolation.call(self._plugins, proposer.ref, "proposer", {**told, "offered": dict(offered)})
        except IsolatedFault as fault:
            raise failure_of_isolated(fault, f"proposer {proposer.ref}: {fault}", PROPOSER_FAILED) from None
        if "type" in returned:
            raise _no_mapping(proposer.ref, returned["type"])
        return Proposed(values=_canonical(returned["mapping"], f"proposer {proposer.ref}"))


def _made_hash(request: ProposalInput, written: _Written) -> str | None:
    """The name of the configuration that comes of it, as optimizers make it: all but what was asked for stays as it is."""
    given, values = written.configuration, written.proposed.values
    changes = {name: value for name, value in values.items() if name in request.factors or name not in given}
    return proposed_hash({**given, **changes})


def _exhausted(error: BudgetExhausted, took: tuple[int, float]) -> ApplicationError:
    rest = None if error.team_rest is None else error.team_rest.model_dump(mode="json")
    return ApplicationError(str(error), error.resource, took, rest, type=BUDGET_EXHAUSTED, non_retryable=True)


def _no_mapping(ref: str, returned: str) -> ApplicationError:
    return ApplicationError(
        f"proposer {ref} returned a {returned}; return a mapping of new values by factor name", type=PROPOSER_FAILED
    )


@contextmanager
def telling_what_it_took(reflecting: Reflecting) -> Iterator[None]:
    """What answers cost that led to nothing is told with the failure, for the run's books."""
    try:
        yield
    except BudgetExhausted as error:
        raise _exhausted(error, (reflecting.tokens, reflecting.cost)) from None
    except ApplicationError as error:
        if not reflecting.tokens and not reflecting.cost:
            raise
        raise ApplicationError(
            error.message,
            None,
            [reflecting.tokens, reflecting.cost],
            type=error.type,
            non_retryable=error.non_retryable,
            next_retry_delay=error.next_retry_delay,
        ) from error


def _canonical_values(proposed: Proposed) -> Proposed:
    return proposed.model_copy(update={"values": _canonical(proposed.values, "LLM mutation failed")})


def _canonical(value: Any, who: str) -> Any:
    try:
        normalized = normalize(value)
        size = len(canonical_json(normalized).encode())
    except Exception as error:  # mappings of its own may raise whatever they like when they are read
        why = error if isinstance(error, NotCanonical) else described(error)
        raise ApplicationError(shorten(f"{who}: {why}"), type=PROPOSER_FAILED) from error
    if size > LARGEST_CONFIGURATION:
        raise ApplicationError(
            f"{who}: the new values are {size:,} bytes; at most {LARGEST_CONFIGURATION:,} fit", type=PROPOSER_FAILED
        )
    return normalized
