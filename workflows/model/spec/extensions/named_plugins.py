"""Plug-ins as a spec names them."""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field

from ratchet._values import ShortText

_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def _is_plugin_reference(value: str) -> str:
    if not _REFERENCE.fullmatch(value):
        raise ValueError("is not a plug-in reference; write package.module:attribute")
    return value


PluginReference = Annotated[str, AfterValidator(_is_plugin_reference), Field(max_length=500)]
"""`package.module:attribute`, resolved by the worker from its own import path."""


Description = Annotated[ShortText, Field(min_length=1, max_length=200)]
"""What a plug-in of the user's is, in words for reports."""

PROGRAM = "ratchet.program"
"""Before the colon: a function of the program that started the run. Only that program can serve it; it is never imported."""


def is_of_program(reference: str) -> bool:
    """Whether a reference names a function of the program that started the run."""
    return reference.startswith(f"{PROGRAM}:")


class NamedPlugin(NamedTuple):
    """One place of a spec that names a plug-in, and how it will be called."""

    field: str
    ref: str
    arguments: int
    """How many positional ones."""
    version: str | None
