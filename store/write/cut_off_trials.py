"""Trials that a run did not wait for: they are over with it, and what they were paid for counts."""

from __future__ import annotations

from typing import Any

from store.connection import Connection
from store.encrypted_contents import contents_of
from store.events import Event, trial_key
from workflows.model.trial import SEARCHING


async def cut_off_trials(connection: Connection, run_id: str, why: str, *, has_result: bool = False) -> list[Event]:
    """End those at work, with what their answers had cost by then, and count that for the run and its budget.

    What their workflows say themselves later is counted as the difference. Where the run has a result, that says how many
    trials there were and how they ended.
    """
    cut_off = await connection.fetch(
        """
        WITH given AS (
            SELECT t.candidate_id, t.purpose, t.part, t.leased_samples, t.leased_tokens, t.leased_cost, paid.*
            FROM trials t JOIN suites suite USING (run_id, split)
            CROSS JOIN LATERAL (
                SELECT count(*) AS samples, coalesce(sum(o.tokens + coalesce(s.tokens, 0)), 0)::bigint AS tokens,
                       coalesce(sum(o.cost + coalesce(s.cost, 0)), 0) AS cost,
                       coalesce(sum(coalesce(o.cached_tokens, 0) + coalesce(s.cached_tokens, 0)), 0)::bigint AS cached
                FROM answers o
                LEFT JOIN LATERAL (
                    SELECT tokens, cost, cached_tokens FROM scores
                    WHERE scores.answer_id = o.answer_id AND scores.scorer = suite.scorer
                    OFFSET 0
                ) s ON true
                WHERE o.config_hash = t.config_hash AND o.target = suite.target AND o.run_id = t.run_id
                  AND o.trial_id = t.trial_id AND o.reused_from IS NULL
            ) paid
            WHERE t.run_id = $1 AND t.status = 'running'
        ), ended AS (
            UPDATE trials t SET
                status = 'cancelled', finished_at = now(), error = $2, paid_samples = given.samples,
                paid_tokens = given.tokens, paid_cost = given.cost, cached_tokens = given.cached,
                leased_samples = CASE WHEN t.metered THEN t.leased_samples ELSE 0 END,
                leased_tokens = CASE WHEN t.metered THEN t.leased_tokens ELSE 0 END,
                leased_cost = CASE WHEN t.metered THEN t.leased_cost ELSE 0 END
            FROM given
            WHERE t.run_id = $1 AND t.candidate_id = given.candidate_id AND t.purpose = given.purpose AND t.part = given.part
            RETURNING t.candidate_id, t.trial_id, t.purpose, t.round, t.index, t.status, t.score, t.part, t.samples,
                      t.paid_samples, t.paid_tokens, t.paid_cost, t.cached_tokens, t.metered,
                      given.leased_samples, given.leased_tokens, given.leased_cost
        ), unmetered AS (
            UPDATE budgets SET
                spent_samples = spent_samples + found.samples, spent_tokens = spent_tokens + found.tokens,
                spent_cost = spent_cost + found.cost, tokens_of_calls = tokens_of_calls + found.tokens,
                cost_of_calls = cost_of_calls + found.cost
            FROM (
                SELECT coalesce(sum(paid_samples - leased_samples), 0)::bigint AS samples,
                       coalesce(sum(paid_tokens - leased_tokens), 0)::bigint AS tokens,
                       coalesce(sum(paid_cost - leased_cost), 0) AS cost
                FROM ended WHERE NOT metered
            ) found
            WHERE budgets.run_id = $1
        )
        SELECT * FROM ended ORDER BY round, index, purpose, part
        """,
        run_id,
        contents_of(connection).text(why),
    )
    if not cut_off:
        return []
    await connection.execute(
        "UPDATE runs SET stopped = stopped + $2, paid_trials = paid_trials + $3, paid_samples = paid_samples + $4,"
        " paid_tokens = paid_tokens + $5, paid_cost = paid_cost + $6, cached_tokens = cached_tokens + $7 WHERE run_id = $1",
        run_id,
        0 if has_result else sum(row["purpose"] in SEARCHING for row in cut_off),
        0 if has_result else len(cut_off),
        *(sum(row[f"paid_{name}"] for row in cut_off) for name in ("samples", "tokens", "cost")),
        sum(row["cached_tokens"] for row in cut_off),
    )
    return [_event(dict(row)) for row in cut_off]


def _event(row: dict[str, Any]) -> Event:
    names = ("candidate_id", "trial_id", "purpose", "round", "index", "status", "score")
    payload = {name: row[name] for name in names} | ({"part": row["part"], "samples": row["samples"]} if row["part"] else {})
    key = trial_key(row["purpose"], row["candidate_id"], row["part"])
    return Event(f"{key}/cancelled", "trial_added_or_updated", payload)
