"""New values for factors: from a chat model that is shown what went wrong, or from a plug-in. Paid for once, then stored."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.committing import until_back
from activities.gate import ClosedForLong
from activities.leases import Books, LeaseKey
from activities.metering import BudgetExhausted, carrying
from activities.models import ChatAnswer, ChatModels
from activities.plugin_calls import PluginCalls
from activities.plugins import Plugins, invalid
from activities.purse import BudgetStore, Purse, fresh_nonce
from activities.record_store import RecordStore
from activities.targets.faults import CandidateFault, Refused, Unreachable
from ratchet import Record
from workflows.model.factors import LARGEST_CONFIGURATION, Configuration
from workflows.model.failures import BUDGET_EXHAUSTED, PERMANENT_TARGET_ERROR, PROPOSER_FAILED, described, shorten
from workflows.model.proposers import ModelProposer, PythonProposer
from workflows.model.run import ProposalInput, Proposed
from workflows.model.target import Price
from workflows.rules.canonical import NotCanonical, canonical_json, normalize
from workflows.rules.placeholders import UnknownPlaceholder, as_text, placeholders, substitute

LONGEST_CALL = 240.0
"""Seconds for one answer of a model that writes proposals; they think longer than targets do."""

LONGEST_EXAMPLE_PART = 1_000
LONGEST_EXAMPLES = 12_000
LONGEST_RATIONALE = 600

REQUEST = """\
You improve one text of a system that is measured by experiment. The text is named "{{factor.name}}". This is how it reads now:

<current_value>
{{factor.value}}
</current_value>

{{feedback}}

Find out what the text fails to say, says wrongly or says ambiguously, given the answers above. Then write a better text.
Settle the general question behind a failure; do not list the examples themselves, since the text will be measured on others.
Keep what already works.

{{limits}}

Give the complete new text, with nothing left out, between <new_value> and </new_value>. You may explain yourself before that,
briefly; nothing outside of the tags will be used.
"""

_OPEN, _CLOSE = re.compile(r"<new_value(?:\s[^>]*)?>"), "</new_value>"
_FENCED = re.compile(r"```[\w-]*\n(.*?)\n?```", re.DOTALL)


class ProposalStore(BudgetStore, RecordStore, Protocol):
    """What proposing needs of the store."""

    async def proposal(self, run_id: str, round_index: int, index: int) -> Proposed | None: ...
    async def proposal_of(self, retry_of: str, round_index: int, index: int, parent_hash: str) -> Proposed | None: ...
    async def store_proposal(
        self,
        run_id: str,
        round_index: int,
        index: int,
        proposed: Proposed,
        parent_hash: str = "",
        lease: tuple[LeaseKey, Books] | None = None,
    ) -> Proposed: ...
    async def overlay(self, config_hash: str) -> dict[str, Any]: ...


class Proposing:
    """Asks for proposals on behalf of an optimizer."""

    def __init__(
        self,
        store: ProposalStore,
        models: ChatModels,
        plugins: Plugins,
        calls: PluginCalls,
        is_away: Callable[[BaseException], bool],
    ) -> None:
        self._store = store
        self._models = models
        self._plugins = plugins
        self._calls = calls
        self._is_away = is_away

    async def propose(self, request: ProposalInput) -> Proposed:
        known = await self._store.proposal(request.run_id, request.round, request.index)
        if known is not None:
            return known
        if request.metered:
            purse = self._purse(request)
            async with purse.open():
                return await self._within(purse, request)
        return await self._kept(request, await self._proposed(request), None)

    async def _within(self, purse: Purse, request: ProposalInput) -> Proposed:
        ticket = await purse.ticket()
        try:
            with carrying(ticket):
                proposed = await self._proposed(request)
        except BudgetExhausted as error:
            raise ApplicationError(str(error), error.resource, type=BUDGET_EXHAUSTED, non_retryable=True) from None
        finally:
            ticket.close()
        return await purse.written_with(lambda key, books: self._kept(request, proposed, (key, books)))

    def _purse(self, request: ProposalInput) -> Purse:
        holder = f"proposal {request.round}/{request.index}"
        key = LeaseKey(request.run_id, holder, activity.info().attempt, fresh_nonce())
        return Purse(self._store, key, self._is_away, samples_each=0)

    async def _kept(self, request: ProposalInput, proposed: Proposed, lease: tuple[LeaseKey, Books] | None) -> Proposed:
        """It is paid for: a store that is away is waited for."""
        place = (request.run_id, request.round, request.index)
        return await until_back(lambda: self._store.store_proposal(*place, proposed, request.config_hash, lease), self._is_away)

    async def _proposed(self, request: ProposalInput) -> Proposed:
        if request.retry_of is not None:
            place = (request.retry_of, request.round, request.index)
            known = await self._store.proposal_of(*place, request.config_hash)
            if known is not None:
                return known
        configuration = request.configuration or await self._store.overlay(request.config_hash)
        records = await self._shown(request)
        match request.proposer:
            case ModelProposer() as proposer:
                return await self._written_by_model(request, proposer, configuration, records)
            case PythonProposer() as proposer:
                return await self._returned_by_plugin(request, proposer, configuration, records)

    async def _shown(self, request: ProposalInput) -> Sequence[Record]:
        """What the proposer reads about: the parent's samples, or those that the optimizer names."""
        usual = request.proposer.examples
        if not request.shown:
            return await self._store.records(request.run_id, request.split, request.config_hash, usual)
        records: list[Record] = []
        for named in request.shown:
            records += await self._store.records(
                request.run_id,
                named.split,
                named.config_hash,
                usual if named.limit is None else named.limit,
                named.worst_first,
                named.first,
                named.count,
            )
        return records

    async def _written_by_model(
        self, request: ProposalInput, proposer: ModelProposer, configuration: Configuration, records: Sequence[Record]
    ) -> Proposed:
        """One call per text; other factors are left as they are."""
        values: dict[str, Any] = {}
        rationales: list[str] = []
        tokens, cost = 0, 0.0
        for name in request.factors:
            current = configuration.get(name)
            if not isinstance(current, str):
                continue
            answer = await self._ask(proposer, request_text(request, proposer, name, current, records), request.prices)
            value, rationale = new_text(as_text(answer.value), cut_off=answer.finish_reason == "length")
            values[name] = _canonical(value, "LLM mutation failed")
            if rationale:
                rationales.append(rationale)
            tokens += answer.tokens
            cost += answer.cost
        if not values:
            raise invalid("optimizer.proposer of kind model needs a factor with `change: text` to write")
        return Proposed(values=values, rationale=shorten("\n".join(rationales), 2_000) or None, tokens=tokens, cost=cost)

    async def _ask(self, proposer: ModelProposer, text: str, prices: Mapping[str, Any]) -> ChatAnswer:
        try:
            return await self._models.ask(
                base_url=proposer.base_url,
                model=proposer.model,
                messages=[{"role": "user", "content": text}],
                parameters=proposer.parameters,
                stream=False,
                timeout=LONGEST_CALL,
                prices={model: Price.model_validate(price) for model, price in prices.items()},
            )
        except Refused as error:
            raise ApplicationError(f"LLM mutation failed: {error}", type=PERMANENT_TARGET_ERROR, non_retryable=True) from error
        except ClosedForLong as error:
            raise ApplicationError(
                f"LLM mutation failed: {error}", type=PROPOSER_FAILED, next_retry_delay=timedelta(seconds=error.seconds)
            ) from error
        except (CandidateFault, Unreachable) as error:
            raise ApplicationError(f"LLM mutation failed: {error}", type=PROPOSER_FAILED) from error

    async def _returned_by_plugin(
        self, request: ProposalInput, proposer: PythonProposer, configuration: Configuration, records: Sequence[Record]
    ) -> Proposed:
        plugin = self._plugins.resolve(proposer.ref, 3)
        arguments = (dict(configuration), list(records), list(request.factors))
        named = plugin.taken({"index": request.index, "seed": request.seed})
        try:
            returned = await self._calls.call(plugin, *arguments, **named)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            raise ApplicationError(
                shorten(f"proposer {proposer.ref} raised {described(error)}"), type=PROPOSER_FAILED
            ) from error
        if not isinstance(returned, Mapping):
            raise ApplicationError(
                f"proposer {proposer.ref} returned a {type(returned).__name__}; return a mapping of new values by factor name",
                type=PROPOSER_FAILED,
            )
        return Proposed(values=_canonical(returned, f"proposer {proposer.ref}"))


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


def request_text(request: ProposalInput, proposer: ModelProposer, name: str, current: str, records: Sequence[Record]) -> str:
    """What the model is asked: the text, how it did, what went wrong, and what a new one must respect."""
    values = {
        "factor.name": name,
        "factor.value": current,
        "feedback": _feedback(request, records if request.shown else records[: proposer.examples]),
        "limits": _limits(request, name, current),
    }
    try:
        return substitute(proposer.template or REQUEST, values)
    except UnknownPlaceholder as error:
        raise invalid(f"optimizer.proposer.template: {error}") from None


def _feedback(request: ProposalInput, records: Sequence[Record]) -> str:
    parts = []
    if request.objective:
        parts.append(f"What is measured: {request.objective}.")
    if request.feedback.strip():
        parts.append(f"The last measurements, the oldest first:\n{request.feedback.strip()}")
    examples = _examples(records)
    if examples:
        parts.append(f"Answers that the current text led to:\n\n{examples}")
    return "\n\n".join(parts) or "Nothing has been measured yet."


def _examples(records: Sequence[Record]) -> str:
    """As many as fit, each part cut to size, so that one huge sample cannot crowd out the rest of the request."""
    shown: list[str] = []
    size = 0
    for number, record in enumerate(records, start=1):
        lines = [
            f"Example {number}, score {record.score:.2f}",
            f"Input: {_part(record.inputs)}",
            f"Answer: {_part(record.output)}",
        ]
        if record.expected is not None:
            lines.append(f"Expected: {_part(record.expected)}")
        if record.feedback:
            lines.append(f"Feedback: {_part(record.feedback)}")
        text = "\n".join(lines)
        size += len(text)
        if shown and size > LONGEST_EXAMPLES:
            break
        shown.append(text)
    return "\n\n".join(shown)


def _part(value: Any) -> str:
    return "(none)" if value is None else shorten(as_text(value), LONGEST_EXAMPLE_PART)


def _limits(request: ProposalInput, name: str, current: str) -> str:
    lines = []
    if name in request.limits:
        lines.append(f"The new text has at most {request.limits[name]} characters.")
    kept = placeholders(current)
    if kept:
        names = ", ".join(f"{{{{{placeholder}}}}}" for placeholder in kept)
        lines.append(f"It contains these placeholders, exactly as written here, and no others: {names}.")
    if request.beside > 0:
        lines.append(
            f"{request.beside} other texts are being written at the same time; take another approach than the obvious one."
        )
    return "\n".join(lines)


def new_text(answer: str, *, cut_off: bool = False) -> tuple[str, str | None]:
    """The proposed text in a model's answer, and what it said around it. The last tags win: models quote the request."""
    openings = list(_OPEN.finditer(answer))
    for opening in reversed(openings):
        end = answer.find(_CLOSE, opening.end())
        if end >= 0:
            return _nonempty(answer[opening.end() : end]), _rationale(answer[: opening.start()])
    if openings or cut_off:
        raise ApplicationError("LLM mutation failed: the answer was cut off before the new text ended", type=PROPOSER_FAILED)
    fenced = _FENCED.findall(answer)
    if fenced:
        return _nonempty(max(fenced, key=len)), _rationale(_FENCED.split(answer)[0])
    return _nonempty(answer), None


def _nonempty(text: str) -> str:
    stripped = text.strip()
    if not stripped:
        raise ApplicationError("LLM mutation failed: Factor value cannot be empty", type=PROPOSER_FAILED)
    return stripped


def _rationale(text: str) -> str | None:
    return shorten(text.strip(), LONGEST_RATIONALE) or None
