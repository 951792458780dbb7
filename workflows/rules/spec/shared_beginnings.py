"""What the requests of a candidate begin with alike, which a provider's cache can hold."""

from __future__ import annotations

from typing import Final

from ratchet._text.placeholders import Unfillable, placeholders
from workflows.model.spec.targets.chat import ChatStep, Message
from workflows.rules.overlay import Overlay

MARKED_FOR_CACHES: Final = ("anthropic",)
"""Providers that keep only what a request says is to be kept."""

SHORTEST_CHARACTERS: Final = 4096
"""Of a beginning that is worth it: no provider caches fewer than about a thousand tokens."""


def shared_messages(step: ChatStep, overlay: Overlay) -> int:
    """How many messages at the beginning of a request are the same for every sample."""
    count = 0
    for entry in step.messages:
        if not isinstance(entry, Message) or any(name.startswith("steps.") for name in placeholders(entry.content)):
            break
        try:
            if any(True for _ in overlay.needs(entry.content)):
                break
        except Unfillable:
            break
        count += 1
    return count
