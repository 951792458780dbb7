"""What judges replied in batches, until the scores are made that need it: a reply is paid for once, be it one of several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from store.connection import Connection, Database
from store.encoding import from_json
from store.encrypted_contents import contents_of
from workflows.model.run.amounts import Amount
from workflows.model.trial import ShardInput


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """What a judge said to one request, or why that cannot be used."""

    tokens: int
    cost: float
    value: Any = None
    fault: str | None = None
    kind: str = ""
    billed: Literal["yes", "no", "unknown"] = "yes"

    @property
    def took(self) -> Amount:
        return Amount(tokens=self.tokens, cost=self.cost)


class JudgeReplies:
    """Replies by the pair's place in its trial, and by the request's custom id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, part: ShardInput, execution: str) -> dict[int, dict[str, JudgeReply]]:
        """Those about answers of a part of a trial, which came in one execution of its workflow."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                """
                SELECT r.place, r.custom_id, r.reply
                FROM batches b JOIN batch_requests r USING (run_id, batch_key)
                WHERE b.run_id = $1 AND b.trial_id = $2 AND b.execution = $3 AND b.scorer IS NOT NULL
                  AND r.place >= $4 AND r.place < $5 AND r.reply IS NOT NULL
                ORDER BY b.number
                """,
                part.run_id,
                part.trial_id,
                execution,
                part.first,
                part.last,
            )
        found: dict[int, dict[str, JudgeReply]] = {}
        for row in rows:
            found.setdefault(row["place"], {}).setdefault(row["custom_id"], JudgeReply(**from_json(row["reply"])))
        return found


async def keep_replies(connection: Connection, run_id: str, batch_key: str, replies: Mapping[str, JudgeReply]) -> None:
    """Write down what judges replied, within the transaction that closes their batch."""
    contents = contents_of(connection)
    await connection.execute(
        "UPDATE batch_requests r SET reply = given.reply FROM unnest($3::text[], $4::json[]) AS given (custom_id, reply)"
        " WHERE r.run_id = $1 AND r.batch_key = $2 AND r.custom_id = given.custom_id",
        run_id,
        batch_key,
        list(replies),
        [contents.json(asdict(reply)) for reply in replies.values()],
    )
