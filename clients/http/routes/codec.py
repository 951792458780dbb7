"""The codec server of Temporal's protocol: its UI and command line have payloads encrypted and decrypted here, by an
admin's token."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Final

from fastapi import APIRouter
from pydantic import Field
from temporalio.api.common.v1 import Payload as TemporalPayload

from clients.http.backend import Served
from clients.http.bodies import JsonRoute
from clients.http.errors import Refused, responses
from clients.payload_encryption import EncryptedPayloads
from ratchet._encryption import KEYS, KEYS_FILE, KeyMissing
from ratchet._frozen import Payload

router = APIRouter(prefix="/codec", tags=["codec"], route_class=JsonRoute)

MOST_PAYLOADS: Final = 10_000
_STANDARD: Final = str.maketrans("-_", "+/")


class CodecPayload(Payload):
    """A payload as Temporal writes it in JSON: what is bytes is base64."""

    metadata: dict[str, str] = Field(default_factory=dict)
    data: str = ""


class CodecPayloads(Payload):
    """Payloads, in their order."""

    payloads: tuple[CodecPayload, ...] = Field(default=(), max_length=MOST_PAYLOADS)


@router.post("/encode", operation_id="encodePayloads", responses=responses(404, 413))
async def encode_payloads(given: CodecPayloads, backend: Served) -> CodecPayloads:
    """Encrypt payloads, as workers do. 404 where no keys are set."""
    return _told(await _codec(backend).encode(_read(given)))


@router.post("/decode", operation_id="decodePayloads", responses=responses(404, 413))
async def decode_payloads(given: CodecPayloads, backend: Served) -> CodecPayloads:
    """Decrypt payloads, as workers do; what is not encrypted stays as it is. 404 where no keys are set."""
    try:
        return _told(await _codec(backend).decode(_read(given)))
    except KeyMissing as error:
        raise Refused(422, f"payloads: {error}", "payloads") from None


def _codec(backend: Served) -> EncryptedPayloads:
    keys = backend.database.keys
    if keys is None:
        raise Refused(404, f"nothing is encrypted here: neither {KEYS.name} nor {KEYS_FILE.name} is set")
    return EncryptedPayloads(keys)


def _read(given: CodecPayloads) -> list[TemporalPayload]:
    return [_payload(place, payload) for place, payload in enumerate(given.payloads)]


def _payload(place: int, given: CodecPayload) -> TemporalPayload:
    try:
        metadata = {name: _bytes(value) for name, value in given.metadata.items()}
        return TemporalPayload(metadata=metadata, data=_bytes(given.data))
    except ValueError:
        raise Refused(422, f"payloads.{place}: its data and the values of its metadata must be base64", "payloads") from None


def _bytes(text: str) -> bytes:
    standard = text.translate(_STANDARD)
    return b64decode(standard + "=" * (-len(standard) % 4), validate=True)


def _told(payloads: list[TemporalPayload]) -> CodecPayloads:
    return CodecPayloads(
        payloads=tuple(
            CodecPayload(metadata={name: _text(value) for name, value in one.metadata.items()}, data=_text(one.data))
            for one in payloads
        )
    )


def _text(content: bytes) -> str:
    return b64encode(content).decode()
