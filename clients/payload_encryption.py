"""Payloads encrypted on their way to Temporal, in the form that Temporal's own samples give them, so that its UI, its command
line and workers in other languages can be taught to read them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from ratchet._encryption import KEY_NAME, EncryptionKeys, NotEncryptedHere, compressed, no_keys, unfolded

ENCODING: Final = "encoding"
ENCRYPTED: Final = b"binary/encrypted"
COMPRESSED: Final = b"binary/zlib"
KEY_ID: Final = "encryption-key-id"


class EncryptedPayloads(PayloadCodec):
    """Encrypts payloads with the first key, where there are keys, and decrypts with any.

    What is not encrypted is read as it is: runs older than the keys go on, and callers that send plain JSON are served. What
    was encrypted with a key that is not here is refused by the key's name, before any workflow sees it: its task is tried again
    until there is a worker that has the key. What only claims to be encrypted goes on as it is, and is refused like any other
    malformed input: no message of a stranger's keeps a run from going on.
    """

    def __init__(self, keys: EncryptionKeys | None) -> None:
        self._keys = keys

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt payloads; what gets shorter by it is compressed before."""
        keys = self._keys
        return list(payloads) if keys is None else [_encrypted(payload, keys) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt those payloads that are encrypted."""
        return [self._decrypted(payload) if encoding_of(payload) == ENCRYPTED else payload for payload in payloads]

    def _decrypted(self, payload: Payload) -> Payload:
        key_id = key_of(payload)
        if key_id is None:
            return payload
        if self._keys is None:
            raise no_keys(key_id)
        try:
            found = Payload.FromString(self._keys.decrypt(key_id, payload.data))
            return found if encoding_of(found) != COMPRESSED else Payload.FromString(unfolded(found.data))
        except (NotEncryptedHere, DecodeError, zlib.error):
            return payload


def _encrypted(payload: Payload, keys: EncryptionKeys) -> Payload:
    if encoding_of(payload) == ENCRYPTED:
        return payload
    content = payload.SerializeToString()
    shorter = compressed(content)
    if shorter is not None:
        content = Payload(metadata={ENCODING: COMPRESSED}, data=shorter).SerializeToString()
    return Payload(metadata={ENCODING: ENCRYPTED, KEY_ID: keys.first.encode()}, data=keys.encrypt(content))


def encoding_of(payload: Payload) -> bytes:
    """Return how a payload says that it is encoded."""
    return payload.metadata.get(ENCODING, b"")


def key_of(payload: Payload) -> str | None:
    """Return the id of the key with which a payload says that it is encrypted, where it names one."""
    key_id = payload.metadata.get(KEY_ID, b"").decode("utf-8", "replace")
    return key_id if encoding_of(payload) == ENCRYPTED and KEY_NAME.fullmatch(key_id) else None
