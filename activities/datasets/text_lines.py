"""Text files line by line, and JSONL: one object per line."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from activities.datasets.dataset_errors import DatasetError, shown
from activities.datasets.items import LONGEST, NESTED_TOO_DEEPLY, NOT_STRICT, STRICT_JSON, mapping_of, refuse_too_many_values

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def numbered_lines(path: Path, name: str) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers, of which never more than one is in memory."""
    with path.open("rb") as file:
        for number in itertools.count(1):
            line = file.readline(LONGEST + 1)
            if not line:
                return
            if len(line) > LONGEST:
                raise DatasetError(
                    f"{name} line {number}: is longer than {LONGEST:,} bytes; keep large content behind a reference"
                )
            yield number, _decoded(f"{name} line {number}", line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line)


def _decoded(where: str, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{where}: byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None


def read_jsonl(path: Path, name: str) -> Iterator[tuple[str, Any]]:
    """The objects of a file with the place of each. Empty lines are skipped."""
    for number, text in numbered_lines(path, name):
        if text.strip():
            where = f"{name} line {number}"
            yield where, mapping_of(where, _value(where, text), text)


def _value(where: str, text: str) -> Any:
    refuse_too_many_values(where, text)
    try:
        return STRICT_JSON.decode(text)
    except json.JSONDecodeError as error:
        raise DatasetError(
            f"{where}: is not JSON ({error.msg} at column {error.colno}): {shown(text)}; {_hint(text)}",
            unquoted=f"{where}: is not JSON ({error.msg} at column {error.colno}); {_hint(text)}",
        ) from None
    except RecursionError:
        raise DatasetError(f"{where}: {NESTED_TOO_DEEPLY}") from None
    except ValueError as error:
        raise DatasetError(f"{where}: {error}", unquoted=f"{where}: {NOT_STRICT}") from None


def _hint(text: str) -> str:
    if text.strip() in {"[", "{"}:
        return "JSONL has one whole item per line, without a list around them; a list belongs in a .json file (format: json)"
    return "write one JSON object per line"
