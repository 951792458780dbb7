"""The items of a trial: its outcomes with their samples, a page at a time."""

from __future__ import annotations

from typing import Final

from store.connection import Connection
from store.encoding import from_json
from store.read import rows

_ANSWERS: Final = """
    FROM suites suite
    JOIN suite_samples drawn ON drawn.run_id = suite.run_id AND drawn.split = suite.split
    JOIN samples s ON s.dataset_id = suite.dataset_id AND s.item_hash = drawn.item_hash
    CROSS JOIN LATERAL (
        SELECT * FROM outcomes
        WHERE config_hash = $3 AND evaluator = suite.evaluator AND run_id = $1 AND item_hash = drawn.item_hash
          AND replicate >= $4 AND replicate < $5
        OFFSET 0
    ) o
    WHERE suite.run_id = $1 AND suite.split = $2 AND (NOT $6 OR NOT o.passed)
      AND drawn.position >= $7 AND drawn.position < $8
"""
_JSON: Final = ("input", "expected", "scores", "score_details", "output", "trace")


async def items_of_trial(
    connection: Connection,
    run_id: str,
    candidate_id: str,
    *,
    purpose: str | None,
    part: str | None = None,
    only_failed: bool,
    offset: int,
    limit: int,
) -> rows.ItemPage | None:
    """The outcomes in the suite's order; without a purpose those of the trial that searched, of several parts those of the
    newest unless one is named. None without such a trial."""
    trial = await connection.fetchrow(
        "SELECT run_id, split, config_hash, first_replicate, first_replicate + replicates, $4::bool, t.first_sample,"
        " t.first_sample + t.samples FROM trials t"
        " WHERE t.run_id = $1 AND t.candidate_id = $2 AND ($3::text IS NULL OR t.purpose = $3)"
        " AND ($5::text IS NULL OR t.part = $5)"
        " ORDER BY t.purpose NOT IN ('baseline', 'candidate'), t.purpose, t.round DESC, t.index DESC LIMIT 1",
        run_id,
        candidate_id,
        purpose,
        only_failed,
        part,
    )
    if trial is None:
        return None
    total = await connection.fetchval(f"SELECT count(*) {_ANSWERS}", *trial)
    found = await connection.fetch(
        f"""
        SELECT drawn.position, o.replicate, s.item_id, s.item_hash, s.input, s.expected, s.weight, s.tags, o.status,
               o.passed, o.scores, coalesce(o.score_details, '{{}}') AS score_details, o.output, o.error, o.feedback,
               o.tokens, o.cost, o.latency_ms, o.ttft_ms, o.trace, o.reused_from, o.created_at
        {_ANSWERS} ORDER BY drawn.position, o.replicate OFFSET $9 LIMIT $10
        """,
        *trial,
        offset,
        limit,
    )
    items = (rows.ItemRow(**{**dict(row), **{name: from_json(row[name]) for name in _JSON}}) for row in found)
    return rows.ItemPage(total=total, items=tuple(items))
