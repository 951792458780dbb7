"""The tools of a shop's agent, and a proposer that improves their descriptions by what was called wrongly."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ratchet import Record

PLACES = {"A": "on its way", "B": "delivered", "C": "being packed"}
_refunded: dict[str, str] = {}
"""By the key of the call. A shop keeps this where it outlives its process."""


def track_order(order: str) -> str:
    """Changes nothing, so Ratchet may call it again after a crash."""
    return f"Order {order} is {PLACES.get(order[:1], 'unknown')}."


def refund_order(order: str, idempotency_key: str) -> str:
    """Has an effect: `effects: true`. It takes a key (`takes_key: true`), and refunds once for each."""
    return _refunded.setdefault(idempotency_key, f"Order {order} is refunded.")


def change_address(order: str) -> str:
    return f"The address of {order} was changed."


def opening_hours(order: str = "") -> str:
    return "We are open from 9 to 18."


def describe(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> dict[str, str]:
    """Add to each description the word that most of the requests have for which its tool was not called.

    A model does this, too: `proposer: {kind: model, model: …}` is shown the same requests, with the scorer's reasons.
    """
    better = {}
    for name in factors:
        known = set(_words(current[name]))
        missed = [record for record in records if record.score < 1 and record.expected["tools"] == [name]]
        counted = Counter(
            word for record in missed for word in dict.fromkeys(_words(record.inputs["text"])) if word not in known
        )
        new = [word for word, _ in sorted(counted.items(), key=lambda entry: (-entry[1], entry[0]))[:1]]
        better[name] = " ".join([current[name], *new])
    return better


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 3]
