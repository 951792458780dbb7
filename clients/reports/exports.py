"""A run for other programs: outcomes as CSV, lineage as a Mermaid graph."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

from clients.reports.facts import Iteration, RunFacts, best_iteration, decision_on
from clients.reports.formatting import score_text
from clients.reports.optimizer_notes import measured_in_part
from clients.reports.text.terminal_text import visible
from store.read.reader import StoreReader
from store.read.rows.item_rows import ItemRow
from store.read.rows.trial_rows import Trial

COLUMNS: Final = (
    "optimization_id", "candidate_id", "purpose", "round", "split", "item_id", "replicate", "status", "passed", "score_name",
    "score", "tokens", "cost", "latency_ms", "ttft_ms", "error", "feedback", "input", "expected", "output", "reused_from",
    "cached_tokens",
)  # fmt: skip
PAGE: Final = 500
_FORMULA: Final = re.compile(r"\s*[=+\-@＝＋－＠]")


async def outcome_rows(reader: StoreReader, run_id: str) -> AsyncIterator[str]:
    """The CSV, a page of answers at a time: one line per answer and score."""
    yield csv_lines([COLUMNS])
    offset = 0
    while True:
        page = await reader.trials.page(run_id, offset=offset, limit=PAGE)
        if page is None or not page.items:
            return
        for trial in page.items:
            async for rows in _answers(reader, trial):
                yield rows
        offset += len(page.items)


async def _answers(reader: StoreReader, trial: Trial) -> AsyncIterator[str]:
    offset = 0
    while True:
        page = await reader.trials.items(
            trial.run_id, trial.candidate_id, purpose=trial.purpose, part=trial.part, offset=offset, limit=PAGE
        )
        if page is None or not page.items:
            return
        yield csv_lines([row for item in page.items for row in _scores(trial, item)])
        offset += len(page.items)


def _scores(trial: Trial, item: ItemRow) -> list[list[Any]]:
    before: list[Any] = [trial.run_id, trial.candidate_id, trial.purpose, trial.round, trial.split]
    before += [item.item_id, item.replicate, item.status, item.passed]
    after: list[Any] = [item.tokens, item.cost, item.latency_ms, item.ttft_ms, item.error, item.feedback]
    after += [json_text(item.input), json_text(item.expected), json_text(item.output), item.reused_from]
    after.append(item.cached_tokens)
    scores: list[tuple[str, float | None]] = [*item.scores.items()] or [("", None)]
    return [[*before, name, score, *after] for name, score in scores]


def json_text(value: Any) -> str:
    """Text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _plain(cell: Any) -> Any:
    """A spreadsheet takes text that begins like a formula for one, and would run it; a terminal obeys what steers it."""
    if not isinstance(cell, str):
        return cell
    text = visible(cell)
    return f"'{text}" if _FORMULA.match(text) else text


def csv_lines(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV in which no cell is taken for a formula."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerows([[_plain(cell) for cell in row] for row in rows])
    return written.getvalue()


def mermaid(facts: RunFacts) -> str:
    """The true lineage, several parents included. Labels carry ids, scores and verdicts only, never a model's text."""
    best = best_iteration(facts)
    lines = ["flowchart TD"]
    in_part = measured_in_part(facts)
    nodes = {iteration.candidate_id: f"n{iteration.number}" for iteration in facts.iterations}
    nodes |= {trial.candidate_id: f"p{number}" for number, trial in enumerate(in_part)}
    for iteration in facts.iterations:
        lines.append(f'  {nodes[iteration.candidate_id]}["{_label(facts, iteration)}"]')
    for trial in in_part:
        lines.append(f'  {nodes[trial.candidate_id]}("{_name(trial)}<br/>measured in part")')
    for iteration in (*facts.iterations, *in_part):
        known = [nodes[parent] for parent in iteration.parents if parent in nodes]
        lines += [f"  {parent} --> {nodes[iteration.candidate_id]}" for parent in known]
    lines += ["  classDef best stroke-width:4px", "  classDef failed stroke-dasharray:4"]
    if best is not None:
        lines.append(f"  class {nodes[best.candidate_id]} best")
    lines += [f"  class {nodes[one.candidate_id]} failed" for one in facts.iterations if one.score is None]
    return "\n".join(lines) + "\n"


def _name(iteration: Iteration) -> str:
    return re.sub(r"[^\w.:/-]", "?", iteration.candidate_id)


def _label(facts: RunFacts, iteration: Iteration) -> str:
    decision = decision_on(facts, iteration)
    parts = [_name(iteration)]
    parts.append(iteration.status.value.lower() if iteration.score is None else score_text(iteration.score))
    if decision is not None and decision.verdict is not None:
        parts.append(decision.verdict.value.replace("_", " "))
    return "<br/>".join(parts)
