"""Months of teams: what a team may spend, what its runs spent and set aside, and what is left."""

# ruff: noqa: S608 (only constants of this module are put into statements; every value is a parameter)

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ratchet._frozen import Payload
from store.budget_leases import SECONDS_UNTIL_STALE
from store.connection import Connection, Database
from store.encoding import storable_text
from workflows.model.run.amounts import RESOURCES
from workflows.model.run.team_rest import TeamRest

_THIS_MONTH: Final = "date_trunc('month', now() AT TIME ZONE 'UTC')::date"
_SUMS: Final = ", ".join(
    f"coalesce(sum({kind}_{name}), 0){'' if name == 'cost' else '::bigint'} AS {kind}_{name}"
    for kind in ("spent", "lost", "held")
    for name in RESOURCES
)
_MONTHS: Final = f"""
    WITH known AS (
        SELECT team, month FROM team_months UNION SELECT team, month FROM budget_leases WHERE month IS NOT NULL
        UNION SELECT team, {_THIS_MONTH} FROM team_budgets
    )
    SELECT known.team, to_char(known.month, 'YYYY-MM') AS month, known.month = {_THIS_MONTH} AS is_now,
           coalesce(b.limit_samples, 0) AS limit_samples, coalesce(b.limit_tokens, 0) AS limit_tokens,
           coalesce(b.limit_cost, 0) AS limit_cost,
           {", ".join(f"coalesce(m.spent_{name}, 0) + open.spent_{name} AS spent_{name}" for name in RESOURCES)},
           {", ".join(f"coalesce(m.lost_{name}, 0) + open.lost_{name} AS lost_{name}" for name in RESOURCES)},
           {", ".join(f"open.held_{name} AS held_{name}" for name in RESOURCES)}
    FROM known
    LEFT JOIN team_budgets b USING (team)
    LEFT JOIN team_months m USING (team, month)
    CROSS JOIN LATERAL (SELECT {_SUMS} FROM budget_leases l WHERE l.team = known.team AND l.month = known.month) open
"""


class Taken(Payload):
    """So many target calls, tokens and money."""

    samples: int = 0
    tokens: int = 0
    cost: float = 0.0


class Left(Payload):
    """What is left of each limit; nothing where there is none."""

    samples: int | None = None
    tokens: int | None = None
    cost: float | None = None


class TeamMonthRow(Payload):
    """A team's account of a calendar month, in UTC."""

    team: str
    month: str
    """As 2026-11."""
    budget: Taken = Taken()
    """What its runs may take in a month, as it is now; 0 is unlimited."""
    spent: Taken = Taken()
    """With `lost`."""
    lost: Taken = Taken()
    """Of what was spent: what calls can have taken at most that never said so."""
    set_aside: Taken = Taken()
    """For calls in flight."""
    left: Left = Left()


class TeamMonthReader:
    """Months by team."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def now(self, team: str | None = None) -> list[TeamMonthRow]:
        """This month of each team that has a budget, or of one of them."""
        async with self._database.connection() as connection:
            return await months_now(connection, team)

    async def of_team(self, team: str, limit: int = 24) -> list[TeamMonthRow]:
        """The months of a team in which its spending was counted, the newest first."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                f"{_MONTHS} WHERE known.team = $1 ORDER BY known.month DESC LIMIT $2", storable_text(team), limit
            )
        return [_month(row) for row in rows]

    async def waited_for(self, run_ids: Iterable[str]) -> dict[str, TeamRest]:
        """Which of these runs wait for their team's month, and what is left of that; whoever waits asks every few seconds."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                "SELECT DISTINCT ON (run_id) run_id, team_rest FROM budget_leases"
                " WHERE run_id = ANY($1) AND team_rest IS NOT NULL AND (idle OR waiting)"
                f" AND renewed_at > now() - interval '{SECONDS_UNTIL_STALE} seconds' ORDER BY run_id, renewed_at DESC",
                list(run_ids),
            )
        return {row["run_id"]: TeamRest.model_validate_json(row["team_rest"]) for row in rows}


async def months_now(connection: Connection, team: str | None = None) -> list[TeamMonthRow]:
    """This month of each team that has a budget, or of one of them."""
    rows = await connection.fetch(
        f"{_MONTHS} WHERE known.month = {_THIS_MONTH} AND b.team IS NOT NULL AND ($1::text IS NULL OR known.team = $1)"
        " ORDER BY team",
        None if team is None else storable_text(team),
    )
    return [_month(row) for row in rows]


def _month(row: Any) -> TeamMonthRow:
    limits, spent, lost, held = (
        {name: row[f"{kind}_{name}"] for name in RESOURCES} for kind in ("limit", "spent", "lost", "held")
    )
    used = {name: spent[name] + lost[name] for name in RESOURCES}
    limited = [name for name in RESOURCES if limits[name] and row["is_now"]]
    left = {name: max(limits[name] - used[name] - held[name], 0) for name in limited}
    return TeamMonthRow(
        team=row["team"],
        month=row["month"],
        budget=Taken(**limits),
        spent=Taken(**used),
        lost=Taken(**lost),
        set_aside=Taken(**held),
        left=Left(**left),
    )
