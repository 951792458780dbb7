"""Values and texts that a spec may hold, in the one form that is stored, hashed, tried and shipped."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from ratchet._formats.canonical import NotCanonical, normalize, normalize_text

LONGEST_TEXT = 200_000


def _canonical(value: Any) -> Any:
    try:
        return normalize(value)
    except NotCanonical as error:
        raise ValueError(str(error)) from None


def canonical_text(value: str) -> str:
    """NFC, with `\\n` line ends; what no store keeps is refused."""
    try:
        return normalize_text(value)
    except NotCanonical as error:
        raise ValueError(str(error)) from None


def without_nul(value: str) -> str:
    """The text as it is, which may be no NFC: the name of a file. No store keeps a NUL, and no system opens it."""
    if "\x00" in value:
        raise ValueError("contains a NUL character; remove it")
    return value


CanonicalValue = Annotated[JsonValue, BeforeValidator(_canonical)]
CanonicalMapping = Annotated[dict[str, JsonValue], BeforeValidator(_canonical)]
Text = Annotated[str, AfterValidator(canonical_text), Field(max_length=LONGEST_TEXT)]
ShortText = Annotated[str, AfterValidator(canonical_text), Field(max_length=2_000)]
CanonicalInteger = Annotated[int, AfterValidator(_canonical)]
PathText = Annotated[str, AfterValidator(without_nul), Field(min_length=1, max_length=1000)]
