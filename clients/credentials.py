"""The secret of a token, and what follows from it: the page's cookie, and the hashes that are all the store keeps.

A token is 256 random bits, so a plain sha256 of it cannot be guessed back. Only the standard library is used here.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

BYTES: Final = 32
PREFIX: Final = "ratchet_"
"""What scanners for leaked secrets may look for."""


def new_secret() -> str:
    """A secret that nobody has seen yet."""
    return secrets.token_urlsafe(BYTES)


def new_token() -> str:
    """The secret of a token with a name."""
    return f"{PREFIX}{new_secret()}"


def session_of(token: str) -> str:
    """What the page's cookie holds: it follows from the token, and the token does not follow from it."""
    return hmac.digest(token.encode(), b"ratchet page", hashlib.sha256).hex()


def hash_of(secret: str) -> bytes:
    """What is kept of a token or of a cookie."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
