"""What retention removes: texts, then answers and scores, then whole runs, a few thousand answers at a time.

A batch is a transaction of its own, under the lock of the run's row, which nobody else wants: the run is over. So a removal
that is cut off goes on where it was, and a run that is started anew or held meanwhile keeps what it still has.
"""

# ruff: noqa: S608 (only constants of this module are put into statements; every value is a parameter)

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ratchet._content_tokens import MARK
from store.connection import Connection, Database
from store.encoding import from_json
from store.encrypted_contents import contents_of
from store.events import TERMINAL
from store.read.sized_runs import measured_size, sized_runs
from store.write.answers.outcomes import passes_in
from store.write.answers.turns import remove_turns
from store.write.retention.legal_holds import legal_holds_in_force
from store.write.runs import delete_run
from workflows.rules.retention_policy import DueRemoval, SizedRun

ANSWERS_AT_ONCE: Final = 5_000
"""How many are removed in one transaction: a fraction of a second."""


class Removals:
    """Removes what a policy asks for."""

    def __init__(self, database: Database, *, at_once: int = ANSWERS_AT_ONCE) -> None:
        self._database = database
        self._at_once = at_once

    async def sized_runs(self, goes_on: Callable[[], bool] = lambda: True) -> list[SizedRun] | None:
        """Runs that are over, the oldest first. Those that nobody has measured so far are measured once and for all; None when
        there are more of them than it goes on for."""
        async with self._database.connection() as connection:
            unmeasured = await connection.fetch(
                "SELECT run_id FROM runs LEFT JOIN run_sizes size USING (run_id)"
                " WHERE size.run_id IS NULL AND status = ANY($1) ORDER BY run_id",
                sorted(TERMINAL),
            )
            for row in unmeasured:
                if not goes_on():
                    return None
                await _write_size(connection, row["run_id"])
            return await sized_runs(connection)

    async def carry_out(self, due: DueRemoval, goes_on: Callable[[], bool] = lambda: True) -> bool:
        """Remove what goes of one run, batch by batch, as long as it goes on. Whether all of it is gone.

        What was done stays done: called again, it begins with what is left.
        """
        if not await self._begin(due):
            return False
        for place in await self._places(due.run_id):
            at: AnswerPlace | None = place
            while at is not None:
                if not goes_on():
                    return False
                done = await self._remove_some(due, at)
                if done is None:
                    return False
                at = done.next
        return await self._end(due)

    async def _begin(self, due: DueRemoval) -> bool:
        """Note that a removal begins, or goes on. False when nothing may be removed of the run any more."""
        async with self._database.transaction() as connection:
            if not await _is_removable(connection, due.run_id):
                return False
            await connection.execute(
                "INSERT INTO removals (run_id, kind, policy, bytes) VALUES ($1, $2, $3, $4)"
                " ON CONFLICT (run_id, kind) WHERE ended_at IS NULL DO NOTHING",
                due.run_id,
                due.removed,
                due.policy,
                due.bytes,
            )
            return True

    async def _places(self, run_id: str) -> list[AnswerPlace]:
        """Where the answers of a run are: its configurations, and the targets that were asked with them."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                "SELECT DISTINCT config_hash, target FROM answers WHERE run_id = $1", run_id, timeout=float("inf")
            )
        return [AnswerPlace(**row) for row in rows]

    async def _remove_some(self, due: DueRemoval, place: AnswerPlace) -> RemovedBatch | None:
        """Remove one batch. None when nothing of the run may be removed any more."""
        async with self._database.transaction() as connection:
            if not await _is_removable(connection, due.run_id):
                return None
            row = await connection.fetchrow(
                _EMPTIED if due.removed == "texts" else _DELETED,
                place.config_hash,
                place.target,
                due.run_id,
                place.item_hash,
                place.replicate,
                self._at_once,
            )
            assert row is not None
            if due.removed == "texts" and contents_of(connection).encrypts:
                await _remove_encrypted_reasons(connection, row["answer_ids"])
            if row["removed"]:
                await connection.execute(
                    "UPDATE removals SET answers = answers + $3 WHERE run_id = $1 AND kind = $2 AND ended_at IS NULL",
                    due.run_id,
                    due.removed,
                    row["removed"],
                )
            if row["seen"] < self._at_once:
                return RemovedBatch(None)
            return RemovedBatch(AnswerPlace(place.config_hash, place.target, row["item_hash"], row["replicate"]))

    async def _end(self, due: DueRemoval) -> bool:
        """Remove the rest of what goes, and note that the removal is over. False when it could not be."""
        async with self._database.transaction() as connection:
            if not await _is_removable(connection, due.run_id):
                return False
            if due.removed == "runs":
                await delete_run(connection, due.run_id)
            else:
                await connection.execute("DELETE FROM run_sizes WHERE run_id = $1", due.run_id)
                await remove_turns(connection, due.run_id)
                await remove_texts_beside_answers(connection, due.run_id)
            await connection.execute(
                "UPDATE removals SET ended_at = now() WHERE run_id = $1 AND kind = $2 AND ended_at IS NULL",
                due.run_id,
                due.removed,
            )
        return True


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """A place among the answers of a run, in the order of their key."""

    config_hash: str
    target: str
    item_hash: str = ""
    replicate: int = -1


@dataclass(frozen=True, slots=True)
class RemovedBatch:
    """What became of a batch."""

    next: AnswerPlace | None
    """Where the next one begins; None when this was the last of its configuration."""


_BATCH: Final = """
    WITH batch AS MATERIALIZED (
        SELECT item_hash, replicate FROM answers
        WHERE config_hash = $1 AND target = $2 AND run_id = $3 AND (item_hash, replicate) > ($4, $5)
        ORDER BY item_hash, replicate LIMIT $6
    ),
"""
_OF_THE_BATCH: Final = """
    a.config_hash = $1 AND a.target = $2 AND a.run_id = $3 AND a.item_hash = batch.item_hash AND a.replicate = batch.replicate
"""
_TOLD: Final = """
    SELECT (SELECT count(*) FROM batch) AS seen, (SELECT count(*) FROM gone) AS removed,
           (SELECT coalesce(array_agg(answer_id), '{}') FROM gone) AS answer_ids, last.*
    FROM (SELECT 1) one LEFT JOIN (SELECT * FROM batch ORDER BY item_hash DESC, replicate DESC LIMIT 1) last ON true
"""

_EMPTIED: Final = f"""{_BATCH} gone AS (
        UPDATE answers a SET output = NULL, error = NULL, trace = NULL, printed = NULL, texts_removed = true
        FROM batch WHERE {_OF_THE_BATCH} AND a.texts_removed IS NULL RETURNING a.answer_id
    ), scored AS (
        UPDATE scores s SET feedback = '', error = NULL, printed = NULL, details = (
            SELECT jsonb_object_agg(key, CASE jsonb_typeof(value) WHEN 'object' THEN value - 'reason' ELSE value END)
            FROM jsonb_each(s.details))
        FROM gone WHERE s.answer_id = gone.answer_id
    ) {_TOLD}
"""
"""Of the details of a score only the reasons are texts; which scores passed and how they were labelled, verdicts depend on."""

_DELETED: Final = f"""{_BATCH} gone AS (
        DELETE FROM answers a USING batch WHERE {_OF_THE_BATCH} RETURNING a.answer_id
    ), scored AS (
        DELETE FROM scores s USING gone WHERE s.answer_id = gone.answer_id
    ) {_TOLD}
"""


async def _is_removable(connection: Connection, run_id: str) -> bool:
    """Whether a run is over and not held; then it stays so until the transaction ends."""
    over = await connection.fetchval(
        "SELECT status = ANY($2) FROM runs WHERE run_id = $1 FOR NO KEY UPDATE", run_id, sorted(TERMINAL)
    )
    return bool(over) and not await legal_holds_in_force(connection, run_id)


async def remove_texts_beside_answers(connection: Connection, run_id: str) -> None:
    """What quotes answers: the first look, what proposers were asked, and what models wrote that propose or judge.

    What these took stays counted.
    """
    look = await connection.fetchval("SELECT first_look FROM runs WHERE run_id = $1", run_id)
    if look is not None:
        left = {name: value for name, value in from_json(look).items() if name != "shown"}
        stored = contents_of(connection).json(left)
        await connection.execute("UPDATE runs SET first_look = $2 WHERE run_id = $1", run_id, stored)
    await connection.execute(
        "UPDATE model_answers SET answer = '', asked = NULL, texts_removed = true WHERE run_id = $1 AND texts_removed IS NULL",
        run_id,
    )
    await connection.execute("UPDATE batch_requests SET reply = NULL WHERE run_id = $1 AND reply IS NOT NULL", run_id)
    await connection.execute("UPDATE proposals SET asked = NULL WHERE run_id = $1 AND asked IS NOT NULL", run_id)
    await connection.execute("DELETE FROM proposed_configurations WHERE run_id = $1", run_id)


async def _remove_encrypted_reasons(connection: Connection, answer_ids: Sequence[int]) -> None:
    """The reasons of scores that SQL cannot look into: decrypted, taken out, and the rest encrypted again."""
    rows = await connection.fetch(
        "SELECT answer_id, scorer, details FROM scores WHERE answer_id = ANY($1) AND details ? $2", list(answer_ids), MARK
    )
    contents = contents_of(connection)
    left = [_without_reasons(from_json(row["details"])) for row in rows]
    await connection.execute(
        "UPDATE scores s SET details = given.details FROM unnest($1::bigint[], $2::text[], $3::jsonb[])"
        " AS given (answer_id, scorer, details) WHERE s.answer_id = given.answer_id AND s.scorer = given.scorer",
        [row["answer_id"] for row in rows],
        [row["scorer"] for row in rows],
        [contents.json(details, passes_in(details)) for details in left],
    )


def _without_reasons(details: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: {key: value for key, value in detail.items() if key != "reason"} for name, detail in details.items()}


async def _write_size(connection: Connection, run_id: str) -> None:
    size = await measured_size(connection, run_id)
    await connection.execute(
        "INSERT INTO run_sizes (run_id, answers, text_bytes, answer_bytes)"
        " SELECT run_id, $2, $3, $4 FROM runs WHERE run_id = $1 AND status = ANY($5) ON CONFLICT DO NOTHING",
        run_id,
        size["answers"],
        size["text_bytes"],
        size["answer_bytes"],
        sorted(TERMINAL),
    )
