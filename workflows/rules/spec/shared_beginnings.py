"""What the requests of a candidate begin with alike, which a provider's cache can hold."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from ratchet._text.placeholders import Unfillable, placeholders
from workflows.model.spec.targets.chat import ChatStep, Message
from workflows.rules.overlay import Overlay

_ANTHROPIC, _BEDROCK = "anthropic", "bedrock"
_KEPT_BY_BEDROCK: Final = re.compile(
    r"anthropic\.claude-(?!v2|instant|3-(?:sonnet|haiku|opus)|3-5-sonnet-20240620)|amazon\.nova-"
)

SHORTEST_CHARACTERS: Final = 4096
"""Of a beginning that is worth it: no provider caches fewer than about a thousand tokens."""


def is_marked_for_caches(provider: str, model: str) -> bool:
    """Whether a model's provider keeps only what a request says is to be kept. Others keep by themselves what they can, or
    refuse to be told."""
    return provider == _ANTHROPIC or (provider == _BEDROCK and _KEPT_BY_BEDROCK.search(model) is not None)


def text_of_tools(tools: Any) -> str:
    """What a model reads of the tools that it may call. It comes before all messages, so that a cache holds it with them."""
    return json.dumps(tools, ensure_ascii=False, default=str) if tools else ""


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
