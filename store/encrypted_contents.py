"""Contents as PostgreSQL keeps them: encrypted where there are keys, and then told from plain ones by a mark.

Who writes a content says so, column by column (`contents_of`). Who reads need not know: a connection with keys decrypts what it
is handed, and leaves the rest. Hashes are those of the plain contents.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from ratchet._encryption import (
    NONCE_BYTES,
    TAG_BYTES,
    EncryptionKeys,
    KeyMissing,
    NotEncryptedHere,
    compressed,
    no_keys,
    unfolded,
)
from store.encoding import storable_json, storable_text
from store.schema import StoreError

MARK: Final = "$encrypted"
TEXT_MARK: Final = f"{MARK}:"
_FILE_MARK: Final = TEXT_MARK.encode()
_TOKEN: Final = re.compile(
    rf"^{re.escape(TEXT_MARK)}([A-Za-z0-9][A-Za-z0-9_.-]*):([A-Za-z0-9+/]{{38,}}={{0,2}})$", re.MULTILINE
)
_VISIBLE_MARK: Final = "＄encrypted:"
_PLAIN, _COMPRESSED = b"p", b"z"
_JSONB: Final = b"\x01"
"""What PostgreSQL puts in front of such a value on the wire."""
_PROOF: Final = b"ratchet"
PURPOSE: Final = "store"


class ContentLocked(Exception):
    """A content was encrypted with a key that this process does not have: one that has it can go on."""


class MadeUp(ContentLocked):
    """Something looks encrypted, and our key has not encrypted it."""


class EncryptedText(str):
    """Text that is encrypted already."""

    __slots__ = ()


class Contents:
    """Writes contents of one column each, and reads all of them."""

    def __init__(self, keys: EncryptionKeys | None) -> None:
        self._keys = None if keys is None else keys.derived(PURPOSE)

    @property
    def encrypts(self) -> bool:
        """Whether SQL cannot look into contents."""
        return self._keys is not None

    def text(self, text: str) -> str:
        """Return text as it is stored; nothing is as good as encrypted."""
        stored = storable_text(text)
        return stored if self._keys is None or not stored else EncryptedText(TEXT_MARK + self._token(stored))

    def optional_text(self, text: str | None) -> str | None:
        """Like `text`, for what may be missing."""
        return None if text is None else self.text(text)

    def json(self, value: Any, readable: Mapping[str, Any] | None = None) -> str:
        """Return a value as JSON text that is stored; what is `readable` of it, queries may look into."""
        return self.json_text(storable_json(value), readable)

    def optional_json(self, value: Any, readable: Mapping[str, Any] | None = None) -> str | None:
        """Like `json`; nothing is stored for nothing."""
        return None if value is None else self.json(value, readable)

    def json_text(self, text: str, readable: Mapping[str, Any] | None = None) -> str:
        """Like `json`, of text that is read back to the letter."""
        return text if self._keys is None else storable_json({**(readable or {}), MARK: self._token(text)})

    def file(self, content: bytes) -> bytes:
        """Return the bytes of a file as they are stored."""
        if self._keys is None:
            return content
        return _FILE_MARK + self._keys.first.encode() + b":" + self._keys.encrypt(content)

    def plain_file(self, stored: bytes) -> bytes:
        """Return the bytes of a file."""
        if not stored.startswith(_FILE_MARK):
            return stored
        key_id, _, encrypted = stored[len(_FILE_MARK) :].partition(b":")
        return self._decrypted(key_id.decode("utf-8", "replace"), encrypted)

    def _token(self, text: str) -> str:
        assert self._keys is not None
        content = text.encode()
        shorter = compressed(content)
        encrypted = self._keys.encrypt(_PLAIN + content if shorter is None else _COMPRESSED + shorter)
        return f"{self._keys.first}:{b64encode(encrypted).decode()}"

    def _opened(self, key_id: str, encoded: str) -> str:
        content = self._decrypted(key_id, b64decode(encoded))
        return (unfolded(content[1:]) if content[:1] == _COMPRESSED else content[1:]).decode()

    def _decrypted(self, key_id: str, encrypted: bytes) -> bytes:
        try:
            if self._keys is None:
                raise no_keys(key_id)
            return self._keys.decrypt(key_id, encrypted)
        except NotEncryptedHere as error:
            raise MadeUp(str(error)) from None
        except KeyMissing as error:
            raise ContentLocked(str(error)) from None

    async def prepare(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Let a connection decrypt what it reads."""
        assert isinstance(connection, StoreConnection)
        connection.contents = self
        codecs: dict[str, tuple[Callable[[str], bytes], Callable[[bytes], str]]] = {
            "text": (_text_bytes, self._read_text),
            "json": (lambda text: text.encode(), self._read_json),
            "jsonb": (lambda text: _JSONB + text.encode(), lambda data: self._read_json(data.removeprefix(_JSONB))),
        }
        for name, (encoder, decoder) in codecs.items():
            await connection.set_type_codec(name, schema="pg_catalog", encoder=encoder, decoder=decoder, format="binary")

    def _read_text(self, data: bytes) -> str:
        text = data.decode()
        return _TOKEN.sub(self._opened_in_text, text) if TEXT_MARK in text else text

    def _opened_in_text(self, token: re.Match[str]) -> str:
        try:
            return self._opened(*token.groups())
        except MadeUp:  # it is somebody's text: a wrong key was refused with the database
            return token[0]

    def _read_json(self, data: bytes) -> str:
        text = data.decode()
        if MARK not in text:
            return text
        value = json.loads(text)
        token = _TOKEN.fullmatch(f"{TEXT_MARK}{value[MARK]}") if isinstance(value, dict) and MARK in value else None
        return text if token is None else self._opened(*token.groups())


PLAIN: Final = Contents(None)


if TYPE_CHECKING:
    _Connection = asyncpg.Connection[asyncpg.Record]
else:
    _Connection = asyncpg.Connection


class StoreConnection(_Connection):
    """A connection that knows how contents are written."""

    contents: Contents = PLAIN


def contents_of(connection: object) -> Contents:
    """Return how contents are written over a connection."""
    found: Contents = getattr(connection, "contents", PLAIN)
    return found


def size_of_file(stored_size: int, head: bytes) -> int:
    """Return how many bytes a file has, by how many are stored and how these begin."""
    if not head.startswith(_FILE_MARK):
        return stored_size
    key_id = head[len(_FILE_MARK) :].partition(b":")[0]
    return stored_size - len(_FILE_MARK) - len(key_id) - 1 - NONCE_BYTES - TAG_BYTES


def shortened(column: str, length: str) -> str:
    """Return SQL for the beginning of a text; one that is encrypted can only be cut by who reads it."""
    return f"CASE WHEN starts_with({column}, '{TEXT_MARK}') THEN {column} ELSE left({column}, {length}) END"


async def refusal_of(connection: Any, keys: EncryptionKeys | None) -> str | None:
    """Return why a process with these keys cannot read all contents of a database, where it cannot."""
    own = None if keys is None else keys.derived(PURPOSE)
    for key_id, proof in await connection.fetch("SELECT key_id, proof FROM encryption_keys ORDER BY first_used_at, key_id"):
        try:
            if own is None:
                raise no_keys(key_id)
            own.decrypt(key_id, proof)
        except KeyMissing as error:
            return f"this database has encrypted contents: {error}"
    return None


async def admit(connection: Any, keys: EncryptionKeys | None) -> None:
    """Refuse a process that lacks a key with which contents of a database may be encrypted; note the one that it will use."""
    refusal = await refusal_of(connection, keys)
    if refusal is not None:
        raise StoreError(refusal)
    if keys is not None:
        own = keys.derived(PURPOSE)
        await connection.execute(
            "INSERT INTO encryption_keys (key_id, proof) VALUES ($1, $2) ON CONFLICT DO NOTHING", own.first, own.encrypt(_PROOF)
        )


def _text_bytes(text: str) -> bytes:
    """Nobody's text passes for one that we have encrypted."""
    if TEXT_MARK in text and not isinstance(text, EncryptedText):
        text = text.replace(TEXT_MARK, _VISIBLE_MARK)
    return text.encode()
