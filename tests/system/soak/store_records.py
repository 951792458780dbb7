"""Reads what a soak left in PostgreSQL and Temporal, by plain SQL and Temporal's own client."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import asyncpg
from temporalio.client import Client

from tests.system.soak.recorded_history import Row

QUERIES = {
    "runs": "SELECT run_id, name, status, stop_reason, message, direction, optimizer, dataset_id, baseline_candidate_id,"
    " baseline_score, best_candidate_id, best_score, round, paid_samples, finished_at::text, spec FROM runs",
    "samples": "SELECT dataset_id, item_hash, item_id, weight FROM samples",
    "suites": "SELECT run_id, split, target, scorer FROM suites",
    "suite_samples": "SELECT run_id, split, position, item_hash FROM suite_samples",
    "overlays": "SELECT config_hash, configuration::jsonb FROM overlays",
    "trials": "SELECT run_id, candidate_id, purpose, part, trial_id, config_hash, round, split, first_sample, samples,"
    " first_replicate, replicates, status, score, coverage, sample_means, stopped_early, exhausted, judged, paid_samples,"
    " lost_samples FROM trials",
    "answers": "SELECT answer_id, run_id, trial_id, config_hash, target, item_hash, replicate, reused_from,"
    " status FROM answers",
    "scores": "SELECT answer_id, scorer, fault, passed, scores FROM scores",
    "rounds": "SELECT run_id, round, best_candidate_id, best_score, best_so_far_id, best_so_far, stopped FROM rounds",
    "budgets": "SELECT run_id, limit_samples, limit_tokens, limit_cost, spent_samples, spent_tokens, spent_cost, lost_samples,"
    " lost_tokens, lost_cost, exceeded FROM budgets",
    "budget_leases": "SELECT run_id, holder, held_samples FROM budget_leases",
    "run_teams": "SELECT run_id, team FROM run_teams",
    "team_budgets": "SELECT team, limit_samples, limit_tokens, limit_cost FROM team_budgets",
    "team_months": "SELECT team, month::text, spent_samples, spent_tokens, spent_cost, lost_samples, lost_tokens, lost_cost"
    " FROM team_months",
    "batches": "SELECT run_id, batch_key, trial_id, state, provider_id, requests FROM batches",
    "turns": "SELECT run_id, config_hash, target, item_hash, replicate, turn FROM turns",
    "events": "SELECT id, run_id, event_key, type, payload FROM events ORDER BY id",
    "prompt_changes": "SELECT name, tag, revision, config_hash, action FROM prompt_changes",
    "prompt_tags": "SELECT name, tag, revision FROM prompt_tags",
    "releases": "SELECT number, release_id, prompt, kind, tag, status, base_hash, overlay_hash FROM releases",
}


async def tables(database_url: str) -> dict[str, list[Row]]:
    """All rows that the checks look at, as they are at one moment."""
    connection = await asyncpg.connect(database_url)
    try:
        for kind in ("json", "jsonb"):
            await connection.set_type_codec(kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            return {name: [dict(row) for row in await connection.fetch(query)] for name, query in QUERIES.items()}
    finally:
        await connection.close()


async def executions(client: Client) -> list[Row]:
    """Every workflow execution that Temporal knows."""
    found = []
    async for one in client.list_workflows(""):
        status = one.status.name if one.status is not None else "UNKNOWN"
        found.append({"id": one.id, "type": one.workflow_type, "status": status})
    return found


def logged_calls(path: Path) -> list[Row]:
    """The targets' own log; a line that a kill cut off is no line."""
    found: list[Row] = []
    for line in path.read_text().splitlines() if path.exists() else []:
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


async def connections(database_url: str) -> int | None:
    """How many connections PostgreSQL has beside this one; None while it does not answer."""
    try:
        async with asyncio.timeout(5):
            connection = await asyncpg.connect(database_url)
            try:
                others = "backend_type = 'client backend' AND pid <> pg_backend_pid()"
                counted: Any = await connection.fetchval(f"SELECT count(*) FROM pg_stat_activity WHERE {others}")
                return int(counted)
            finally:
                connection.terminate()  # a server that was stopped would never answer a farewell
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return None
