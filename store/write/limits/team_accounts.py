"""A team's account of a calendar month (UTC): what all of its runs may take together, and what they took.

Takers come one after the other: each locks the team's row in `team_budgets`. The order of locks is always the same, so that
nobody waits in a circle: the run's row, its budget's, its trials', rows of `team_months`, and last the team's. Whoever closes a
lease stops before the last one. He moves what was spent from the lease to the month in one transaction, so that the statement
that sums up both never counts it twice, and never misses it.

A lease takes from the account of the month in which it was opened, and goes on taking from it when the month is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from store.budget_leases import LeaseBalance, LeaseKey
from store.connection import Connection
from store.write.limits.accounts import TAKEN_BY_OTHERS, Account, least_cost, limits_of
from workflows.model.run.amounts import Amount


@dataclass(frozen=True, slots=True)
class TeamMonth:
    """Whose account, of which month."""

    team: str
    month: date
    """Its first day."""

    @property
    def words(self) -> str:
        return f"{self.month:%Y-%m}"


@dataclass(frozen=True, slots=True)
class TeamAccount:
    """The account of a month."""

    of: TeamMonth
    account: Account


def month_in(row: Any) -> TeamMonth | None:
    """The account that a lease takes from beside its run's, if there is one."""
    return None if row["month"] is None else TeamMonth(row["team"], row["month"])


async def team_account_of(
    connection: Connection, key: LeaseKey, team: str, opened: TeamMonth | None, now: datetime | None
) -> TeamAccount | None:
    """The account under lock; None where the team's budget was taken away meanwhile."""
    budget = await connection.fetchrow(
        "SELECT *, date_trunc('month', coalesce($2, now()) AT TIME ZONE 'UTC')::date AS month FROM team_budgets"
        " WHERE team = $1 FOR NO KEY UPDATE",
        team,
        now,
    )
    if budget is None:
        return None
    of = opened or TeamMonth(team, budget["month"])
    taken = await connection.fetchrow(
        f"""
        SELECT coalesce(spent_samples + lost_samples, 0) + samples AS samples,
               coalesce(spent_tokens + lost_tokens, 0) + tokens AS tokens, coalesce(spent_cost + lost_cost, 0) + cost AS cost,
               busy, hold_samples, hold_money, exclusive
        FROM ({TAKEN_BY_OTHERS} AND team = $4 AND month = $5) others
        LEFT JOIN team_months m ON m.team = $4 AND m.month = $5
        """,  # noqa: S608 (constants of this package)
        key.run_id,
        key.holder,
        least_cost(budget),
        of.team,
        of.month,
    )
    assert taken is not None
    account = Account(
        limits=limits_of(budget),
        used=Amount(taken["samples"], taken["tokens"], taken["cost"]),
        others_busy=taken["busy"],
        others_hold_samples=taken["hold_samples"],
        others_hold_money=taken["hold_money"],
        other_exclusive=taken["exclusive"],
    )
    return TeamAccount(of, account)


async def add_to_month(connection: Connection, of: TeamMonth, balance: LeaseBalance) -> None:
    """Add a closed lease to its month."""
    spent, lost = balance.spent, balance.lost
    await connection.execute(
        """
        INSERT INTO team_months (team, month, spent_samples, spent_tokens, spent_cost, lost_samples, lost_tokens, lost_cost)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        ON CONFLICT (team, month) DO UPDATE SET
            spent_samples = team_months.spent_samples + excluded.spent_samples,
            spent_tokens = team_months.spent_tokens + excluded.spent_tokens,
            spent_cost = team_months.spent_cost + excluded.spent_cost,
            lost_samples = team_months.lost_samples + excluded.lost_samples,
            lost_tokens = team_months.lost_tokens + excluded.lost_tokens,
            lost_cost = team_months.lost_cost + excluded.lost_cost
        """,
        of.team,
        of.month,
        spent.samples,
        spent.tokens,
        spent.cost,
        lost.samples,
        lost.tokens,
        lost.cost,
    )
