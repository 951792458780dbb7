"""The part of an output that a scorer looks at: after `Answer:`, or at a place within JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from activities.scorers.bounded_patterns import BoundedMatching
from ratchet import Output
from ratchet._formats.canonical import NotCanonical, normalize
from ratchet._formats.strict_json import whole_number
from ratchet._text.placeholders import as_text
from workflows.model.spec.extraction import Extract, json_path_steps

_FENCED = re.compile(r"\s*```[\w-]*\n(.*?)\n?```\s*", re.DOTALL)


class NothingThere(Exception):
    """The output does not have the part that is to be scored: that is the answer's fault."""


async def extracted(extract: Extract, output: Output, matching: BoundedMatching) -> Output:
    """The output with nothing but the part that is to be scored."""
    value = output.value
    if extract.regex is not None:
        value = await matching.extract(extract.regex, as_text(value))
        if value is None:
            raise NothingThere(f"has nothing that matches {extract.regex!r}")
    if extract.json_path is not None:
        value = _at(extract.json_path, _parsed(value) if isinstance(value, str) else value)
    if extract.strip:
        value = as_text(value).strip()
    if extract.lower:
        value = as_text(value).lower()
    return replace(output, value=value)


def read_json(text: str) -> Any:
    """JSON as models write it: bare, or in a fenced block. Raises ValueError or RecursionError."""
    fenced = _FENCED.fullmatch(text)
    return json.loads(fenced.group(1) if fenced else text, parse_constant=refuse_constant, parse_int=whole_number)


def refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _parsed(text: str) -> Any:
    try:
        return normalize(read_json(text))
    except (ValueError, RecursionError, NotCanonical) as error:
        raise NothingThere(f"is not valid JSON: {error}") from None


def _at(path: str, value: Any) -> Any:
    for step in json_path_steps(path):
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            raise NothingThere(f"has nothing at {path}") from None
    return value
