"""A run over any number of samples, as its rows would be: what would take hours to answer is there at once."""

from __future__ import annotations

from store.connection import Database


async def widen(database: Database, run_id: str, samples: int, *, text: str = "What is asked in number") -> None:
    """Give the split that a run searches on so many more samples, each answered and scored once by every trial of the search.

    Every third is passed by the baseline, and others by candidates that differ; every hundredth answer failed.
    """
    async with database.transaction() as connection:
        suite = await connection.fetchrow(
            "SELECT s.dataset_id, s.split, s.samples, s.target, s.scorer FROM suites s JOIN runs r"
            " ON r.run_id = s.run_id AND r.search_split = s.split WHERE s.run_id = $1",
            run_id,
        )
        assert suite is not None
        first = await connection.fetchval("SELECT count(*) FROM samples WHERE dataset_id = $1", suite["dataset_id"])
        await connection.execute(
            """
            INSERT INTO samples (dataset_id, position, item_hash, item_id, input, expected, weight, tags)
            SELECT $1, $2 + n, 'seeded-' || n, 'seeded-' || n, to_json($4 || ' ' || n), to_json(n % 7), 1,
                   ARRAY[CASE n % 2 WHEN 0 THEN 'even' ELSE 'odd' END]
            FROM generate_series(0, $3 - 1) n
            """,
            *(suite["dataset_id"], first, samples, text),
        )
        await connection.execute(
            "INSERT INTO suite_samples (run_id, split, position, item_hash)"
            " SELECT $1, $2, $3 + n, 'seeded-' || n FROM generate_series(0, $4 - 1) n",
            *(run_id, suite["split"], suite["samples"], samples),
        )
        await connection.execute(
            "UPDATE suites SET samples = samples + $3 WHERE run_id = $1 AND split = $2", run_id, suite["split"], samples
        )
        trials = await connection.fetch(
            "SELECT candidate_id, config_hash, trial_id, purpose FROM trials"
            " WHERE run_id = $1 AND purpose IN ('baseline', 'candidate') AND part = '' ORDER BY round, index",
            run_id,
        )
        for place, trial in enumerate(trials):
            await connection.execute(
                """
                WITH given AS (
                    SELECT n, n % 100 = 99 AS failed, (n + $4) % 3 = 0 OR n % (7 + $4) = 0 AS passed
                    FROM generate_series(0, $3 - 1) n
                ), state AS (
                    SELECT n, CASE WHEN failed THEN 2 WHEN passed THEN 1 ELSE 0 END AS state FROM given
                )
                UPDATE trials SET samples = samples + $3,
                    sample_means = sample_means || (SELECT array_agg((state = 1)::int::float8 ORDER BY n) FROM state),
                    sample_states = sample_states || (SELECT array_agg(state::smallint ORDER BY n) FROM state)
                WHERE run_id = $1 AND candidate_id = $2 AND purpose = $5 AND part = ''
                """,
                *(run_id, trial["candidate_id"], samples, place, trial["purpose"]),
            )
            await connection.execute(
                """
                WITH made AS (
                    INSERT INTO answers (answer_id, tokens, cost, replicate, config_hash, target, run_id, item_hash, trial_id,
                                         status, output, error)
                    SELECT nextval('answer_ids'), 10, 0.001, 0, $1, $2, $3, 'seeded-' || n, $4,
                           CASE n % 100 WHEN 99 THEN 'failed' ELSE 'answered' END,
                           CASE n % 100 WHEN 99 THEN NULL ELSE to_json($6 || ' ' || n || ' by ' || $5) END,
                           CASE n % 100 WHEN 99 THEN 'the target raised' END
                    FROM generate_series(0, $7 - 1) n
                    RETURNING answer_id, status, item_hash
                )
                INSERT INTO scores (answer_id, passed, scorer, scores, feedback)
                SELECT answer_id, (seeded.n + $9) % 3 = 0 OR seeded.n % (7 + $9) = 0, $8, '{}', ''
                FROM made CROSS JOIN LATERAL (SELECT substr(item_hash, 8)::int AS n) seeded
                """,
                *(trial["config_hash"], suite["target"], run_id, trial["trial_id"], trial["candidate_id"]),
                *("An answer that goes on for a while, as answers do, number", samples, suite["scorer"], place),
            )
