"""The test split is read once: reads are counted, and refused beyond the plan.

A run, with its retries, measures two configurations on its test split: the baseline and one winner. Other runs over the same
samples are counted; a spec may say how many there may be.
"""

from __future__ import annotations

from collections.abc import Sequence

from ratchet._formats.canonical import content_hash
from store.connection import Connection, Database
from store.schema import StoreError
from workflows.model.run.test_split import OpenedTestSplit, OpenTestSplit
from workflows.model.trial import Split, TrialInput

PLANNED = 2
"""The baseline and the winner."""


def hash_of_samples(item_hashes: Sequence[str]) -> str:
    """Names a set of samples, whatever their order."""
    return content_hash(sorted(item_hashes))


async def other_readers(connection: Connection, samples_hash: str, reader: str) -> int:
    """How many runs, retries counted with what they retry, have read these samples."""
    count: int = await connection.fetchval(
        "SELECT count(DISTINCT reader) FROM test_reads WHERE samples_hash = $1 AND reader <> $2", samples_hash, reader
    )
    return count


async def reader_of(connection: Connection, run_id: str, retry_of: str | None) -> str:
    """The run itself, or the one at the beginning of the chain of retries that it belongs to."""
    if retry_of is None:
        return run_id
    first: str = await connection.fetchval(
        """
        WITH RECURSIVE chain (run_id, place) AS (
            SELECT $1::text, 0
            UNION ALL
            SELECT r.spec ->> 'retry_of', place + 1 FROM chain JOIN runs r USING (run_id)
            WHERE r.spec ->> 'retry_of' IS NOT NULL AND place < 1000
        )
        SELECT run_id FROM chain ORDER BY place DESC LIMIT 1
        """,
        retry_of,
    )
    return first


class HeldBackSplits:
    """The test splits of runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, asked: OpenTestSplit) -> OpenedTestSplit:
        """Note that the configurations are going to be read, unless that is more than was planned."""
        async with self._database.transaction() as connection:
            reader = await _reader(connection, asked.run_id)
            samples_hash = await _samples_hash(connection, asked.run_id)
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", samples_hash)
            read = await connection.fetch(
                "SELECT config_hash, run_id FROM test_reads WHERE samples_hash = $1 AND reader = $2", samples_hash, reader
            )
            known = {row["config_hash"]: row["run_id"] for row in read}
            new = [config_hash for config_hash in dict.fromkeys(asked.config_hashes) if config_hash not in known]
            if len(known) + len(new) > PLANNED:
                first = sorted(set(known.values()))[0]
                return OpenedTestSplit(
                    refused=(
                        f"the test split was read for another winner already, by {first}: a second one is not confirmed "
                        "on the same samples; start a new run, with other samples held back (another seed, or new data)"
                    )
                )
            await connection.executemany(
                "INSERT INTO test_reads (samples_hash, reader, config_hash, run_id) VALUES ($1, $2, $3, $4)",
                [(samples_hash, reader, config_hash, asked.run_id) for config_hash in new],
            )
            return OpenedTestSplit(
                readers=await other_readers(connection, samples_hash, reader),
                searched=await _searched_by_others(connection, asked.run_id, reader),
            )


async def refuse_unopened(connection: Connection, trial: TrialInput) -> None:
    """A trial on the test split that nobody opened for its configuration must not begin."""
    if trial.split is not Split.TEST:
        return
    opened = await connection.fetchval(
        "SELECT true FROM test_reads WHERE samples_hash = $1 AND reader = $2 AND config_hash = $3",
        await _samples_hash(connection, trial.run_id),
        await _reader(connection, trial.run_id),
        trial.candidate.config_hash,
    )
    if not opened:
        raise StoreError(
            f"the test split of run {trial.run_id!r} was not opened for candidate {trial.candidate.candidate_id!r}"
        )


async def _reader(connection: Connection, run_id: str) -> str:
    return await reader_of(
        connection, run_id, await connection.fetchval("SELECT spec ->> 'retry_of' FROM runs WHERE run_id = $1", run_id)
    )


async def _samples_hash(connection: Connection, run_id: str) -> str:
    rows = await connection.fetch("SELECT item_hash FROM suite_samples WHERE run_id = $1 AND split = 'test'", run_id)
    if not rows:
        raise StoreError(f"run {run_id!r} has no test split in the store")
    return hash_of_samples([row["item_hash"] for row in rows])


async def _searched_by_others(connection: Connection, run_id: str, reader: str) -> int:
    """How many of the run's test samples are among those that other runs over the same dataset learned from."""
    count: int = await connection.fetchval(
        """
        SELECT count(*) FROM suite_samples held
        JOIN suites mine ON mine.run_id = held.run_id AND mine.split = held.split
        WHERE held.run_id = $1 AND held.split = 'test' AND EXISTS (
            SELECT FROM suites other JOIN suite_samples seen ON seen.run_id = other.run_id AND seen.split = other.split
            WHERE other.dataset_id = mine.dataset_id AND other.split <> 'test' AND other.run_id NOT IN ($1, $2)
              AND seen.item_hash = held.item_hash
        )
        """,
        run_id,
        reader,
    )
    return count
