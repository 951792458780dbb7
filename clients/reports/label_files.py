"""Labels for other programs: a line for each, as JSON or CSV; and samples of a dataset, with what most people said."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final

from clients.reports.exports import csv_lines, json_text
from store.read.labels import GivenLabel, LabelledItem, LabelQuestion, LabelReader
from workflows.model.spec.dataset import Item

COLUMNS: Final = (
    "optimization_id", "question_id", "kind", "question", "position", "item_id", "candidate_id", "replicate",
    "other_candidate_id", "other_replicate", "who", "through", "label", "better_candidate_id", "at", "changed_at", "input",
    "expected", "output", "other_output", "item_hash", "config_hash", "target", "other_config_hash", "other_target",
)  # fmt: skip
CONTENTS: Final = ("input", "expected", "output", "other_output")
PAGE: Final = 200


def head_of(form: str) -> str:
    """Return what stands above all lines: the names of columns, where there are any."""
    return csv_lines([COLUMNS]) if form == "csv" else ""


async def label_lines(reader: LabelReader, question: LabelQuestion, form: str) -> AsyncIterator[str]:
    """Yield all labels of a question as `jsonl` or `csv`, a page of answers at a time."""
    async for item in _items(reader, question):
        rows = [_row(question, item, given) for given in item.labels]
        if form == "csv":
            yield csv_lines([[json_text(row[name]) if name in CONTENTS else row[name] for name in COLUMNS] for row in rows])
        else:
            yield "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


async def _items(reader: LabelReader, question: LabelQuestion) -> AsyncIterator[LabelledItem]:
    after = -1
    while page := await reader.labelled(question, after=after, limit=PAGE):
        for item in page:
            yield item
        after = page[-1].position


def _row(question: LabelQuestion, item: LabelledItem, given: GivenLabel) -> dict[str, Any]:
    first, other = item.keys[0], item.keys[1] if len(item.keys) == 2 else None
    better = {"first": first.candidate_id, "second": other.candidate_id}.get(given.label) if other is not None else None
    return {
        "optimization_id": question.optimization_id,
        "question_id": question.question_id,
        "kind": question.kind,
        "question": question.words,
        "position": item.position,
        "item_id": item.item_id,
        "candidate_id": first.candidate_id,
        "replicate": first.replicate,
        "other_candidate_id": None if other is None else other.candidate_id,
        "other_replicate": None if other is None else other.replicate,
        "who": given.who,
        "through": given.through,
        "label": given.label,
        "better_candidate_id": better,
        "at": given.at.isoformat(),
        "changed_at": None if given.changed_at is None else given.changed_at.isoformat(),
        "input": item.input,
        "expected": item.expected,
        "output": item.outputs[0],
        "other_output": item.outputs[1] if len(item.outputs) == 2 else None,
        "item_hash": first.item_hash,
        "config_hash": first.config_hash,
        "target": first.target,
        "other_config_hash": None if other is None else other.config_hash,
        "other_target": None if other is None else other.target,
    }


@dataclass(frozen=True, slots=True)
class LabelledSamples:
    """What labels come to as samples."""

    items: list[Item]
    tied: int
    """Answers of which no label has the most; they are left out."""


async def labelled_samples(reader: LabelReader, question: LabelQuestion) -> LabelledSamples:
    """A sample for each labelled answer: the question, what was asked and answered; what most people said is expected."""
    items, tied = [], 0
    async for item in _items(reader, question):
        if not item.labels:
            continue
        said = Counter(given.label for given in item.labels).most_common()
        if len(said) > 1 and said[0][1] == said[1][1]:
            tied += 1
            continue
        agreed = "unanimous" if len(said) == 1 else "majority"
        tags = [agreed, f"labels: {len(item.labels)}"]
        name = f"{question.question_id}-{item.position}"
        items.append(Item(id=name, input=dict(_asked(question, item)), expected=said[0][0], tags=tags))
    return LabelledSamples(items, tied)


def _asked(question: LabelQuestion, item: LabelledItem) -> Iterator[tuple[str, Any]]:
    yield "question", question.words
    yield "input", item.input
    if item.expected is not None:
        yield "expected", item.expected
    yield from zip(("first", "second") if len(item.outputs) == 2 else ("output",), item.outputs, strict=True)
