"""A person's own candidate, as a file or standard input says it: values by factor, as YAML or JSON."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pydantic

from clients.commands.context import CommandError
from ratchet._formats.strict_json import strict_json
from ratchet._formats.yaml import YamlProblem, composed, constructed
from ratchet._text.explanation import explain
from workflows.model.run.contract import Pending
from workflows.model.spec.factors import LARGEST_CONFIGURATION

LARGEST_FILE_BYTES = 4 * LARGEST_CONFIGURATION
STANDARD_INPUT = "-"
HOW = "write values by factor, e.g. `temperature: 0.2`; factors left out keep the baseline's values"


def read_proposal(file: Path, rationale: str | None) -> dict[str, Any]:
    """Return the update's input, checked here so that a mistake is told before anything is asked of a server."""
    told = "standard input" if str(file) == STANDARD_INPUT else str(file)
    try:
        values = _values(_text(file))
    except YamlProblem as problem:
        place = told if problem.line is None else f"{told}:{problem.line}"
        raise CommandError(f"{place}: {problem}") from None
    except (ValueError, OSError) as error:
        why = f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else str(error)
        raise CommandError(f"{told}: {why}") from None
    try:
        return Pending(configuration=values, rationale=rationale).model_dump(mode="json", exclude_none=True)
    except pydantic.ValidationError as error:
        raise CommandError("\n".join(f"propose: {line}" for line in explain(error))) from None


def _text(file: Path) -> str:
    if str(file) == STANDARD_INPUT:
        content = sys.stdin.buffer.read(LARGEST_FILE_BYTES + 1)
    else:
        with file.open("rb") as opened:
            content = opened.read(LARGEST_FILE_BYTES + 1)
    if len(content) > LARGEST_FILE_BYTES:
        raise ValueError(f"has more than {LARGEST_FILE_BYTES:,} bytes; a configuration has at most {LARGEST_CONFIGURATION:,}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} is not UTF-8; save it as UTF-8") from None


def _values(text: str) -> dict[str, Any]:
    values = _json_or_none(text)
    if values is None:
        root = composed(text)
        values = None if root is None else constructed(root)
    if not isinstance(values, dict):
        raise ValueError(f"is no mapping; {HOW}")
    if not values:
        raise ValueError(f"names no factor; {HOW}")
    return values


def _json_or_none(text: str) -> Any:
    """JSON may be indented by tabs, which YAML does not take."""
    try:
        return strict_json(text) if text.lstrip().startswith("{") else None
    except ValueError:
        return None
