"""Contents as PostgreSQL keeps them: encrypted where there are keys, and then told from plain ones by a mark.

Who writes a content says so, column by column (`contents_of`). Who reads need not know: a connection with keys decrypts what it
is handed, and leaves the rest. Hashes are those of the plain contents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from ratchet._content_tokens import MARK, TEXT_MARK, TOKEN, ContentTokens, MadeUp
from ratchet._encryption import NONCE_BYTES, TAG_BYTES, EncryptionKeys
from store.encoding import storable_json, storable_text
from store.schema import StoreError

_FILE_MARK: Final = TEXT_MARK.encode()
_VISIBLE_MARK: Final = "＄encrypted:"
_JSONB: Final = b"\x01"
"""What PostgreSQL puts in front of such a value on the wire."""


class EncryptedText(str):
    """Text that is encrypted already."""

    __slots__ = ()


class Contents:
    """Writes contents of one column each, and reads all of them."""

    def __init__(self, keys: EncryptionKeys | None) -> None:
        self._tokens = ContentTokens(keys)

    @property
    def encrypts(self) -> bool:
        """Whether SQL cannot look into contents."""
        return self._tokens.first is not None

    @property
    def first(self) -> str | None:
        """The id of the key that encrypts."""
        return self._tokens.first

    def text(self, text: str) -> str:
        """Return text as it is stored; nothing is as good as encrypted."""
        stored = storable_text(text)
        return EncryptedText(TEXT_MARK + self._tokens.token(stored)) if self.encrypts and stored else stored

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
        if not self.encrypts:
            return text
        return storable_json({MARK: self._tokens.token(text), **(readable or {})})

    def file(self, content: bytes) -> bytes:
        """Return the bytes of a file as they are stored."""
        if self.first is None:
            return content
        return _FILE_MARK + self.first.encode() + b":" + self._tokens.encrypted(content)

    def plain_file(self, stored: bytes) -> bytes:
        """Return the bytes of a file."""
        if not stored.startswith(_FILE_MARK):
            return stored
        key_id, _, encrypted = stored[len(_FILE_MARK) :].partition(b":")
        return self._tokens.decrypted(key_id.decode("utf-8", "replace"), encrypted)

    def plain_text(self, stored: str) -> str:
        """Return a text that was stored."""
        return TOKEN.sub(self._opened_in_text, stored) if TEXT_MARK in stored else stored

    def plain_json(self, stored: str) -> str:
        """Return JSON text that was stored."""
        return self._tokens.plain_json(stored)

    async def prepare(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Let a connection decrypt what it reads."""
        assert isinstance(connection, StoreConnection)
        connection.contents = self
        codecs: dict[str, tuple[Callable[[str], bytes], Callable[[bytes], str]]] = {
            "text": (_text_bytes, lambda data: self.plain_text(data.decode())),
            "json": (lambda text: text.encode(), lambda data: self.plain_json(data.decode())),
            "jsonb": (
                lambda text: _JSONB + text.encode(),
                lambda data: self.plain_json(data.removeprefix(_JSONB).decode()),
            ),
        }
        for name, (encoder, decoder) in codecs.items():
            await connection.set_type_codec(name, schema="pg_catalog", encoder=encoder, decoder=decoder, format="binary")

    def _opened_in_text(self, token: re.Match[str]) -> str:
        try:
            return self._tokens.opened(*token.groups())
        except MadeUp:  # it is somebody's text: a wrong key was refused with the database
            return token[0]


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


_PROOFS: Final = "SELECT key_id, proof FROM encryption_keys ORDER BY first_used_at, key_id"


async def refusal_of(connection: Any, keys: EncryptionKeys | None) -> str | None:
    """Return why a process with these keys cannot read all contents of a database, where it cannot."""
    return ContentTokens(keys).refusal([tuple(row) for row in await connection.fetch(_PROOFS)])


async def admit(connection: Any, keys: EncryptionKeys | None) -> None:
    """Refuse a process that lacks a key with which contents of a database may be encrypted; note the one that it will use."""
    refusal = await refusal_of(connection, keys)
    if refusal is not None:
        raise StoreError(refusal)
    if keys is not None:
        await connection.execute(
            "INSERT INTO encryption_keys (key_id, proof) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            keys.first,
            ContentTokens(keys).proof(),
        )


def _text_bytes(text: str) -> bytes:
    """Nobody's text passes for one that we have encrypted."""
    if TEXT_MARK in text and not isinstance(text, EncryptedText):
        text = text.replace(TEXT_MARK, _VISIBLE_MARK)
    return text.encode()
