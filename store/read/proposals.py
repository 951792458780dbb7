"""What proposers were asked and answered, and the texts of proposals that were kept out."""

# ruff: noqa: S608 (only constants of this module are put into statements; every value is a parameter)

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from store.connection import Connection, Database
from store.encoding import from_json
from store.read.rows.proposal_rows import AskedProposal, ProposalPage, ProposerCall, RejectedProposal
from store.read.rows.round_rows import Rejection

_PLACES: Final = """
    SELECT round, index FROM (
        SELECT round, index FROM proposals WHERE run_id = $1 UNION SELECT round, index FROM model_answers WHERE run_id = $1
    ) asked
    WHERE ($2::int IS NULL OR round = $2) AND ($3::text IS NULL OR EXISTS (
        SELECT FROM candidates c JOIN proposals p USING (run_id, round)
        WHERE c.run_id = $1 AND c.candidate_id = $3 AND p.proposed_hash = c.config_hash
          AND p.round = asked.round AND p.index = asked.index
    ))
"""
_OF_PLACES: Final = "JOIN unnest($2::int[], $3::int[]) AS place (round, index) USING (round, index)"
_REJECTED: Final = """
    SELECT r.round, r.proposed_index, r.reason_code, r.message, r.config_hash, r.parent_candidate_ids,
           coalesce(own.configuration, tried.configuration) AS configuration,
           made.new_values, made.rationale, made.index AS asked_index,
           coalesce(parent.configuration, base.configuration) AS reference,
           coalesce(parent.candidate_id, runs.baseline_candidate_id) AS reference_id
    FROM rejections r
    JOIN runs ON runs.run_id = r.run_id
    JOIN overlays base ON base.config_hash = runs.baseline_config_hash
    LEFT JOIN proposed_configurations own ON own.run_id = r.run_id AND own.proposed_hash = r.proposed_hash
    LEFT JOIN overlays tried ON tried.config_hash = coalesce(r.config_hash, r.proposed_hash)
    LEFT JOIN LATERAL (
        SELECT new_values, rationale, index FROM proposals p
        WHERE p.run_id = r.run_id AND p.round = r.round AND p.proposed_hash = r.proposed_hash ORDER BY index LIMIT 1
    ) made ON true
    LEFT JOIN LATERAL (
        SELECT c.candidate_id, o.configuration FROM candidates c JOIN overlays o USING (config_hash)
        WHERE c.run_id = r.run_id AND c.candidate_id = ANY(r.parent_candidate_ids)
        ORDER BY array_position(r.parent_candidate_ids, c.candidate_id) LIMIT 1
    ) parent ON true
    WHERE r.run_id = $1
"""


class ProposalReader:
    """What optimizers were proposed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, run_id: str, *, round: int | None = None, candidate: str | None = None, offset: int = 0, limit: int = 20
    ) -> ProposalPage | None:
        """What was asked and answered, of one round, or what a candidate is made of; None when there is no such run."""
        async with self._database.snapshot() as connection:
            if not await connection.fetchval("SELECT true FROM runs WHERE run_id = $1", run_id):
                return None
            total = await connection.fetchval(f"SELECT count(*) FROM ({_PLACES}) found", run_id, round, candidate)
            places = await connection.fetch(
                f"{_PLACES} ORDER BY round, index OFFSET $4 LIMIT $5", run_id, round, candidate, offset, limit
            )
            items = await _asked(connection, run_id, [(row["round"], row["index"]) for row in places])
        return ProposalPage(total=total, items=items)

    async def rejected(self, run_id: str, round: int, proposed_index: int) -> RejectedProposal | None:
        """One that was kept out, with its text."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(
                f"{_REJECTED} AND r.round = $2 AND r.proposed_index = $3", run_id, round, proposed_index
            )
            return None if row is None else _rejected(row)

    async def all_rejected(self, run_id: str, most: int, *, round: int | None = None) -> list[RejectedProposal]:
        """The first of those that were kept out, of one round or of all."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                f"{_REJECTED} AND ($3::int IS NULL OR r.round = $3) ORDER BY r.round, r.proposed_index LIMIT $2",
                run_id,
                most,
                round,
            )
            return [_rejected(row) for row in rows]


def _rejected(row: Any) -> RejectedProposal:
    values = dict(row)
    own = {name: values.pop(name) for name in ("configuration", "new_values", "rationale", "reference", "reference_id")}
    asked_index = values.pop("asked_index")
    return RejectedProposal(
        rejection=Rejection(**values),
        configuration=None if own["configuration"] is None else from_json(own["configuration"]),
        values=None if own["new_values"] is None else from_json(own["new_values"]),
        rationale=own["rationale"],
        reference=from_json(own["reference"]),
        reference_id=own["reference_id"],
        asked_index=asked_index,
    )


async def _asked(connection: Connection, run_id: str, places: Sequence[tuple[int, int]]) -> tuple[AskedProposal, ...]:
    key = run_id, [number for number, _ in places], [index for _, index in places]
    proposals = {
        (row["round"], row["index"]): row
        for row in await connection.fetch(
            f"""
            SELECT p.round, p.index, p.new_values, p.rationale, p.tokens, p.cost, p.asked_of, p.asked,
                   (SELECT c.candidate_id FROM candidates c WHERE c.run_id = p.run_id AND c.config_hash = p.parent_hash
                    ORDER BY c.round, c.index LIMIT 1) AS parent_candidate_id,
                   array(SELECT c.candidate_id FROM candidates c WHERE c.run_id = p.run_id AND c.round = p.round
                         AND c.config_hash = p.proposed_hash ORDER BY c.index) AS candidate_ids,
                   array(SELECT r.proposed_index FROM rejections r WHERE r.run_id = p.run_id AND r.round = p.round
                         AND r.proposed_hash = p.proposed_hash ORDER BY r.proposed_index) AS rejected
            FROM proposals p {_OF_PLACES} WHERE p.run_id = $1
            """,
            *key,
        )
    }
    calls = defaultdict(list)
    for row in await connection.fetch(
        f"""
        SELECT round, index, asked_of, asked, answer, cut_off, tokens, cost, created_at,
               coalesce(texts_removed, false) AS texts_removed
        FROM model_answers {_OF_PLACES} WHERE run_id = $1 ORDER BY created_at, request_hash
        """,
        *key,
    ):
        calls[row["round"], row["index"]].append(_call(row))
    return tuple(_proposal(place, proposals.get(place), calls[place]) for place in places)


def _call(row: Any) -> ProposerCall:
    return ProposerCall(
        asked_of=row["asked_of"],
        asked=_value(row["asked"]),
        answer=row["answer"],
        cut_off=row["cut_off"],
        tokens=row["tokens"],
        cost=row["cost"],
        answered_at=row["created_at"],
        texts_removed=row["texts_removed"],
    )


def _proposal(place: tuple[int, int], row: Any | None, calls: Sequence[ProposerCall]) -> AskedProposal:
    """Where the proposer failed to the last there is no row, and what its answers took is all that is known."""
    tokens, cost = sum(call.tokens for call in calls), sum(call.cost for call in calls)
    return AskedProposal(
        round=place[0],
        index=place[1],
        parent_candidate_id=row and row["parent_candidate_id"],
        asked_of=(row and row["asked_of"]) or next((call.asked_of for call in calls), None),
        asked=row and _value(row["asked"]),
        values=row and _value(row["new_values"]),
        rationale=row and row["rationale"],
        tokens=row["tokens"] if row else tokens,
        cost=row["cost"] if row else cost,
        calls=tuple(calls),
        candidate_ids=tuple(row["candidate_ids"]) if row else (),
        rejected=tuple(row["rejected"]) if row else (),
    )


def _value(stored: str | None) -> Any:
    return None if stored is None else from_json(stored)
