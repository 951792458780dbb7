"""Answers that came from elsewhere: read as what they are, JSON of strangers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from ratchet._formats.canonical import NotCanonical, canonical_json, normalize
from ratchet._formats.strict_json import whole_number
from workflows.model.activities.external_trials import CallsSettlement, GivenAnswer
from workflows.model.run.amounts import MOST_COST, MOST_TOKENS, Amount

LARGEST_ANSWER = 512 * 1024
"""Bytes. A trial's history keeps every answer twice, side by side with those of other calls, and may have 50 MB in all."""

UNUSABLE = "unusable output"


class SampleReplicate(TypedDict):
    """Which sample, and which replicate of it."""

    sample_id: str
    replicate: int


def pair_of(sample: Mapping[str, Any]) -> SampleReplicate:
    """The pair that a sample of a call stands for."""
    return SampleReplicate(sample_id=str(sample["id"]), replicate=int(sample["replicate"]))


def answers_in(encoding: bytes, data: bytes, batch: Sequence[Mapping[str, Any]], *, listed: bool) -> list[GivenAnswer]:
    """What an activity returned for a batch, sample by sample. What cannot be read is the candidate's fault."""
    try:
        returned = decoded(encoding, data)
    except ValueError as error:
        return [GivenAnswer(**pair_of(sample), fault=f"the answer is unusable: {error}", kind=UNUSABLE) for sample in batch]
    if not listed:
        return [_given(batch[0], returned)]
    if not isinstance(returned, list) or len(returned) != len(batch):
        shape = f"a list of {len(returned)}" if isinstance(returned, list) else f"a {type(returned).__name__}"
        fault = f"the answer is unusable: {len(batch)} samples need a list of as many answers, and {shape} came back"
        return [GivenAnswer(**pair_of(sample), fault=fault, kind=UNUSABLE) for sample in batch]
    return [_given(sample, answer) for sample, answer in zip(batch, returned, strict=True)]


def decoded(encoding: bytes, data: bytes) -> Any:
    """What somebody else's activity returned, as JSON. Raises ValueError, with what is wrong."""
    if encoding == b"binary/null":
        return None
    if encoding not in (b"json/plain", b"json/protobuf"):
        raise ValueError(f"it is encoded as {encoding.decode('utf-8', 'replace')!r}; return JSON")
    try:
        return json.loads(data, parse_int=whole_number)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON ({error})") from None


def _given(sample: Mapping[str, Any], answer: Any) -> GivenAnswer:
    try:
        given = GivenAnswer(**pair_of(sample), answer=normalize(answer))
    except (NotCanonical, RecursionError) as error:
        return GivenAnswer(**pair_of(sample), fault=f"the answer is unusable: {error}", kind=UNUSABLE)
    size = size_of(given)
    if size > LARGEST_ANSWER:
        fault = f"the answer is unusable: it has {size:,} bytes, at most {LARGEST_ANSWER:,} are kept"
        return GivenAnswer(**pair_of(sample), fault=fault, kind=UNUSABLE)
    return given


def bill_of(answer: Any) -> Amount:
    """What an answer says that it took."""
    if not isinstance(answer, Mapping):
        return Amount()
    tokens, cost = _number(answer.get("tokens"), MOST_TOKENS), _number(answer.get("cost"), MOST_COST)
    return Amount(tokens=int(tokens), cost=float(cost))


def _number(said: Any, most: float) -> float:
    """What nobody can have taken is a lie, and its sample fails; no budget is charged with it."""
    is_one = isinstance(said, int | float) and not isinstance(said, bool) and 0 <= said <= most
    return said if is_one else 0


def settlement_of(answers: Sequence[GivenAnswer], holders: Sequence[str], calls: int) -> CallsSettlement:
    """What so many calls took, of which these answers came back; the others may have been paid for all the same."""
    bills = [bill_of(given.answer) for given in answers if given.answer is not None]
    return CallsSettlement(
        holders=tuple(holders),
        answered=len(bills),
        unanswered=max(0, calls - len(bills)),
        tokens=sum(bill.tokens for bill in bills),
        cost=math.fsum(bill.cost for bill in bills),
        most_tokens_per_sample=max((bill.tokens for bill in bills), default=0),
        most_cost_per_sample=max((bill.cost for bill in bills), default=0.0),
    )


def size_of(given: GivenAnswer) -> int:
    """Its bytes in a message."""
    return len(canonical_json(given.answer).encode()) + len((given.fault or given.missing or "").encode()) + 200
