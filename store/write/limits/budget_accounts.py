"""A run's budget account: what may be spent, what was, and what is left when somebody asks, for it and for its team.

Whoever takes something from what is left locks the run's row, then its team's where that has a budget
(`store/write/limits/team_accounts.py`), so that takers come one after the other. All of this happens within the transactions
of `Budgets`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from store.budget_leases import SECONDS_UNTIL_STALE, LeaseBalance, LeaseKey, LeaseRequest, LeaseTaken
from store.connection import Connection
from store.events import RunUnknown
from store.write.limits.accounts import TAKEN_BY_OTHERS, Account, least_cost, limits_of
from store.write.limits.team_accounts import TeamAccount, TeamMonth, add_to_month, month_in, team_account_of
from workflows.model.run.amounts import NOTHING, Amount, Resource, total
from workflows.model.run.team_rest import TeamRest

CONFIRMATION_MARGIN = 1.5
"""A call of the confirmation is expected to take so many times the mean of those so far."""


@dataclass(frozen=True, slots=True)
class BudgetAccount:
    """A run's budget, and what others than the one who asks took from it."""

    own: Account
    held_back: Amount
    """For the confirmation."""
    dearest: Amount | None
    team: TeamAccount | None = None
    """What the run's team has for all of its runs."""

    @property
    def limited(self) -> tuple[Resource, ...]:
        """What is, by whichever account."""
        return tuple(dict.fromkeys([*self.own.limits, *(self.team.account.limits if self.team else ())]))


@dataclass(frozen=True, slots=True)
class Grant:
    """What may be set aside, or what there is too little of."""

    granted: Amount = NOTHING
    short_of: Resource | None = None
    others_at_work: bool = False
    """Others hold something of the account that is short, or that gave; some of it may come back."""
    team_rest: TeamRest | None = None
    """Set when the team's account is short."""


async def lock_budget(connection: Connection, run_id: str) -> Any:
    """The run's row under lock, with its team where that has a budget."""
    row = await connection.fetchrow(
        "SELECT *, (SELECT team FROM team_budgets WHERE team = team_of_run(run_id)) AS team FROM budgets"
        " WHERE run_id = $1 FOR NO KEY UPDATE",
        run_id,
    )
    if row is None:
        raise RunUnknown(f"run {run_id!r} has no budget in the store: it was deleted, or never prepared")
    return row


async def account_of(connection: Connection, key: LeaseKey, *, again: bool, now: datetime | None = None) -> BudgetAccount:
    """The account under lock, with what an earlier attempt left behind already settled."""
    budget = await lock_budget(connection, key.run_id)
    lease = await _lease_before(connection, key, again=again)
    opened = None if lease is None else month_in(lease)
    if lease is not None and lease["nonce"] != key.nonce:
        await _take_over(connection, key, lease)
        budget, opened = await lock_budget(connection, key.run_id), None
    others = await connection.fetchrow(
        f"{TAKEN_BY_OTHERS} AND run_id = $1",
        key.run_id,
        key.holder,
        least_cost(budget),
    )
    assert others is not None
    limits = limits_of(budget)
    spent = Amount(budget["spent_samples"], budget["spent_tokens"], budget["spent_cost"])
    if limits:
        spent += await _unmetered(connection, key.run_id)
    settled = spent + Amount(budget["lost_samples"], budget["lost_tokens"], budget["lost_cost"])
    dearest = _dearest(budget, others)
    calls = spent.samples + others["calls"]
    of_calls = Amount(
        tokens=budget["tokens_of_calls"] + others["tokens_of_calls"], cost=budget["cost_of_calls"] + others["cost_of_calls"]
    )
    team = None
    if budget["team"] is not None:
        team = await team_account_of(connection, key, budget["team"], opened, now)
    return BudgetAccount(
        own=Account(
            limits=limits,
            used=settled + Amount(others["samples"], others["tokens"], others["cost"]),
            others_busy=others["busy"],
            others_hold_samples=others["hold_samples"],
            others_hold_money=others["hold_money"],
            other_exclusive=others["exclusive"],
        ),
        held_back=NOTHING if key.confirming else _for_confirmation(budget["confirmation_calls"], calls, of_calls, dearest),
        dearest=dearest,
        team=team,
    )


def grant(account: BudgetAccount, balance: LeaseBalance, request: LeaseRequest) -> Grant:
    """What may be set aside of the run's account and of its team's, or what there is too little of.

    A run leaves its confirmation's share alone in both. In a team somebody is always at work: there a call of which nobody
    knows what it takes waits for no more than another such call.
    """
    mine = balance.held + balance.spent + balance.lost
    taken, own, team = mine + account.held_back, account.own, account.team
    short_of = own.short_of(request, taken, first_alone=True)
    if short_of is not None:
        return Grant(short_of=short_of, others_at_work=own.something_comes_back(short_of))
    left, others_at_work = own.left(taken), own.something_comes_back(None)
    if team is not None:
        short_of = team.account.short_of(request, taken, first_alone=False)
        if short_of is not None:
            rest = TeamRest(
                team=team.of.team,
                month=team.of.words,
                resource=short_of,
                limit=team.account.limits[short_of],
                left=team.account.rest(short_of, mine),
            )
            return Grant(short_of=short_of, others_at_work=team.account.something_comes_back(short_of), team_rest=rest)
        for name, amount in team.account.left(taken).items():
            left[name] = min(left.get(name, amount), amount)
    welcome = request.welcome
    fits = {name: max(min(getattr(welcome, name), amount), 0) for name, amount in left.items()}
    granted = Amount(
        samples=int(fits.get("samples", welcome.samples)),
        tokens=int(fits.get("tokens", welcome.tokens)),
        cost=float(fits.get("cost", welcome.cost)),
    )
    return Grant(granted, others_at_work=others_at_work)


async def _unmetered(connection: Connection, run_id: str) -> Amount:
    """What trials at work took before their run had a budget. Those that are over have told the account themselves."""
    rows = await connection.fetch(
        """
        SELECT greatest(given.samples - t.leased_samples - coalesce(mine.samples, 0), 0)::bigint,
               greatest(given.tokens - t.leased_tokens - coalesce(mine.tokens, 0), 0)::bigint,
               greatest(given.cost - t.leased_cost - coalesce(mine.cost, 0), 0)
        FROM trials t
        JOIN suites suite USING (run_id, split)
        CROSS JOIN LATERAL (
            SELECT count(*) AS samples, coalesce(sum(o.tokens + coalesce(s.tokens, 0)), 0) AS tokens,
                   coalesce(sum(o.cost + coalesce(s.cost, 0)), 0) AS cost
            FROM answers o
            LEFT JOIN LATERAL (
                SELECT tokens, cost FROM scores WHERE scores.answer_id = o.answer_id AND scores.scorer = suite.scorer OFFSET 0
            ) s ON true
            WHERE o.config_hash = t.config_hash AND o.target = suite.target AND o.run_id = t.run_id
              AND o.trial_id = t.trial_id AND o.reused_from IS NULL
        ) given
        LEFT JOIN LATERAL (
            SELECT sum(spent_samples) AS samples, sum(spent_tokens) AS tokens, sum(spent_cost) AS cost
            FROM budget_leases l WHERE l.run_id = t.run_id AND l.trial_id = t.trial_id
        ) mine ON true
        WHERE t.run_id = $1 AND t.status = 'running' AND NOT t.metered
        """,
        run_id,
    )
    return total(Amount(*row) for row in rows)


def _for_confirmation(wanted: int, calls: int, took: Amount, dearest: Amount | None) -> Amount:
    """What is kept for the confirmation: its number of calls, at what those took that were answered, with a margin."""
    if not wanted or not calls:
        return Amount(samples=wanted)
    return took.times(wanted * CONFIRMATION_MARGIN / calls) + (dearest or NOTHING) + Amount(samples=wanted)


def _dearest(*rows: Any) -> Amount | None:
    known = [
        Amount(tokens=row["most_tokens_per_sample"], cost=row["most_cost_per_sample"])
        for row in rows
        if row["most_tokens_per_sample"] is not None
    ]
    return known[0].or_more(known[-1]) if known else None


async def _lease_before(connection: Connection, key: LeaseKey, *, again: bool) -> Any:
    """The holder's lease as it stands, its own or that of an earlier attempt.

    An attempt whose own lease was settled is over: its books are in the account, and must not be added once more.
    """
    row = await connection.fetchrow(
        "SELECT *, renewed_at > now() - make_interval(secs => $3) AS fresh FROM budget_leases"
        " WHERE run_id = $1 AND holder = $2",
        key.run_id,
        key.holder,
        SECONDS_UNTIL_STALE,
    )
    if again and (row is None or row["nonce"] != key.nonce):
        raise LeaseTaken(f"what attempt {key.attempt} at {key.holder} has taken is settled; it stops")
    if row is not None and row["nonce"] != key.nonce and row["attempt"] > key.attempt and row["fresh"]:
        raise LeaseTaken(f"attempt {row['attempt']} is at work on {key.holder}; attempt {key.attempt} stops")
    return row


async def _take_over(connection: Connection, key: LeaseKey, row: Any) -> None:
    """Settle an earlier attempt's lease: what it had set aside may have been paid for."""
    await connection.execute("DELETE FROM budget_leases WHERE run_id = $1 AND holder = $2", key.run_id, key.holder)
    of = (key.run_id, row["candidate_id"], row["trial_id"])
    await add_to_account(connection, *of, abandoned(row, key.left_open), month_in(row))


def abandoned(row: Any, left_open: tuple[tuple[int, int], ...] | None = None) -> LeaseBalance:
    """The books of somebody who will not close them. Of its calls those count that had begun, where that is known."""
    held = Amount(row["held_samples"], row["held_tokens"], row["held_cost"])
    if left_open is not None:
        held = replace(held, samples=min(held.samples, dict(left_open).get(row["attempt"], 0)))
    lost = Amount(row["lost_samples"], row["lost_tokens"], row["lost_cost"]) + held
    spent = Amount(row["spent_samples"], row["spent_tokens"], row["spent_cost"])
    return LeaseBalance(spent=spent, lost=lost, dearest=_dearest(row), exceeded=row["exceeded"])


async def add_to_account(
    connection: Connection, run_id: str, candidate_id: str, trial_id: str, balance: LeaseBalance, month: TeamMonth | None
) -> None:
    """Add a closed lease to the run's account and to its team's month, and what it lost to its trial's."""
    spent, lost, dearest = balance.spent, balance.lost, balance.dearest
    of_calls = spent if trial_id else NOTHING
    await connection.execute(
        """
        UPDATE budgets SET
            spent_samples = spent_samples + $2, spent_tokens = spent_tokens + $3, spent_cost = spent_cost + $4,
            lost_samples = lost_samples + $5, lost_tokens = lost_tokens + $6, lost_cost = lost_cost + $7,
            tokens_of_calls = tokens_of_calls + $8, cost_of_calls = cost_of_calls + $9,
            most_tokens_per_sample = greatest(most_tokens_per_sample, $10),
            most_cost_per_sample = greatest(most_cost_per_sample, $11),
            exceeded = exceeded + $12
        WHERE run_id = $1
        """,
        run_id,
        *columns_of(spent),
        *columns_of(lost),
        of_calls.tokens,
        of_calls.cost,
        None if dearest is None else dearest.tokens,
        None if dearest is None else dearest.cost,
        balance.exceeded,
    )
    if trial_id:
        await connection.execute(
            """
            UPDATE trials SET
                lost_samples = lost_samples + $4, lost_tokens = lost_tokens + $5, lost_cost = lost_cost + $6,
                leased_samples = leased_samples + $7, leased_tokens = leased_tokens + $8, leased_cost = leased_cost + $9
            WHERE run_id = $1 AND candidate_id = $2 AND trial_id = $3 AND ($10 OR NOT metered)
            """,
            run_id,
            candidate_id,
            trial_id,
            *columns_of(lost),
            *columns_of(spent),
            bool(lost),
        )
    if month is not None:
        await add_to_month(connection, month, balance)


def columns_of(amount: Amount) -> tuple[int, int, float]:
    return amount.samples, amount.tokens, amount.cost
