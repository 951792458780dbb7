"""Contents as they stand in a database once they are encrypted: behind a mark, the id of the key, and base64.

The store and the prompts that are kept in PostgreSQL write the same form, with the same keys.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ratchet._encryption import EncryptionKeys, KeyMissing, NotEncryptedHere, compressed, no_keys, unfolded

MARK: Final = "$encrypted"
TEXT_MARK: Final = f"{MARK}:"
TOKEN: Final = re.compile(rf"^{re.escape(TEXT_MARK)}([A-Za-z0-9][A-Za-z0-9_.-]*):([A-Za-z0-9+/]{{38,}}={{0,2}})$", re.MULTILINE)
PURPOSE: Final = "store"
_PLAIN, _COMPRESSED = b"p", b"z"
_PROOF: Final = b"ratchet"


class ContentLocked(Exception):
    """A content was encrypted with a key that this process does not have: one that has it can go on."""


class MadeUp(ContentLocked):
    """Something looks encrypted, and our key has not encrypted it."""


class ContentTokens:
    """Makes tokens of contents with the first key, where there are keys, and opens those of all keys."""

    def __init__(self, keys: EncryptionKeys | None) -> None:
        self._keys = None if keys is None else keys.derived(PURPOSE)

    @property
    def first(self) -> str | None:
        """The id of the key that encrypts; None where nothing is encrypted."""
        return None if self._keys is None else self._keys.first

    def token(self, text: str) -> str:
        """Return a text encrypted, with the id of its key in front."""
        content = text.encode()
        shorter = compressed(content)
        encrypted = self.encrypted(_PLAIN + content if shorter is None else _COMPRESSED + shorter)
        return f"{self.first}:{b64encode(encrypted).decode()}"

    def opened(self, key_id: str, encoded: str) -> str:
        """Return the text of a token, whose two parts these are."""
        content = self.decrypted(key_id, b64decode(encoded))
        return (unfolded(content[1:]) if content[:1] == _COMPRESSED else content[1:]).decode()

    def encrypted(self, content: bytes) -> bytes:
        """Encrypt bytes with the first key."""
        assert self._keys is not None
        return self._keys.encrypt(content)

    def decrypted(self, key_id: str, encrypted: bytes) -> bytes:
        """Return what was encrypted. Raise ContentLocked where its key is not here."""
        try:
            if self._keys is None:
                raise no_keys(key_id)
            return self._keys.decrypt(key_id, encrypted)
        except NotEncryptedHere as error:
            raise MadeUp(str(error)) from None
        except KeyMissing as error:
            raise ContentLocked(str(error)) from None

    def json(self, text: str, readable: Mapping[str, Any] | None = None) -> str:
        """Return JSON text as it is stored: as it is without keys, else a token, and what stays `readable` beside it."""
        if self._keys is None:
            return text
        return json.dumps({MARK: self.token(text), **(readable or {})}, ensure_ascii=False, separators=(",", ":"))

    def plain_json(self, stored: str) -> str:
        """Return the JSON text that was stored."""
        if MARK not in stored:
            return stored
        value = json.loads(stored)
        found = TOKEN.fullmatch(f"{TEXT_MARK}{value[MARK]}") if isinstance(value, dict) and MARK in value else None
        return stored if found is None else self.opened(*found.groups())

    def proof(self) -> bytes:
        """Return a known word, encrypted: by it a wrong key is told at once."""
        return self.encrypted(_PROOF)

    def refusal(self, proofs: Iterable[tuple[str, bytes]]) -> str | None:
        """Return why a process with these keys cannot read all that a database with these proofs may hold."""
        for key_id, proof in proofs:
            try:
                self.decrypted(key_id, proof)
            except ContentLocked as error:
                return f"this database has encrypted contents: {error}"
        return None
