"""The two kinds of type in this vocabulary.

Payloads ignore fields they do not know, so that an older worker reads what a newer one sent. What a person writes refuses
them, so that a misspelt key is never silently dropped. Both refuse NaN and infinity, which JSON cannot carry.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Payload(BaseModel):
    """What workflows and activities hand each other. New fields always have defaults."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


class SpecPart(BaseModel):
    """A part of the spec: written by a person, described for editors, strict about unknown keys."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, extra="forbid", use_attribute_docstrings=True)
