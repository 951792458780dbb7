"""What slices are computed from: the values of every sample of a split, and two trials' answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pydantic import JsonValue

from store.connection import Connection, Database
from store.encoding import from_json, json_at
from store.encrypted_contents import contents_of
from store.read.samples.measured_samples import measured
from store.read.samples.sample_pairs import measured_trial
from store.write.suites import load_suite
from workflows.model.suite import MeasuredSample
from workflows.model.trial import SEARCHING, Purpose, Split
from workflows.rules.scoring.slices import DEFAULT_FIELDS, TAGS, Slices, slices_of


class SliceReader:
    """What trials were worth on slices of their samples."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_run(self, run_id: str, fields: Sequence[str] | None = None) -> Slices | None:
        """Baseline and best by slice: of these fields, else of those that the spec names, else by tag.

        On the samples held back when both were confirmed there; None when nothing was measured.
        """
        async with self._database.snapshot() as connection:
            run = await connection.fetchrow(
                "SELECT baseline_candidate_id, best_candidate_id FROM runs WHERE run_id = $1", run_id
            )
            if run is None or run["baseline_candidate_id"] is None:
                return None
            baseline, best = run["baseline_candidate_id"], run["best_candidate_id"] or run["baseline_candidate_id"]
            trials = await _trials(connection, run_id, baseline, best)
            if baseline not in trials:
                return None
            after = trials.get(best) if best != baseline else None
            return await _sliced(connection, run_id, Split(trials[baseline]["split"]), fields, trials[baseline], after)

    async def of_trial(
        self, run_id: str, candidate_id: str, purpose: str | None, fields: Sequence[str] | None
    ) -> Slices | None:
        """A trial beside the baseline's on the same samples, by slice; None when there is no such trial."""
        async with self._database.snapshot() as connection:
            trial = await measured_trial(connection, run_id, candidate_id, purpose)
            if trial is None:
                return None
            named = await connection.fetchval("SELECT baseline_candidate_id FROM runs WHERE run_id = $1", run_id)
            same = Purpose.CONFIRMATION if trial.purpose == Purpose.CONFIRMATION else None
            baseline = await measured_trial(connection, run_id, named, same) if named is not None else None
            before = baseline if baseline is not None and baseline.split == trial.split else None
            return await _sliced(
                connection, run_id, Split(trial.split), fields, asdict(before) if before is not None else None, asdict(trial)
            )


async def _sliced(
    connection: Connection,
    run_id: str,
    split: Split,
    fields: Sequence[str] | None,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
) -> Slices:
    """Two trials on one split, by these fields, else by those that the spec names, else by tag."""
    wanted = fields or await stated_fields(connection, run_id)
    values = {field: await values_of(connection, run_id, split, field) for field in dict.fromkeys(wanted)}
    suite = await load_suite(connection, run_id, split)
    if not any(given for of_samples in values.values() for given in of_samples):
        return Slices(split=split)

    async def answers(trial: Mapping[str, Any] | None) -> Sequence[MeasuredSample]:
        if trial is None:
            return ()
        replicates = trial["first_replicate"], trial["replicates"]
        return await measured(connection, suite, trial["config_hash"], *replicates)

    return await asyncio.to_thread(slices_of, suite, values, await answers(before), await answers(after))


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


async def stated_fields(connection: Connection, run_id: str) -> Sequence[str]:
    """The fields that the run's spec slices by, else the tags."""
    stated = await connection.fetchval("SELECT spec #> '{dataset,slices}' FROM runs WHERE run_id = $1", run_id)
    fields: list[str] | None = from_json(stated) if stated else None
    return fields or DEFAULT_FIELDS


async def values_of(connection: Connection, run_id: str, split: Split, field: str) -> list[list[JsonValue]]:
    """The values that every sample of a split has, in order: any number of tags, one value of a field, or none."""
    part, *path = field.split(".")
    apart = field != TAGS and contents_of(connection).encrypts
    value = {TAGS: "to_json(s.tags)", "input": "s.input #> $3::text[]", "expected": "s.expected #> $3::text[]"}[part]
    value = f"s.{part}" if apart else f"({value})::text"
    rows = await connection.fetch(
        f"""
        SELECT {value} AS value
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
    given: list[str | None] = [json_at(row["value"], path) if apart else row["value"] for row in rows]
    if field == TAGS:
        return [[] if text is None else from_json(text) for text in given]
    return [[] if text is None else [from_json(text)] for text in given]
