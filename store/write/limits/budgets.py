"""Budgets: what a run may spend, what it has spent, and what is set aside for calls in flight, on however many workers.

Whoever takes something from what is left locks the run's row, so that takers come one after the other, and after it the row of
a team that has a budget. Writing where a lease stands needs no lock: what it holds only becomes less, or turns into what it has
spent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime
from operator import itemgetter
from typing import Any

from store.budget_leases import SECONDS_UNTIL_STALE, LeaseBalance, Leased, LeaseKey, LeaseRequest
from store.connection import Connection, Database
from store.encoding import optional_json
from store.write.limits.budget_accounts import abandoned, account_of, add_to_account, columns_of, grant, lock_budget
from store.write.limits.team_accounts import TeamMonth, add_to_month, month_in
from workflows.model.activities.external_trials import CallsSettlement
from workflows.model.run.amounts import NOTHING, RESOURCES, Amount, total
from workflows.model.run.team_rest import TeamRest
from workflows.model.spec.execution import Budget
from workflows.model.spec.limits import AdjustedLimits
from workflows.model.trial import TrialInput


class Budgets:
    """The budgets of runs, and what holders of leases have taken out of them."""

    def __init__(self, database: Database, now: Callable[[], datetime] | None = None) -> None:
        """`now` says which month of a team it is; without it PostgreSQL does, so that all workers agree."""
        self._database = database
        self._now = now

    async def lease(self, key: LeaseKey, balance: LeaseBalance, request: LeaseRequest) -> Leased:
        """Set more aside: as much as is welcome, or what there is of it, or nothing when that is less than is needed."""
        async with self._database.transaction() as connection:
            account = await account_of(connection, key, again=request.again, now=None if self._now is None else self._now())
            found = grant(account, balance, request)
            if found.short_of is None:
                balance = replace(
                    balance,
                    held=balance.held + found.granted,
                    exclusive=balance.exclusive or request.exclusive,
                    idle=False,
                    waiting=False,
                )
            else:
                balance = replace(balance, held=(balance.held - request.spare).not_negative())
            await _write(connection, key, balance, None if account.team is None else account.team.of, found.team_rest)
            return Leased(
                found.granted, found.short_of, found.others_at_work, account.dearest, account.limited, found.team_rest
            )

    async def write_balance(self, key: LeaseKey, balance: LeaseBalance) -> None:
        """Keep where a lease stands. One that another attempt has taken over is not listened to any more."""
        async with self._database.connection() as connection:
            await write_balance(connection, key, balance)

    async def close_lease(self, key: LeaseKey, balance: LeaseBalance) -> None:
        """The lease is used up: what it took is the run's now. Closing twice changes nothing."""
        async with self._database.transaction() as connection:
            await lock_budget(connection, key.run_id)
            closed = await connection.fetchrow(
                "DELETE FROM budget_leases WHERE run_id = $1 AND holder = $2 AND nonce = $3 RETURNING team, month",
                key.run_id,
                key.holder,
                key.nonce,
            )
            if closed is not None:
                await add_to_account(connection, key.run_id, key.candidate_id, key.trial_id, balance, month_in(closed))

    async def settle_calls(self, key: LeaseKey, settlement: CallsSettlement) -> None:
        """Calls of strangers are over: what they took is the run's, the rest of what was set aside for them is given back.

        Of two months it is the first one's, as the calls began then.
        """
        async with self._database.transaction() as connection:
            budget = await lock_budget(connection, key.run_id)
            rows = await connection.fetch(
                "DELETE FROM budget_leases WHERE run_id = $1 AND holder = ANY($2) AND nonce = $3"
                " RETURNING held_samples, held_tokens, held_cost, team, month",
                key.run_id,
                list(settlement.holders),
                key.nonce,
            )
            held = total(Amount(row["held_samples"], row["held_tokens"], row["held_cost"]) for row in rows)
            calls = settlement.calls or held.samples
            if not rows or not calls:
                return
            most = held.times(1 / calls)
            was_known = bool(most.tokens or most.cost)
            dearest = settlement.dearest
            limited = [name for name in RESOURCES if budget[f"limit_{name}"] and name != "samples"]
            balance = LeaseBalance(
                spent=Amount(settlement.answered, settlement.tokens, settlement.cost),
                lost=most.times(settlement.unanswered).or_less(held),
                dearest=dearest,
                exceeded=int(was_known and dearest is not None and most.short_of(dearest, limited) is not None),
            )
            months = sorted((row for row in rows if row["month"] is not None), key=itemgetter("month"))
            month = month_in(months[0]) if months else None
            await add_to_account(connection, key.run_id, key.candidate_id, key.trial_id, balance, month)

    async def settle_trial(self, trial: TrialInput) -> Amount:
        """Close what attempts left open that nobody will take over any more; what the trial's calls lost in all."""
        async with self._database.transaction() as connection:
            await lock_budget(connection, trial.run_id)
            left_open = await connection.fetch(
                "DELETE FROM budget_leases WHERE run_id = $1 AND trial_id = $2 RETURNING *", trial.run_id, trial.trial_id
            )
            key = (trial.run_id, trial.candidate.candidate_id, trial.trial_id)
            for row in _by_month(left_open):
                await add_to_account(connection, *key, abandoned(row), month_in(row))
            lost = await connection.fetchrow(
                "SELECT lost_samples, lost_tokens, lost_cost FROM trials"
                " WHERE run_id = $1 AND candidate_id = $2 AND trial_id = $3",
                *key,
            )
            return NOTHING if lost is None else Amount(*lost)


async def open_budget(connection: Connection, run_id: str, budget: Budget, confirmation_calls: int) -> None:
    """A fresh account: a run that is started anew begins with nothing spent. In its team's month it stays spent."""
    await connection.execute("DELETE FROM budgets WHERE run_id = $1", run_id)
    await connection.execute(
        "INSERT INTO budgets (run_id, limit_samples, limit_tokens, limit_cost, confirmation_calls) VALUES ($1, $2, $3, $4, $5)",
        run_id,
        budget.samples,
        budget.tokens,
        budget.cost,
        confirmation_calls,
    )


async def set_limits(connection: Connection, run_id: str, budget: Budget) -> None:
    """What the run may spend from now on. What is set aside already stays so."""
    await connection.execute(
        "UPDATE budgets SET limit_samples = $2, limit_tokens = $3, limit_cost = $4 WHERE run_id = $1",
        run_id,
        budget.samples,
        budget.tokens,
        budget.cost,
    )


def limits_in(limits: str, budgeted: bool) -> AdjustedLimits:
    """What a run's row says of its limits."""
    return AdjustedLimits.model_validate_json(limits).model_copy(update={"budgeted": budgeted})


async def write_balance(connection: Connection, key: LeaseKey, balance: LeaseBalance) -> None:
    """Where a lease stands. One that another attempt has taken over is not listened to any more."""
    await connection.execute(
        """
        UPDATE budget_leases SET
            held_samples = $4, held_tokens = $5, held_cost = $6, spent_samples = $7, spent_tokens = $8, spent_cost = $9,
            lost_samples = $10, lost_tokens = $11, lost_cost = $12, most_tokens_per_sample = $13, most_cost_per_sample = $14,
            exceeded = $15, exclusive = $16, idle = $17, waiting = $18, renewed_at = now() + make_interval(secs => $19)
        WHERE run_id = $1 AND holder = $2 AND nonce = $3
        """,
        key.run_id,
        key.holder,
        key.nonce,
        *_columns(balance),
        key.lasts,
    )


async def settle_left_open(connection: Connection, run_id: str) -> None:
    """Close what nobody renews any more, of whichever trial: the run is over."""
    await lock_budget(connection, run_id)
    left_open = await connection.fetch(
        "DELETE FROM budget_leases WHERE run_id = $1 AND renewed_at < now() - make_interval(secs => $2) RETURNING *",
        run_id,
        SECONDS_UNTIL_STALE,
    )
    for row in _by_month(left_open):
        await add_to_account(connection, run_id, row["candidate_id"], row["trial_id"], abandoned(row), month_in(row))


async def settle_months(connection: Connection, run_id: str) -> None:
    """Count what leases of a run have open in the months of its team, before the run's own account goes: it was spent."""
    await connection.execute("SELECT FROM budgets WHERE run_id = $1 FOR UPDATE", run_id)
    left_open = await connection.fetch("DELETE FROM budget_leases WHERE run_id = $1 AND month IS NOT NULL RETURNING *", run_id)
    for row in _by_month(left_open):
        await add_to_month(connection, TeamMonth(row["team"], row["month"]), abandoned(row))


async def spend_unmetered(connection: Connection, run_id: str, spent: Amount) -> None:
    """What was taken without a lease, while the run had no budget to lease from; it may be given one later."""
    await connection.execute(
        "UPDATE budgets SET spent_samples = spent_samples + $2, spent_tokens = spent_tokens + $3, spent_cost = spent_cost + $4"
        " WHERE run_id = $1",
        run_id,
        spent.samples,
        spent.tokens,
        spent.cost,
    )


def _by_month(rows: Sequence[Any]) -> list[Any]:
    """In the order in which rows of months are locked."""
    return sorted(rows, key=lambda row: row["month"] or date.min)


async def _write(
    connection: Connection, key: LeaseKey, balance: LeaseBalance, month: TeamMonth | None, rest: TeamRest | None
) -> None:
    await connection.execute(
        """
        INSERT INTO budget_leases (run_id, holder, nonce, held_samples, held_tokens, held_cost, spent_samples, spent_tokens,
                                   spent_cost, lost_samples, lost_tokens, lost_cost, most_tokens_per_sample,
                                   most_cost_per_sample, exceeded,
                                   exclusive, idle, waiting, attempt, candidate_id, trial_id, renewed_at, team, month,
                                   team_rest)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
                now() + make_interval(secs => $22), $23, $24, $25)
        ON CONFLICT (run_id, holder) DO UPDATE SET
            held_samples = excluded.held_samples, held_tokens = excluded.held_tokens, held_cost = excluded.held_cost,
            spent_samples = excluded.spent_samples, spent_tokens = excluded.spent_tokens, spent_cost = excluded.spent_cost,
            lost_samples = excluded.lost_samples, lost_tokens = excluded.lost_tokens, lost_cost = excluded.lost_cost,
            most_tokens_per_sample = excluded.most_tokens_per_sample, most_cost_per_sample = excluded.most_cost_per_sample,
            exceeded = excluded.exceeded,
            exclusive = excluded.exclusive, idle = excluded.idle, waiting = excluded.waiting, renewed_at = excluded.renewed_at,
            team = coalesce(budget_leases.team, excluded.team), month = coalesce(budget_leases.month, excluded.month),
            team_rest = excluded.team_rest
        """,
        key.run_id,
        key.holder,
        key.nonce,
        *_columns(balance),
        key.attempt,
        key.candidate_id,
        key.trial_id,
        key.lasts,
        None if month is None else month.team,
        None if month is None else month.month,
        optional_json(None if rest is None else rest.model_dump(mode="json")),
    )


def _columns(balance: LeaseBalance) -> list[Any]:
    dearest = balance.dearest
    return [
        *columns_of(balance.held),
        *columns_of(balance.spent),
        *columns_of(balance.lost),
        None if dearest is None else dearest.tokens,
        None if dearest is None else dearest.cost,
        balance.exceeded,
        balance.exclusive,
        balance.idle,
        balance.waiting,
    ]
