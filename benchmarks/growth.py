"""A store that has grown: bytes per answer, inserts, pages, removal, and what vacuum has to do afterwards.

    python -m benchmarks.growth [--quick]

One run is made by a worker, and copied under other names, with configurations and texts of its own, until there are 10^5
answers (`--quick`) or 10^7, which take 15 GB. What is measured then goes through the product's own statements. What is told of
10^9 answers is computed from bytes per answer, not measured. PostgreSQL is the embedded one, as it is set for one machine.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from benchmarks.figures import Figure, main
from benchmarks.processes import bench_servers
from benchmarks.specs import spec
from store.connection import Connection, Database
from store.read.reader import StoreReader
from store.write.repositories import Store
from store.write.retention.removals import Removals
from workflows.model.suite import EvaluationSuite, Outcome
from workflows.model.trial import ShardInput, Split
from workflows.rules.retention_policy import DueRemoval, Removed

FIRST = "growth"
INSERTING = "growth-inserting"
TRIALS = 10
TEXT = "A model answered this, and told in a sentence or two why it thinks so. " * 6
BATCH = 64
"""Answers that one commit of a busy shard stores."""

QUERIES = 200
COPIED = ("runs", "suites", "suite_samples", "budgets", "candidates", "trials", "rounds")
"""What pages read of a run beside its answers, parents first."""


async def measure(quick: bool) -> list[Figure]:
    samples, runs, inserted = (200, 50, 20_000) if quick else (1000, 1000, 100_000)
    async with bench_servers() as servers:
        async with servers.worker():
            budget = {"trials": TRIALS}
            await servers.run(FIRST, spec("instant", samples, rounds=TRIALS, budget=budget))
        database = await Database.open(servers.stack.database_url)
        try:
            await prepare(database)
            young = await inserts(database, inserted)
            for number in range(1, runs):
                await copy_run(database, f"{FIRST}-{number}", with_answers=True)
            await vacuum(database)
            figures = await sizes(database)
            grown = await inserts(database, inserted)
            figures += [
                Figure("answers stored a second, one writer, empty store", young.answers_a_second),
                Figure("the same, grown store", grown.answers_a_second),
                Figure("CPU of PostgreSQL for an answer, grown over empty store", grown.cpu / young.cpu, 1.5),
            ]
            figures += await pages(database, runs)
            figures += await removals(database, runs, samples)
        finally:
            await database.close()
    return figures


async def prepare(database: Database) -> None:
    """A run without answers, for those that are stored one batch after the other."""
    await copy_run(database, INSERTING, with_answers=False)


async def copy_run(database: Database, name: str, *, with_answers: bool) -> None:
    """The first run once more, with configurations and texts of its own."""
    own = "encode(sha256(convert_to($2::text || config_hash, 'UTF8')), 'hex')"
    async with database.transaction() as connection:
        await connection.execute(
            f"INSERT INTO overlays (config_hash, configuration) SELECT {own}, configuration FROM overlays"
            " WHERE config_hash IN (SELECT config_hash FROM candidates WHERE run_id = $1)",
            FIRST,
            name,
        )
        for table in COPIED:
            changed = "jsonb_build_object('run_id', $2::text)"
            if table in ("candidates", "trials"):
                changed += f" || jsonb_build_object('config_hash', {own})"
            if table == "budgets":
                await connection.execute("INSERT INTO budgets (run_id) SELECT $2 FROM budgets WHERE run_id = $1", FIRST, name)
                continue
            await connection.execute(
                f"INSERT INTO {table} SELECT (jsonb_populate_record(t, {changed})).* FROM {table} t WHERE run_id = $1",
                FIRST,
                name,
            )
        if with_answers:
            await copy_answers(connection, name, own)


async def copy_answers(connection: Connection, name: str, own: str) -> None:
    first = await connection.fetchval("SELECT nextval('answer_ids')")
    await connection.execute(
        f"""
        WITH source AS MATERIALIZED (
            SELECT a.*, a.answer_id AS old_id, $3::bigint + row_number() OVER () AS new_id FROM answers a WHERE run_id = $1
        ), copied AS (
            INSERT INTO answers (answer_id, tokens, cost, latency_ms, replicate, config_hash, target, run_id, item_hash,
                                 trial_id, status, output)
            SELECT new_id, 200, 0.001, 800, replicate, {own}, target, $2, item_hash, trial_id || $2, status,
                   to_json($4 || md5(new_id::text))
            FROM source
        )
        INSERT INTO scores (answer_id, passed, scorer, scores, details, feedback)
        SELECT new_id, passed, scorer, scores, details, 'It is what was expected, told by answer ' || new_id
        FROM source JOIN scores ON scores.answer_id = old_id
        """,
        FIRST,
        name,
        first,
        TEXT,
    )


class Inserted:
    """What storing answers took."""

    def __init__(self, answers: int, seconds: float, cpu: float, waits: list[float]) -> None:
        self.answers_a_second = answers / seconds
        self.cpu = max(cpu, 0.01) / answers
        self.waits = sorted(waits)


async def inserts(database: Database, answers: int) -> Inserted:
    """Store answers through the product's own commit, batch after batch, each pair once."""
    store = Store(database)
    suite = await store.suites.load(INSERTING, Split.ALL)
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT item_hash FROM suite_samples WHERE run_id = $1", INSERTING)
        config_hash = await connection.fetchval("SELECT config_hash FROM candidates WHERE run_id = $1 LIMIT 1", INSERTING)
        known = await connection.fetchval("SELECT coalesce(max(replicate) + 1, 0) FROM answers WHERE run_id = $1", INSERTING)
        before = await backend_seconds(connection)
    hashes = [row["item_hash"] for row in rows]
    shard = shard_of(config_hash)
    waits: list[float] = []
    began = time.monotonic()
    for start in range(0, answers, BATCH):
        outcomes = [made(hashes[n % len(hashes)], known + n // len(hashes), suite) for n in range(start, start + BATCH)]
        waits.append(await timed(lambda outcomes=outcomes: store.outcomes.commit(shard, suite, outcomes)))  # type: ignore[misc]
    seconds = time.monotonic() - began
    async with database.connection() as connection:
        cpu = await backend_seconds(connection) - before
    return Inserted(answers, seconds, cpu, waits)


async def backend_seconds(connection: Connection) -> float:
    """Processor time of every backend of this database so far: wall time tells more of the other users of a machine."""
    import psutil

    rows = await connection.fetch(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
    )
    times = [psutil.Process(row["pid"]).cpu_times() for row in rows]
    return sum(one.user + one.system for one in times)


def shard_of(config_hash: str) -> ShardInput:
    return ShardInput(
        run_id=INSERTING,
        trial_id=f"{INSERTING}/trial",
        candidate_id="baseline",
        config_hash=config_hash,
        split=Split.ALL,
        first=0,
        last=1,
        replicates=1,
    )


def made(item_hash: str, replicate: int, suite: EvaluationSuite) -> Outcome:
    answered = Outcome(item_hash, replicate, "answered", {suite.metric: 0.5}, passed=True)
    return replace(answered, output=TEXT, feedback="It is what was expected.", tokens=200, cost=0.001, latency_ms=800.0)


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    """Milliseconds that something takes."""
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1000


async def sizes(database: Database) -> list[Figure]:
    async with database.connection() as connection:
        answers = await connection.fetchval("SELECT count(*) FROM answers", timeout=float("inf"))
        bytes_of = {
            name: await connection.fetchval(f"SELECT {function}('{table}')")
            for name, function, table in (
                ("answers", "pg_table_size", "answers"),
                ("their indexes", "pg_indexes_size", "answers"),
                ("scores", "pg_table_size", "scores"),
                ("their indexes too", "pg_indexes_size", "scores"),
                ("of that the index by run", "pg_relation_size", "answers_of_run"),
            )
        }
    each = sum(size for name, size in bytes_of.items() if not name.startswith("of that")) / answers
    parts = [Figure(f"bytes per answer, {name}", size / answers, None, "B") for name, size in bytes_of.items()]
    return [
        Figure(f"bytes per answer with a text of {len(TEXT)} characters, at {answers:,}", each, None, "B"),
        *parts,
        Figure("computed: a store of 10^9 such answers", each, None, "GB"),
    ]


async def pages(database: Database, runs: int) -> list[Figure]:
    """What the API reads for its pages, of runs at random."""
    reader, chosen = StoreReader(database), random.Random(7)
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT candidate_id FROM trials WHERE run_id = $1", FIRST)
    candidates = [row["candidate_id"] for row in rows]

    def run() -> str:
        return f"{FIRST}-{chosen.randrange(1, runs)}"

    queries: dict[str, Callable[[], Awaitable[Any]]] = {
        "list of runs": lambda: reader.runs.listed(limit=100, offset=chosen.randrange(max(1, runs - 100))),
        "a run": lambda: reader.runs.load(run()),
        "trials of a run": lambda: reader.trials.page(run(), limit=100),
        "answers of a trial": lambda: reader.trials.items(run(), chosen.choice(candidates), limit=100),
        "failed answers of a trial": lambda: reader.trials.items(run(), chosen.choice(candidates), passed=False, limit=100),
    }
    figures = []
    for name, query in queries.items():
        waits = sorted([await timed(query) for _ in range(QUERIES)])
        figures.append(Figure(f"page: {name}, p95", waits[int(0.95 * QUERIES)], 100.0, "ms"))
    return figures


async def removals(database: Database, runs: int, samples: int) -> list[Figure]:
    """A tenth of the runs loses its texts, another its answers, while somebody stores answers beside it."""
    tenth = max(1, runs // 10)
    await sole_statistics(database)
    figures = []
    lost: tuple[tuple[Removed, range], ...] = (("texts", range(1, tenth + 1)), ("answers", range(tenth + 1, 2 * tenth + 1)))
    for removed, numbers in lost:
        done = asyncio.Event()

        async def writing(done: asyncio.Event = done) -> list[float]:
            waits: list[float] = []
            while not done.is_set():
                waits += (await inserts(database, BATCH)).waits
            return waits

        beside = asyncio.create_task(writing())
        began = time.monotonic()
        for number in numbers:
            due = DueRemoval(f"{FIRST}-{number}", removed, f"{removed}=1d", 0, 0)
            assert await Removals(database).carry_out(due)
        seconds = time.monotonic() - began
        done.set()
        waits = sorted(await beside)
        count = len(numbers) * samples * TRIALS
        figures.append(Figure(f"{removed} removed a second, of {count:,} answers", count / seconds))
        figures.append(Figure(f"commit beside it, p95 of {len(waits)}", waits[int(0.95 * len(waits))], 1000.0, "ms"))
    figures += await vacuum_debt(database)
    return figures


async def sole_statistics(database: Database) -> None:
    """Let nothing else clean up: the debt is to be seen."""
    async with database.connection() as connection:
        for table in ("answers", "scores"):
            await connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")


async def vacuum_debt(database: Database) -> list[Figure]:
    """What was left behind, how long vacuum takes for it, and whether the space is used again."""
    await asyncio.sleep(1.5)  # PostgreSQL tells its statistics once a second
    async with database.connection() as connection:
        dead, live = await connection.fetchrow(
            "SELECT sum(n_dead_tup)::float8, sum(n_live_tup)::float8 FROM pg_stat_user_tables"
            " WHERE relname IN ('answers', 'scores')"
        ) or (0, 1)
        before = await connection.fetchval("SELECT pg_table_size('answers')")
    milliseconds = await timed(lambda: vacuum(database))
    await inserts(database, 5_000)
    async with database.connection() as connection:
        after = await connection.fetchval("SELECT pg_table_size('answers')")
    return [
        Figure("dead rows left behind, share of all", dead / (dead + live)),
        Figure("vacuum of both tables", milliseconds / 1000, None, "s"),
        Figure("vacuum for a million dead rows, computed", milliseconds / 1000 / dead * 1e6 if dead else 0.0, None, "s"),
        Figure("growth of the table, without indexes, by 5,000 answers after it", (after - before) / 2**20, 1.0, "MB"),
    ]


async def vacuum(database: Database) -> None:
    async with database.connection() as connection:
        for table in ("answers", "scores", "trials", "runs"):
            await connection.execute(f"VACUUM ANALYZE {table}", timeout=float("inf"))


if __name__ == "__main__":
    main("A store that has grown", measure)
