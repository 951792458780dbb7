"""Keep what is secret out of texts that people read: what plug-ins raise and endpoints say may quote a key."""

from __future__ import annotations

import re
from typing import Final

from activities.settings import secrets_in_environment

HIDDEN: Final = "(hidden)"

SHORTEST_SECRET: Final = 4
"""Characters. What is shorter is not told apart from the rest of a text."""

_LOOKS_LIKE_A_KEY: Final = re.compile(r"(?<![\w-])(?:sk-[\w*.-]*[\w*]|AIza[\w*.-]{8,}[\w*])")


def without_secrets(text: str, *sent: str) -> str:
    """The text without what was `sent` as a key or token, without the worker's own secrets, and without what looks like one."""
    for secret in sorted({*sent, *secrets_in_environment()}, key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, HIDDEN)
    return _LOOKS_LIKE_A_KEY.sub(HIDDEN, text)
