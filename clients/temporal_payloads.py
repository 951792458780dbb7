"""How payloads and failures cross the border of Temporal: what does not fit its type is refused at once, in words.

What a workflow cannot decode, Temporal retries for ever. Here it becomes an invalid request, which fails the run.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pydantic
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.common import RawValue
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import DataConverter, DefaultFailureConverter, EncodingPayloadConverter, PayloadConverter
from temporalio.exceptions import ApplicationError

from clients.payload_encryption import EncryptedPayloads, encoding_of, key_of
from ratchet._encryption import KEYS, KEYS_FILE, EncryptionKeys
from ratchet._formats.strict_json import RepeatedKey, each_key_once
from ratchet._frozen import SpecPart
from ratchet._text.explanation import explain
from workflows.model.failures import INVALID_REQUEST, shorten

JSON = "json/plain"
LONGEST_EXPLANATION = 8_000
LONGEST_STACK_TRACE = 8_000
MOST_PROBLEMS, SAMPLED = 5_000, 40


def invalid(message: str) -> ApplicationError:
    """What was sent is wrong, and sending it again would not help."""
    return ApplicationError(shorten(message, LONGEST_EXPLANATION), type=INVALID_REQUEST, non_retryable=True)


class StrictPayloadConverter(PydanticPayloadConverter):
    """Pydantic's converter, with messages a person can act on, and with no way around a type.

    The SDK makes a converter for every workflow, and another for each of its tasks. What they share are the adapters of types,
    which would be made anew with each.
    """

    def __init__(self) -> None:
        self.converters = _shared_converters()

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        fitting = type_hints is not None and len(type_hints) == len(payloads)
        hints: Sequence[Any] = type_hints if fitting and type_hints is not None else [None] * len(payloads)
        return [self._decoded(payload, hint) for payload, hint in zip(payloads, hints, strict=True)]

    def _decoded(self, payload: Payload, hint: Any) -> Any:
        encoding = encoding_of(payload).decode("utf-8", "replace")
        if encoding == JSON and isinstance(hint, type) and issubclass(hint, SpecPart):
            _refuse_repeated_keys(payload.data)
        try:
            [value] = super().from_payloads([payload], [hint])
            # Other encodings than JSON are decoded to whatever they hold, past the type.
            return value if encoding == JSON or hint in (None, Any, bytes, RawValue) else _adapter(hint).validate_python(value)
        except pydantic.ValidationError as error:
            raise invalid(_explained(error, payload.data, hint) if encoding == JSON else _not_json(payload)) from None
        except Exception:
            raise invalid(_not_json(payload)) from None


@functools.cache
def _shared_converters() -> Mapping[bytes, EncodingPayloadConverter]:
    return PydanticPayloadConverter().converters


@functools.cache
def _adapter(hint: Any) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(hint)


def _not_json(payload: Payload) -> str:
    key_id = key_of(payload)
    if key_id is not None:
        return f"the input cannot be decrypted: key {key_id!r} of {KEYS.name} or {KEYS_FILE.name} here has not encrypted it"
    encoding = encoding_of(payload).decode("utf-8", "replace")
    given = f"has the encoding {shorten(encoding, 80)}" if encoding else "names no encoding"
    return f"the input {given}, which cannot be read here; send one JSON object with the encoding {JSON}"


def _explained(error: pydantic.ValidationError, data: bytes, hint: Any) -> str:
    if error.error_count() > MOST_PROBLEMS:
        return _sampled(error.error_count(), data, hint)
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] != "json_invalid":
        return "; ".join(explain(error))
    problem = str(first.get("ctx", {}).get("error", first["msg"]))
    return f"the input is not JSON that can be used: {problem}; {_fix_of(problem)}"


def _sampled(count: int, data: bytes, hint: Any) -> str:
    """Telling a million problems takes longer than Temporal lets a workflow think: those of its beginning must do."""
    told = "they are not at the beginning of its lists and mappings"
    try:
        _adapter(hint).validate_python(beginning_of(json.loads(data)))
    except pydantic.ValidationError as error:
        told = "; ".join(explain(error))
    return f"the input has {count:,} problems, these among them: {told}"


def beginning_of(value: Any) -> Any:
    """The value with the first entries of its lists and mappings only."""
    if isinstance(value, list):
        return [beginning_of(item) for item in value[:SAMPLED]]
    if isinstance(value, dict):
        return {key: beginning_of(item) for key, item in itertools.islice(value.items(), SAMPLED)}
    return value


def _fix_of(problem: str) -> str:
    if "hex escape" in problem or "surrogate" in problem:
        return r"remove lone surrogates (\ud800 to \udfff), which are no text"
    if "recursion" in problem:
        return "it is nested too deeply, flatten it"
    if "out of range" in problem:
        return "write numbers of so many digits as text"
    return "send one JSON object"


def _refuse_repeated_keys(data: bytes) -> None:
    """JSON readers keep the last of equal keys; a person who wrote both would not know which one counts."""
    try:
        json.loads(data, object_pairs_hook=each_key_once, parse_int=str, parse_float=str, parse_constant=str)
    except RepeatedKey as error:
        raise invalid(str(error)) from None
    except (ValueError, RecursionError):
        return  # pydantic says what is wrong


class PlainFailureConverter(DefaultFailureConverter):
    """Every failure can be told. One that cannot would be retried for ever: lone surrogates are no text on the wire, an
    exception's own text may raise, and a megabyte of it is more than a history takes."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        try:
            super().to_failure(exception, payload_converter, failure)
        except Exception:
            failure.Clear()
            super().to_failure(_told_plainly(exception), payload_converter, failure)
        failure.message = shorten(failure.message, LONGEST_EXPLANATION)
        failure.stack_trace = shorten(failure.stack_trace, LONGEST_STACK_TRACE)


def _told_plainly(error: BaseException) -> ApplicationError:
    try:
        text = error.message if isinstance(error, ApplicationError) else str(error)
    except Exception:
        text = "its text cannot be shown"
    kind = error.type if isinstance(error, ApplicationError) else type(error).__name__
    told = ApplicationError(
        shorten(text, LONGEST_EXPLANATION),
        type=shorten(kind or "", 200) or None,
        non_retryable=isinstance(error, ApplicationError) and error.non_retryable,
        next_retry_delay=error.next_retry_delay if isinstance(error, ApplicationError) else None,
    )
    told.__suppress_context__ = True
    return told


class EncodedFailureConverter(PlainFailureConverter):
    """Puts message and stack trace of a failure where they are encrypted with all else."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        super().to_failure(exception, payload_converter, failure)
        told = {"message": failure.message, "stack_trace": failure.stack_trace}
        failure.encoded_attributes.CopyFrom(payload_converter.to_payloads([told])[0])
        failure.message, failure.stack_trace = "Encoded failure", ""


def data_converter(keys: EncryptionKeys | None) -> DataConverter:
    """Return the one converter of client, worker, replayer and tests; with keys, payloads and failures are encrypted."""
    return DataConverter(
        payload_converter_class=StrictPayloadConverter,
        payload_codec=EncryptedPayloads(keys),
        failure_converter_class=PlainFailureConverter if keys is None else EncodedFailureConverter,
    )
