"""Whoever changes what a run found out, in its exported file or in the store, is found out by `ratchet replay`."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from clients.replay.from_file import replay_file
from clients.replay.from_store import replay_store
from clients.replay.trials_from_file import SINGLE_ANSWERS
from clients.reports.history.answers import with_answers
from clients.reports.history.files import NotAHistory, history_json
from clients.reports.history.write import fingerprint
from clients.reports.load import facts_of
from store.read.reader import StoreReader
from store.read.replay_records import RecordedOutcomes
from tests.support.engines import Engines
from tests.support.replaying import differences_in_store

MUST_PASS = {"samples": ["s3", "s4"], "flake_rate": 0.4}
"""One failure of a sample is no rarer than that, so that nobody is refused for it."""

TICKS = {
    "name": "tampered",
    "configuration": {
        "skill": {"value": 0.4, "change": "structured", "type": "number", "min": 0, "max": 1},
        "unit": "metre",
    },
    "target": {"kind": "python", "ref": "plugged:coin"},
    "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(40)], "splits": {"validation": 0.6, "test": 0.4}},
    "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height"}],
    "objective": {"metric": "height"},
    "optimizer": {"name": "none", "configurations": [{"skill": 0.05}, {"skill": 0.6}, {"skill": 0.95}]},
    "judgement": {"racing": {"block": 8}, "constraints": ["cost <= 0.01"], "must_pass": MUST_PASS},
    "budget": {"cost": 5.0},
    "seed": 11,
}

OUTSIDE = [
    r"^(useCaseId|experimentId|datasetId|startTime|endTime|totalDurationMs|versions|slices|lost)\b",
    r"\.(rationale|extra|durationMs|startTime|endTime|meanLatencyMs|totalTokens|errors|trialId|reused|lost)\b",
    r"\.(experiment_id|history|started_at|finished_at|release|compression)\b",
    r"^spec\.(name|use_case|experiment|target|dataset|scorers|flags|prices|execution|reuse|seed|replicates|samples_per_trial)\b",
    r"^spec\.(optimizer|release|prompt|retry_of|configuration)\b",
    r"decidedAt$|decided_at$|paused|readers$|searched$|contentFingerprint",
    r"^(iterations|furtherTrials)\.trial\.index$",
]
"""What comes from outside: names, times, texts of others, figures of single answers, and what the run was asked to do. No rule
makes it what it is, so that nothing contradicts it; the fingerprint alone says that it was changed."""


@pytest_asyncio.fixture(scope="session")
async def tampered_with(engines: Engines) -> str:
    """A run with races, several verdicts, a winner and its confirmation."""
    result = await engines.run(TICKS)
    assert result["confirmation"]["judged"] is not None
    return str(result["optimization_id"])


@pytest_asyncio.fixture(scope="session")
async def document(engines: Engines, tampered_with: str) -> dict[str, Any]:
    report = await StoreReader(engines.database).runs.report(tampered_with)
    assert report is not None
    written: dict[str, Any] = json.loads(history_json(await with_answers(facts_of(report), RecordedOutcomes(engines.database))))
    return written


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from leaves(part, (*path, name))
    elif isinstance(value, list) and value:
        for place, part in enumerate(value):
            yield from leaves(part, (*path, place))
    else:
        yield path, value


def words(path: tuple[Any, ...]) -> str:
    return ".".join(str(part) for part in path)


def kind_of(path: tuple[Any, ...]) -> str:
    """Which field it is, whatever its place in a list."""
    return re.sub(r"\.\d+(?=\.|$)", "", words(path))


def changed(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value + 0.25
        case str():
            return f"{value}x"
    return None


def put(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    made = copy.deepcopy(document)
    within = made
    for part in path[:-1]:
        within = within[part]
    within[path[-1]] = value
    return made


async def is_found_out(document: dict[str, Any], folder: Path) -> bool:
    """By somebody who knows how to put the fingerprint right."""
    document = {**document, "contentFingerprint": ""}
    document["contentFingerprint"] = fingerprint(document)
    path = folder / "history.json"
    path.write_text(json.dumps(document))
    try:
        _, found, _ = await replay_file(path)
    except NotAHistory:
        return True
    return bool(found)


async def test_every_field_of_a_file_that_follows_from_others_is_guarded(document: dict[str, Any], tmp_path: Path) -> None:
    assert not await is_found_out(document, tmp_path)
    unnoticed: set[str] = set()
    tried: dict[str, int] = {}
    for path, value in leaves(document):
        kind = kind_of(path)
        if tried.get(kind, 0) >= 2 or value is None or any(re.search(outside, kind) for outside in OUTSIDE):
            continue
        if changed(value) is None:
            continue
        tried[kind] = tried.get(kind, 0) + 1
        if not await is_found_out(put(document, path, changed(value)), tmp_path):
            unnoticed.add(words(path))
    assert len(tried) > 150
    assert not unnoticed, "\n".join(sorted(unnoticed))


@pytest.mark.parametrize(
    "field",
    [
        "iterations.1.score", "iterations.2.sampleMeans.3", "iterations.0.sampleMeans.0", "iterations.1.evidence.0.effect",
        "iterations.1.evidence.0.p_better", "iterations.1.looks.0.go_on", "iterations.1.trial.stoppedEarly",
        "iterations.1.statistics.successRate", "iterations.3.status", "iterations.3.trial.status", "iterations.3.configHash",
        "iterations.3.factorSuit.skill", "rounds.1.decisions.0.verdict", "rounds.1.decisions.2.kept",
        "rounds.1.decisions.2.adjustedP", "rounds.1.decisions.2.accepted", "rounds.1.bestSoFar", "rounds.1.bestSoFarId",
        "rounds.1.stopped", "rounds.1.stopReason", "rounds.1.spend.cost", "rounds.1.counts.completed",
        "confirmation.bestScore", "confirmation.verdict", "confirmation.difference.low", "confirmation.optimism",
        "confirmation.promised", "bestIteration.score", "bestIteration.candidateId", "terminationReason.cause",
        "terminationReason.reason", "terminationReason.message", "scoreImprovement", "scoreImprovementPercent",
        "totalIterations", "status", "spend.samples", "result.best_score", "result.confirmation.judged.verdict",
        "result.confirmation.winner_score", "result.stop_reason", "result.ending.by", "plan.detectable",
        "furtherTrials.0.score", "furtherTrials.1.sampleMeans.0", "spec.judgement.alpha", "spec.stop.max_rounds",
        "iterations.2.answers.measures.cost.3.0", "iterations.0.answers.passes.0.0", "iterations.1.answers.passes.2.1",
        "iterations.2.evidence.0.constraints.0.value", "iterations.2.evidence.0.constraints.0.high",
        "iterations.1.evidence.0.strict_broken", "iterations.1.statistics.totalCost",
        "furtherTrials.1.answers.measures.cost.0.0",
    ],
)  # fmt: skip
async def test_what_matters_in_a_file_is_guarded(document: dict[str, Any], field: str, tmp_path: Path) -> None:
    path = tuple(int(part) if part.isdigit() else part for part in field.split("."))
    [value] = [found for where, found in leaves(document) if where == path]
    assert value is not None
    assert await is_found_out(put(document, path, changed(value)), tmp_path)


async def test_nothing_that_verdicts_depend_on_is_taken_as_a_file_says(document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text(json.dumps(document))
    _, found, gone = await replay_file(path)
    assert (found, gone.comparisons > 3) == ([], True)
    assert list(gone.not_recomputed) == [SINGLE_ANSWERS.format(what="passes, tokens, cost and latency of trials")]


async def test_a_file_without_single_answers_is_gone_through_and_says_what_it_lacks(
    document: dict[str, Any], tmp_path: Path
) -> None:
    older = copy.deepcopy(document)
    for trial in (*older["iterations"], *older["furtherTrials"]):
        trial.pop("answers", None)
    for drawn in older["splits"]:
        drawn.pop("mustPass", None)
    path = tmp_path / "history.json"
    path.write_text(json.dumps({**older, "contentFingerprint": fingerprint(older)}))
    _, found, gone = await replay_file(path)
    assert found == []
    assert {SINGLE_ANSWERS.format(what=what) for what in ("constraints", "must-pass samples")} <= set(gone.not_recomputed)


async def test_a_must_pass_sample_that_is_said_to_be_broken_is_found_out(document: dict[str, Any], tmp_path: Path) -> None:
    path = ("iterations", 2, "evidence", 0, "must_pass_broken")
    assert document["iterations"][2]["evidence"][0]["must_pass_broken"] == []
    assert await is_found_out(put(document, path, ["s4"]), tmp_path)


async def test_order_and_completeness_of_a_file_are_guarded(document: dict[str, Any], tmp_path: Path) -> None:
    assert await is_found_out({**document, "rounds": document["rounds"][::-1]}, tmp_path)
    assert await is_found_out({**document, "iterations": document["iterations"][::-1]}, tmp_path)
    for name in ("rounds", "iterations", "furtherTrials"):
        for place in range(len(document[name])):
            shorter = [one for at, one in enumerate(document[name]) if at != place]
            assert await is_found_out({**document, name: shorter}, tmp_path), (name, place)
    decisions = document["rounds"][1]["decisions"]
    assert await is_found_out(put(document, ("rounds", 1, "decisions"), decisions[::-1]), tmp_path)


async def test_what_no_rule_guards_is_guarded_by_the_fingerprint(document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text(json.dumps(put(document, ("useCaseId",), "another")))
    _, [found], _ = await replay_file(path)
    assert (found.field, found.recomputed.endswith("the file is no longer as it was written")) == ("contentFingerprint", True)


# -- the store ----------------------------------------------------------------------------------------------------------------

TABLES = {
    "runs": (
        "status stop_reason message baseline_candidate_id baseline_score best_candidate_id best_score round proposed completed"
        " failed rejected stopped paid_trials paid_samples paid_tokens paid_cost plan result"
    ),
    "rounds": "round best_candidate_id best_score best_so_far_id best_so_far stop_reason stopped record",
    "trials": (
        "config_hash round split samples replicates first_replicate status score coverage total passed failed pass_rate"
        " total_cost total_tokens avg_latency_ms stopped_early sample_means paid_samples paid_tokens paid_cost errors evidence"
        " looks judged score_low score_high exhausted reused_samples"
    ),
    "answers": "status tokens cost",
    "scores": "passed scores",
}
OF_RUN = {"scores": "answer_id IN (SELECT answer_id FROM answers WHERE run_id = {})"}
"""How the rows of a run are found, where they do not name it."""
COLUMNS = [(table, column) for table, columns in TABLES.items() for column in columns.split()]
RECORDED_AS_IT_IS = {"decided_at", "paused_for", "extra", "experiment_id", "history", "started_at", "finished_at"}


def tampered(value: Any) -> Any:
    """The value as its column takes it: JSON with every leaf that matters changed is tried leaf by leaf elsewhere."""
    if isinstance(value, list):
        return [changed(value[0]), *value[1:]] if value else value
    if isinstance(value, str) and value[:1] in "{[":
        decoded = json.loads(value)
        for path, leaf in leaves(decoded):
            if path and changed(leaf) is not None and not RECORDED_AS_IT_IS & set(map(str, path)):
                return json.dumps(put(decoded, path, changed(leaf)))
        return json.dumps({"timeout": 3})
    return changed(value)


def of_run(table: str, parameter: str) -> str:
    return OF_RUN.get(table, "run_id = {}").format(parameter)


async def rows_of(connection: Any, table: str, column: str, run_id: str) -> list[tuple[str, Any]]:
    """Where the column has a value: the place of its row, and the value."""
    found = await connection.fetch(
        f"SELECT ctid::text AS place, {column} AS value FROM {table} WHERE {of_run(table, '$1')}", run_id
    )
    return [(row["place"], row["value"]) for row in found if tampered(row["value"]) is not None]


async def put_in_store(engines: Engines, table: str, column: str, old: Any, new: Any, run_id: str, key: str) -> bool:
    """Whether the store takes it."""
    try:
        async with engines.database.transaction() as connection:
            done = await connection.execute(
                f"UPDATE {table} SET {column} = $1 WHERE {of_run(table, '$2')} AND ctid = $3::tid",
                new,
                run_id,
                key,
            )
            return bool(done.endswith("1"))
    except asyncpg.PostgresError:
        return False


async def _found_in_store(engines: Engines, run_id: str) -> bool:
    try:
        return bool(await differences_in_store(engines.database, run_id))
    except Exception:  # what cannot be read any more is found out, too
        return True


@pytest.mark.parametrize(("table", "column"), COLUMNS)
async def test_every_column_that_follows_from_others_is_guarded(
    engines: Engines, tampered_with: str, table: str, column: str
) -> None:
    async with engines.database.connection() as connection:
        places = (await rows_of(connection, table, column, tampered_with))[:1]
    if not places:
        pytest.skip("nothing is stored there in this run")
    [(place, value)] = places
    if not await put_in_store(engines, table, column, value, tampered(value), tampered_with, place):
        return  # the store itself refuses it
    try:
        assert await _found_in_store(engines, tampered_with)
    finally:
        async with engines.database.transaction() as connection:
            await connection.execute(
                f"UPDATE {table} SET {column} = $1 WHERE {of_run(table, '$2')} AND {column} = $3",
                value,
                tampered_with,
                tampered(value),
            )
    assert await differences_in_store(engines.database, tampered_with) == []


@pytest.mark.parametrize(
    ("table", "column"),
    [("runs", "result"), ("rounds", "record"), ("trials", "judged"), ("trials", "evidence"), ("trials", "looks")],
)
async def test_every_leaf_of_what_was_decided_is_guarded(engines: Engines, tampered_with: str, table: str, column: str) -> None:
    """Read once, changed in memory: what replay is given is what the store would give."""
    report = await StoreReader(engines.database).runs.report(tampered_with)
    assert report is not None
    stored = json.loads(report.model_dump_json())
    outcomes = RecordedOutcomes(engines.database)
    where = {"runs": ("run", column), "rounds": ("rounds",), "trials": ("trials",)}[table]
    unnoticed, tried = set(), set()
    for path, value in leaves(stored):
        kind = kind_of(path)
        if path[: len(where)] != where or f".{column}" not in f".{kind}" or kind in tried or changed(value) is None:
            continue
        if RECORDED_AS_IT_IS & set(map(str, path)) or re.search(r"\.(release|compression|readers|searched)\b", kind):
            continue
        tried.add(kind)
        try:
            given = type(report).model_validate(put(stored, path, changed(value)))
            found, _ = await replay_store(given, outcomes)
        except ValueError:
            continue
        if not found:
            unnoticed.add(words(path))
    assert tried
    assert not unnoticed, sorted(unnoticed)
