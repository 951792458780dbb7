"""What slices are computed from: the values of every sample of a split, and two trials' answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import JsonValue

from activities.store.connection import Connection
from activities.store.encoding import from_json
from activities.store.shards import load_suite, measured
from workflows.model.trial import SEARCHING, Purpose, Split
from workflows.rules.slices import DEFAULT_FIELDS, TAGS, Slices, slices_of


async def slices_of_run(connection: Connection, run_id: str, fields: Sequence[str] | None) -> Slices | None:
    """Baseline and best by slice, on the samples held back when both were confirmed there; None when nothing was measured."""
    run = await connection.fetchrow(
        "SELECT baseline_candidate_id, best_candidate_id, spec #> '{dataset,slices}' AS fields FROM runs WHERE run_id = $1",
        run_id,
    )
    if run is None or run["baseline_candidate_id"] is None:
        return None
    baseline, best = run["baseline_candidate_id"], run["best_candidate_id"] or run["baseline_candidate_id"]
    trials = await _trials(connection, run_id, baseline, best)
    if baseline not in trials:
        return None
    split = Split(trials[baseline]["split"])
    wanted = fields or (from_json(run["fields"]) if run["fields"] else None) or DEFAULT_FIELDS
    values = {field: await _values(connection, run_id, split, field) for field in dict.fromkeys(wanted)}
    suite = await load_suite(connection, run_id, split)
    if not any(given for of_samples in values.values() for given in of_samples):
        return Slices(split=split)
    answers = {
        candidate_id: await measured(
            connection, run_id, split, row["config_hash"], suite.evaluator, row["first_replicate"], row["replicates"]
        )
        for candidate_id, row in trials.items()
    }
    return slices_of(suite, values, answers[baseline], answers.get(best, ()) if best != baseline else ())


async def _trials(connection: Connection, run_id: str, baseline: str, best: str) -> dict[str, Any]:
    """The completed trials of both: their confirmations, or where one of them has none, those that searched."""
    rows = await connection.fetch(
        "SELECT candidate_id, purpose, split, config_hash, first_replicate, replicates FROM trials"
        " WHERE run_id = $1 AND candidate_id = ANY($2) AND status = 'completed'",
        run_id,
        [baseline, best],
    )
    confirmed = {row["candidate_id"]: row for row in rows if row["purpose"] == Purpose.CONFIRMATION}
    searched = {row["candidate_id"]: row for row in rows if row["purpose"] in SEARCHING}
    return confirmed if {baseline, best} <= set(confirmed) else searched


async def _values(connection: Connection, run_id: str, split: Split, field: str) -> list[list[JsonValue]]:
    """The values that every sample of a split has, in order: any number of tags, one value of a field, or none."""
    part, *path = field.split(".")
    value = {TAGS: "to_json(s.tags)", "input": "s.input #> $3::text[]", "expected": "s.expected #> $3::text[]"}[part]
    rows = await connection.fetch(
        f"""
        SELECT ({value})::text AS value
        FROM suites suite
        JOIN suite_samples drawn USING (run_id, split)
        JOIN samples s ON s.dataset_id = suite.dataset_id AND s.item_hash = drawn.item_hash
        WHERE suite.run_id = $1 AND suite.split = $2 AND $3::text[] IS NOT NULL
        ORDER BY drawn.position
        """,  # noqa: S608 (one of three constants)
        run_id,
        split.value,
        path,
    )
    found = [[] if row["value"] is None else from_json(row["value"]) for row in rows]
    return (
        found
        if field == TAGS
        else [[given] if row["value"] is not None else [] for given, row in zip(found, rows, strict=True)]
    )
