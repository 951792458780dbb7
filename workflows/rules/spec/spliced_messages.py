"""The messages that a splice stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ROLES = ("system", "user", "assistant", "developer", "tool", "function")


def spliced_messages(value: Any) -> list[dict[str, Any]]:
    """The messages that stand where a splice was. Raises ValueError, which says what is wrong with them."""
    if not isinstance(value, list) or not value:
        raise ValueError("is no list of messages; give [{role: user, content: …}, …]")
    for index, message in enumerate(value):
        if not isinstance(message, Mapping) or message.get("role") not in ROLES:
            raise ValueError(f"[{index}] is no message; give {{role: …, content: …}}, with a role of {', '.join(ROLES)}")
        if not isinstance(message.get("content"), str | list) and not message.get("tool_calls"):
            raise ValueError(f"[{index}] has no content; give a text, or the parts of one")
    return [dict(message) for message in value]
