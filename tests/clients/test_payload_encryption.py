"""Payloads and failures on their way to Temporal: encrypted with keys, unchanged without, and read in both forms."""

from __future__ import annotations

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from clients.temporal_payloads import LONGEST_EXPLANATION, data_converter
from ratchet._encryption import EncryptionKeys, KeyMissing

OLD = EncryptionKeys({"old": bytes(32)})
BOTH = EncryptionKeys({"new": bytes(range(32)), "old": bytes(32)})
SECRET = "a very secret prompt"
CLAIMS = {"encoding": b"binary/encrypted", "encryption-key-id": b"old"}


async def failure_of(converter: DataConverter, error: BaseException) -> Failure:
    failure = Failure()
    await converter.encode_failure(error, failure)
    return failure


async def test_a_payload_says_that_it_is_encrypted_and_with_which_key_as_temporals_samples_do() -> None:
    [payload] = await data_converter(OLD).encode([{"prompt": SECRET}])
    assert payload.metadata == {"encoding": b"binary/encrypted", "encryption-key-id": b"old"}
    assert SECRET.encode() not in payload.SerializeToString()
    assert await data_converter(BOTH).decode([payload]) == [{"prompt": SECRET}]


async def test_what_is_long_is_compressed_first() -> None:
    [payload] = await data_converter(OLD).encode([SECRET * 1000])
    assert len(payload.data) < 1000
    assert await data_converter(OLD).decode([payload], [str]) == [SECRET * 1000]


async def test_plain_payloads_are_read_whatever_keys_there_are() -> None:
    plain = await data_converter(None).encode([{"prompt": SECRET}])
    assert plain[0].metadata["encoding"] == b"json/plain"
    assert await data_converter(OLD).decode(plain) == [{"prompt": SECRET}]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (None, "encrypted with key 'old', and neither RATCHET_ENCRYPTION_KEYS nor RATCHET_ENCRYPTION_KEYS_FILE"),
        (EncryptionKeys({"new": bytes(32)}), "key 'old' is missing.*RATCHET_ENCRYPTION_KEYS holds new"),
    ],
)
async def test_without_its_key_a_payload_is_refused_by_name(keys: EncryptionKeys | None, told: str) -> None:
    encrypted = await data_converter(OLD).encode([SECRET])
    with pytest.raises(KeyMissing, match=told):
        await data_converter(keys).decode(encrypted)


async def test_what_another_key_of_that_id_has_encrypted_is_malformed_input_that_fails_what_it_was_sent_to() -> None:
    """Nobody's message keeps a run from going on; a worker with a wrong key is refused by the store before."""
    wrong = EncryptionKeys({"old": bytes(range(32))})
    for encrypted in (await data_converter(OLD).encode([SECRET]), [Payload(metadata=CLAIMS, data=b"made up")]):
        with pytest.raises(ApplicationError, match=r"key 'old' of RATCHET_ENCRYPTION_KEYS .* has not encrypted it") as caught:
            await data_converter(wrong).decode(encrypted, [str])
        assert caught.value.non_retryable


async def test_messages_and_traces_of_failures_are_encrypted_with_their_causes() -> None:
    try:
        try:
            raise ValueError(f"cause: {SECRET}")
        except ValueError as cause:
            raise ApplicationError(f"failed: {SECRET}", SECRET, type="Told") from cause
    except ApplicationError as error:
        raised = error
    failure = await failure_of(data_converter(OLD), raised)
    assert SECRET.encode() not in failure.SerializeToString()
    assert b"test_payload_encryption" not in failure.SerializeToString()  # the trace names files
    assert failure.application_failure_info.type == "Told"
    read = await data_converter(BOTH).decode_failure(failure)
    assert isinstance(read, ApplicationError)
    assert (read.message, read.details, str(read.__cause__)) == (f"failed: {SECRET}", (SECRET,), f"ValueError: cause: {SECRET}")


async def test_a_failure_is_as_short_as_a_history_takes_with_keys_and_without() -> None:
    for keys in (None, OLD):
        failure = await failure_of(data_converter(keys), ApplicationError("x" * 1_000_000))
        assert failure.ByteSize() < 2 * LONGEST_EXPLANATION
        read = await data_converter(keys).decode_failure(failure)
        assert isinstance(read, ApplicationError)
        assert 1000 < len(read.message) <= LONGEST_EXPLANATION
