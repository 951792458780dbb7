"""Data as a program has it: rows, a table of pandas or polars, a file. A spec has items or a path."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from ratchet import Sample
from ratchet._formats.canonical import is_scalar
from ratchet.errors import SpecError
from workflows.model.spec.dataset import LARGEST_INLINE_DATASET, MOST_INLINE_ITEMS

LARGEST_INLINE: Final = LARGEST_INLINE_DATASET // 2
"""Bytes as JSON; what is larger goes through a file."""

Rows = list[dict[str, Any]]


def dataset_of(data: Any, directory: Path, name: str) -> dict[str, Any]:
    """The part of a spec's dataset that says where the samples are. `directory` takes what is too large for a spec."""
    if isinstance(data, str | Path):
        path = str(data)
        return {"path": path if "://" in path else str(Path(path).absolute())}
    if isinstance(data, Mapping):
        parts = {str(split): _rows(rows, f"data[{split!r}]") for split, rows in data.items()}
        if not any(map(_is_table, parts.values())) and _fits(parts, sum(map(len, parts.values()))):
            return {"items": parts}
        paths = {split: _written(rows, directory / f"{name}-{split}.jsonl") for split, rows in parts.items()}
        return {"paths": paths} | _columns(rows for rows in parts.values())
    rows = _rows(data, "data")
    if not _is_table(rows) and _fits(rows, len(rows)):
        return {"items": rows}
    return {"path": _written(rows, directory / f"{name}.jsonl")} | _columns([rows])


def _rows(data: Any, where: str) -> Rows:
    """The rows as JSON has them."""
    for method in ("to_dicts", "to_dict"):  # of polars, of pandas
        if hasattr(data, "columns") and hasattr(data, method):
            data = data.to_dicts() if method == "to_dicts" else data.to_dict("records")
            break
    if not isinstance(data, Iterable) or isinstance(data, str | bytes):
        raise SpecError(f"{where}: is a {type(data).__name__}; give rows, a table, or the path of a file")
    return [_row(row, f"{where}[{place}]") for place, row in enumerate(data)]


def _row(row: Any, where: str) -> dict[str, Any]:
    if isinstance(row, Sample):
        row = {name: part for name, part in dataclasses.asdict(row).items() if name != "files"}
    if not isinstance(row, Mapping):
        raise SpecError(f"{where}: is a {type(row).__name__}; give a mapping with input and expected, or a ratchet.Sample")
    return {str(name): _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    """What JSON has for a value. Tables have numbers of their own, and NaN where nothing is known."""
    if is_scalar(value):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else value


def _is_table(rows: Rows) -> bool:
    """Whether rows have columns of their own names instead of `input`."""
    return bool(rows) and "input" not in rows[0]


def _columns(parts: Iterable[Rows]) -> dict[str, Any]:
    return {"columns": {}} if any(map(_is_table, parts)) else {}


def _fits(rows: Any, count: int) -> bool:
    return count <= MOST_INLINE_ITEMS and len(_json(rows)) <= LARGEST_INLINE


def _written(rows: Rows, file: Path) -> str:
    file.write_text("".join(f"{_json(row)}\n" for row in rows), encoding="utf-8")
    return str(file)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SpecError(f"data: {error}; give text, numbers, lists and mappings") from None
