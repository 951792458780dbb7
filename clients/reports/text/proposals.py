"""What proposers were asked and answered, and what was kept out, as people read it on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from clients.reports.formatting import counted
from clients.reports.text.answers import labelled
from clients.reports.text.terminal_text import one_line
from store.read.rows.proposal_rows import AskedProposal, ProposerCall, RejectedProposal
from workflows.rules.scoring.first_look import readable

LONGEST_REQUEST: Final = 6_000
"""Characters of one message that are shown: enough for most requests as a whole."""

MOST_ROWS: Final = 80


def proposal_text(place: AskedProposal, width: int) -> str:
    """One request for new values, with what came of it."""
    facts = [place.asked_of or "", counted(place.tokens, "token") if place.tokens else ""]
    told = ", ".join(one_line(fact) for fact in facts if fact)
    rows = [f"Round {place.round}, request {place.index + 1}" + (f" ({told})" if told else "")]
    if place.parent_candidate_id is not None:
        rows += labelled("From", place.parent_candidate_id, width)
    if place.asked is not None:
        rows += _long("Called with", place.asked, width)
    for call in place.calls:
        rows += _call(call, width)
    rows += _values(place.values or {}, width)
    if place.rationale:
        rows += labelled("Why", place.rationale, width)
    return "\n".join([*rows, *labelled("Came", _outcome(place), width)])


def rejected_text(found: RejectedProposal, width: int) -> str:
    """A proposal that was kept out, with its text where it is known."""
    rejection = found.rejection
    rows = [f"Round {rejection.round}, proposal {rejection.proposed_index + 1} was rejected: {rejection.reason_code.value}"]
    rows += labelled("Wrong", rejection.message, width)
    if found.values is None and found.configuration is None:
        return "\n".join([*rows, *labelled("Text", "not kept", width)])
    whole = found.configuration or {}
    changed = {name: value for name, value in whole.items() if name not in found.reference or found.reference[name] != value}
    return "\n".join([*rows, *_values(changed if found.values is None else found.values, width)])


def _call(call: ProposerCall, width: int) -> Iterable[str]:
    if call.texts_removed:
        yield from labelled("Asked", "its text was removed by a policy", width)
        return
    for message in call.asked if isinstance(call.asked, list) else [call.asked]:
        is_message = isinstance(message, Mapping) and "role" in message
        label, said = (str(message["role"]), message.get("content")) if is_message else ("Asked", message)
        yield from _long(label, said, width)
    yield from _long("Answered", call.answer, width)


def _values(values: Mapping[str, Any], width: int) -> Iterable[str]:
    for name, value in values.items():
        yield from _long(name, value, width)


def _long(label: str, value: Any, width: int) -> Iterable[str]:
    told = "not kept" if value is None else readable(value)
    yield from labelled(label, told, width, longest=LONGEST_REQUEST, most_rows=MOST_ROWS)


def _outcome(place: AskedProposal) -> str:
    if place.candidate_ids:
        return ", ".join(place.candidate_ids)
    if place.rejected:
        return "to nothing: it was rejected"
    return "to nothing that could be used" if place.values is None else "into other proposals"
