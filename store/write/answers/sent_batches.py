"""Batches of requests that are sent to providers: meant, sent, over. What was meant is stored before it is sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Literal

from store.connection import Connection, Database
from store.write.answers.judge_replies import JudgeReply, keep_replies
from workflows.model.trial import ShardInput

BatchStanding = Literal["meant", "sent", "ended", "taken", "lost", "withdrawn"]

OPEN: Final = ("meant", "sent", "ended")
"""Batches whose results somebody still has to take."""


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A batch as it is stored."""

    run_id: str
    batch_key: str
    """What the provider is told, by which a batch is found again whose sender died."""
    trial_id: str
    number: int
    first: int
    until: int
    execution: str
    provider: str
    endpoint: str
    model: str
    requests: int
    holder: str | None
    scorer: str | None
    """The judge that is asked; None where the target is."""
    state: BatchStanding
    sender: str | None
    """The attempt that may have sent it."""
    sending_for: float | None
    """Seconds since then."""
    sending_at: datetime | None
    longest_sending: float
    """Seconds after which nothing of it arrives any more."""
    input_file: str | None
    provider_id: str | None
    said: str | None
    unknown: int
    """How often in a row the provider said that there is no such batch."""
    created_at: datetime

    @property
    def is_open(self) -> bool:
        """Whether its results are still to be taken."""
        return self.state in OPEN


@dataclass(frozen=True, slots=True)
class MeantBatch:
    """A batch that is going to be sent."""

    batch_key: str
    number: int
    first: int
    until: int
    execution: str
    provider: str
    endpoint: str
    model: str
    holder: str | None
    places: Mapping[str, int]
    """Of each request, by its custom id, the pair's place in the trial."""
    scorer: str | None = None


@dataclass(frozen=True, slots=True)
class RequestFailures:
    """How often a request went without getting an answer, and why the last time."""

    times: int
    error_class: str


_COLUMNS: Final = (
    "run_id, batch_key, trial_id, number, first, until, execution, provider, endpoint, model, requests, holder,"
    " scorer, state, sender,"
    " extract(epoch FROM now() - sending_at)::float8 AS sending_for, sending_at, longest_sending, input_file,"
    " provider_id, said, unknown, created_at"
)


class SentBatches:
    """Batches by run and key, with their requests."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open_at(self, part: ShardInput, scorer: str | None = None) -> SentBatch | None:
        """The batch that an earlier attempt made from this place of a trial, if it is not over."""
        found = await self._open(part, "AND first = $4 AND scorer IS NOT DISTINCT FROM $5", part.first, scorer)
        return found[0] if found else None

    async def open_in(self, part: ShardInput) -> list[SentBatch]:
        """Batches of a part of a trial that are not over, in their order."""
        return await self._open(part, "AND first >= $4 AND first < $5", part.first, part.last)

    async def _open(self, part: ShardInput, where: str, *places: int | str | None) -> list[SentBatch]:
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                f"SELECT {_COLUMNS} FROM batches WHERE run_id = $1 AND trial_id = $2 AND state = ANY($3)"  # noqa: S608
                f" {where} ORDER BY number",
                part.run_id,
                part.trial_id,
                list(OPEN),
                *places,
            )
        return [SentBatch(**row) for row in rows]

    async def next_number(self, part: ShardInput) -> int:
        """The number of the next batch of a trial."""
        async with self._database.connection() as connection:
            return int(
                await connection.fetchval(
                    "SELECT coalesce(max(number), 0) + 1 FROM batches WHERE run_id = $1 AND trial_id = $2",
                    part.run_id,
                    part.trial_id,
                )
            )

    async def mean(self, part: ShardInput, meant: MeantBatch) -> SentBatch:
        """Store what is going to be sent: the batch with all of its requests. Doing it twice changes nothing."""
        async with self._database.transaction() as connection:
            inserted = await connection.fetchval(
                "INSERT INTO batches (run_id, batch_key, trial_id, number, first, until, execution, provider, endpoint,"
                " model, requests, holder, scorer) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
                " ON CONFLICT DO NOTHING RETURNING number",
                part.run_id,
                meant.batch_key,
                part.trial_id,
                meant.number,
                meant.first,
                meant.until,
                meant.execution,
                meant.provider,
                meant.endpoint,
                meant.model,
                len(meant.places),
                meant.holder,
                meant.scorer,
            )
            if inserted is not None:
                await connection.execute(
                    "INSERT INTO batch_requests (run_id, batch_key, custom_id, place)"
                    " SELECT $1, $2, given.* FROM unnest($3::text[], $4::int[]) AS given",
                    part.run_id,
                    meant.batch_key,
                    list(meant.places),
                    list(meant.places.values()),
                )
            return await _load(connection, part.run_id, meant.batch_key)

    async def load(self, run_id: str, batch_key: str) -> SentBatch:
        """A batch as it stands."""
        async with self._database.connection() as connection:
            return await _load(connection, run_id, batch_key)

    async def places(self, run_id: str, batch_key: str) -> dict[str, int]:
        """The requests of a batch, in the order of the trial's pairs."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                "SELECT custom_id, place FROM batch_requests WHERE run_id = $1 AND batch_key = $2 ORDER BY place",
                run_id,
                batch_key,
            )
        return {row["custom_id"]: row["place"] for row in rows}

    async def failures(self, part: ShardInput, execution: str) -> dict[str, RequestFailures]:
        """The requests of a part of a trial that went without getting an answer, in one execution of its workflow."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                """
                SELECT r.custom_id, count(*) AS times, (array_agg(r.error_class ORDER BY b.number DESC))[1] AS error_class
                FROM batches b JOIN batch_requests r USING (run_id, batch_key)
                WHERE b.run_id = $1 AND b.trial_id = $2 AND b.execution = $3 AND r.place >= $4 AND r.place < $5
                  AND r.error_class IS NOT NULL
                GROUP BY r.custom_id
                """,
                part.run_id,
                part.trial_id,
                execution,
                part.first,
                part.last,
            )
        return {row["custom_id"]: RequestFailures(row["times"], row["error_class"]) for row in rows}

    # -- sending --------------------------------------------------------------------------------------------------------------

    async def begin_sending(self, batch: SentBatch, sender: str, input_file: str, longest: float) -> bool:
        """Say that a batch is being sent from now on, by whom, with which file, and for how many seconds at most. Whether
        nobody else said so meanwhile."""
        async with self._database.connection() as connection:
            taken = await connection.fetchval(
                "UPDATE batches SET sender = $3, sending_at = now(), input_file = $4, longest_sending = $6"
                " WHERE run_id = $1 AND batch_key = $2 AND state = 'meant'"
                " AND (sender IS NOT DISTINCT FROM $5 OR sender = $3) RETURNING 1",
                batch.run_id,
                batch.batch_key,
                sender,
                input_file,
                batch.sender,
                longest,
            )
        return taken is not None

    async def was_sent(self, batch: SentBatch, provider_id: str) -> None:
        """Keep under which name the provider knows it. The first stays."""
        await self._change(
            batch, "state = 'sent', provider_id = $3, sent_at = now(), sender = NULL", "AND state = 'meant'", provider_id
        )

    async def known(self, endpoint: str, provider_ids: Collection[str]) -> set[str]:
        """Those of some batches at an endpoint that are somebody's already."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                "SELECT provider_id FROM batches WHERE endpoint = $1 AND provider_id = ANY($2)", endpoint, list(provider_ids)
            )
        return {row["provider_id"] for row in rows}

    async def was_refused(self, batch: SentBatch, sender: str) -> None:
        """The provider did not take it: whoever tries again need not look for it."""
        await self._change(batch, "sender = NULL, sending_at = NULL", "AND sender = $3 AND state = 'meant'", sender)

    async def withdraw(self, batch: SentBatch) -> None:
        """It was never sent, and is not going to be."""
        await self._change(batch, "state = 'withdrawn', over_at = now()", "AND state = 'meant'")

    # -- waiting --------------------------------------------------------------------------------------------------------------

    async def note(self, batch: SentBatch, said: str, finished: int, failed: int, *, ended: bool) -> None:
        """Keep what the provider says of it."""
        await self._change(
            batch,
            "said = $3, finished = $4, failed = $5, unknown = 0, looked_at = now(),"
            " state = CASE WHEN $6 THEN 'ended' ELSE state END",
            "AND state IN ('sent', 'ended')",
            said,
            finished,
            failed,
            ended,
        )

    async def note_unknown(self, batch: SentBatch) -> int:
        """The provider says that there is no such batch. How often in a row it has said so."""
        async with self._database.connection() as connection:
            return int(
                await connection.fetchval(
                    "UPDATE batches SET unknown = unknown + 1, looked_at = now() WHERE run_id = $1 AND batch_key = $2"
                    " RETURNING unknown",
                    batch.run_id,
                    batch.batch_key,
                )
            )

    # -- its end --------------------------------------------------------------------------------------------------------------

    async def is_over(
        self,
        batch: SentBatch,
        state: Literal["taken", "lost"],
        said: str,
        without_answer: Mapping[str, str],
        replies: Mapping[str, JudgeReply] = MappingProxyType({}),
    ) -> None:
        """Its answers are stored, or lost; these requests, by their custom ids, got none, with the class of the error. What
        judges replied is kept for the scores that need it."""
        async with self._database.transaction() as connection:
            await connection.execute(
                "UPDATE batches SET state = $3, said = $4, over_at = now() WHERE run_id = $1 AND batch_key = $2",
                batch.run_id,
                batch.batch_key,
                state,
                said,
            )
            await connection.execute(
                "UPDATE batch_requests r SET error_class = given.error_class"
                " FROM unnest($3::text[], $4::text[]) AS given (custom_id, error_class)"
                " WHERE r.run_id = $1 AND r.batch_key = $2 AND r.custom_id = given.custom_id",
                batch.run_id,
                batch.batch_key,
                list(without_answer),
                list(without_answer.values()),
            )
            if replies:
                await keep_replies(connection, batch.run_id, batch.batch_key, replies)

    async def without_answer(self, batch: SentBatch) -> int:
        """How many requests of a batch that is over got no answer."""
        async with self._database.connection() as connection:
            return int(
                await connection.fetchval(
                    "SELECT count(*) FROM batch_requests WHERE run_id = $1 AND batch_key = $2 AND error_class IS NOT NULL",
                    batch.run_id,
                    batch.batch_key,
                )
            )

    async def _change(self, batch: SentBatch, what: str, where: str, *values: Any) -> None:
        async with self._database.connection() as connection:
            await connection.execute(
                f"UPDATE batches SET {what} WHERE run_id = $1 AND batch_key = $2 {where}",  # noqa: S608
                batch.run_id,
                batch.batch_key,
                *values,
            )


async def _load(connection: Connection, run_id: str, batch_key: str) -> SentBatch:
    rows: Sequence[Any] = await connection.fetch(
        f"SELECT {_COLUMNS} FROM batches WHERE run_id = $1 AND batch_key = $2",  # noqa: S608
        run_id,
        batch_key,
    )
    return SentBatch(**rows[0])
