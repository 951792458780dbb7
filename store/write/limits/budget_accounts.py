"""A run's budget account: what may be spent, what was, and what is left when somebody asks.

Whoever takes something from what is left locks the run's row, so that takers come one after the other. All of this happens
within the transactions of `Budgets`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from store.budget_leases import LeaseBalance, LeaseKey, LeaseRequest, LeaseTaken
from store.connection import Connection
from store.events import RunUnknown
from workflows.model.run.amounts import LAST_DIGITS, NOTHING, RESOURCES, Amount, Resource, total

SECONDS_UNTIL_STALE = 30
"""What its holder has not renewed for so long still counts, but nobody waits for it, and another attempt may take it over."""

SECONDS_UNTIL_GIVEN_BACK = 4
"""Who has nothing at work gives back what he holds within a second. Who does not is dead, and is waited for no longer."""

CONFIRMATION_MARGIN = 1.5
"""A call of the confirmation is expected to take so many times the mean of those so far."""


@dataclass(frozen=True, slots=True)
class BudgetAccount:
    """A run's budget, and what others than the one who asks took from it."""

    limits: dict[Resource, float]
    """Those that there are."""
    used: Amount
    """Spent, lost, and set aside."""
    held_back: Amount
    """For the confirmation."""
    dearest: Amount | None
    others_busy: bool
    others_hold_samples: bool
    others_hold_money: bool
    """Also without being at work: then it is given back within a second."""
    other_exclusive: bool

    @property
    def counts_money(self) -> bool:
        return "tokens" in self.limits or "cost" in self.limits

    def something_comes_back(self, short_of: Resource | None) -> bool:
        """Whether waiting for others may help."""
        return self.others_busy or (self.others_hold_samples if short_of == "samples" else self.others_hold_money)

    def left(self, mine: Amount) -> dict[Resource, float]:
        """Of each limited resource."""
        return {
            name: limit * (1 + LAST_DIGITS) - getattr(self.used, name) - getattr(self.held_back, name) - getattr(mine, name)
            for name, limit in self.limits.items()
        }


async def lock_budget(connection: Connection, run_id: str) -> Any:
    row = await connection.fetchrow("SELECT * FROM budgets WHERE run_id = $1 FOR NO KEY UPDATE", run_id)
    if row is None:
        raise RunUnknown(f"run {run_id!r} has no budget in the store: it was deleted, or never prepared")
    return row


async def account_of(connection: Connection, key: LeaseKey, *, again: bool) -> BudgetAccount:
    """The account under lock, with what an earlier attempt left behind already settled."""
    budget = await lock_budget(connection, key.run_id)
    if await _taken_over(connection, key, again=again):
        budget = await lock_budget(connection, key.run_id)
    others = await connection.fetchrow(
        """
        SELECT coalesce(sum(held_samples + spent_samples + lost_samples), 0)::bigint AS samples,
               coalesce(sum(held_tokens + spent_tokens + lost_tokens), 0)::bigint AS tokens,
               coalesce(sum(held_cost + spent_cost + lost_cost), 0) AS cost,
               coalesce(sum(spent_samples + lost_samples), 0)::bigint AS calls,
               coalesce(sum(spent_tokens + lost_tokens) FILTER (WHERE trial_id <> ''), 0)::bigint AS tokens_of_calls,
               coalesce(sum(spent_cost + lost_cost) FILTER (WHERE trial_id <> ''), 0) AS cost_of_calls,
               max(most_tokens_per_sample) AS most_tokens_per_sample, max(most_cost_per_sample) AS most_cost_per_sample,
               coalesce(bool_or(is_there AND NOT idle), false) AS busy,
               coalesce(bool_or(gives_back AND held_samples > 0), false) AS hold_samples,
               coalesce(bool_or(gives_back AND (held_tokens > 0 OR held_cost > $5)), false) AS hold_money,
               coalesce(bool_or(is_there AND exclusive), false) AS exclusive
        FROM budget_leases
        CROSS JOIN LATERAL (
            SELECT renewed_at > now() - make_interval(secs => $3) AS is_there,
                   renewed_at > now() - make_interval(secs => CASE WHEN idle THEN $4 ELSE $3 END) AS gives_back
        ) AS holder_of_it
        WHERE run_id = $1 AND holder <> $2
        """,
        key.run_id,
        key.holder,
        SECONDS_UNTIL_STALE,
        SECONDS_UNTIL_GIVEN_BACK,
        max(budget["limit_cost"], 1.0) * LAST_DIGITS,  # sums of floats that should be 0 seldom are
    )
    assert others is not None
    settled = Amount(
        budget["spent_samples"] + budget["lost_samples"],
        budget["spent_tokens"] + budget["lost_tokens"],
        budget["spent_cost"] + budget["lost_cost"],
    ) + await _unmetered(connection, key.run_id)
    dearest = _dearest(budget, others)
    calls = settled.samples + others["calls"]
    of_calls = Amount(
        tokens=budget["tokens_of_calls"] + others["tokens_of_calls"], cost=budget["cost_of_calls"] + others["cost_of_calls"]
    )
    limits: dict[Resource, float] = {name: budget[f"limit_{name}"] for name in RESOURCES if budget[f"limit_{name}"]}
    return BudgetAccount(
        limits=limits,
        used=settled + Amount(others["samples"], others["tokens"], others["cost"]),
        held_back=NOTHING if key.confirming else _for_confirmation(budget["confirmation_calls"], calls, of_calls, dearest),
        dearest=dearest,
        others_busy=others["busy"],
        others_hold_samples=others["hold_samples"],
        others_hold_money=others["hold_money"],
        other_exclusive=others["exclusive"],
    )


def grant(account: BudgetAccount, balance: LeaseBalance, request: LeaseRequest) -> tuple[Amount, Resource | None]:
    """What may be set aside, or what there is too little of."""
    left = account.left(balance.held + balance.spent + balance.lost)
    wants_money = request.exclusive or request.needed.tokens or request.needed.cost
    if account.counts_money and wants_money and (account.other_exclusive or (request.exclusive and account.others_hold_money)):
        return NOTHING, "cost" if "cost" in account.limits else "tokens"
    for name, amount in left.items():
        needed = getattr(request.needed, name)
        if (needed > 0 and needed > amount) or (request.exclusive and name != "samples" and amount <= 0):
            return NOTHING, name
    fits = {name: max(min(getattr(request.welcome, name), amount), 0) for name, amount in left.items()}
    welcome = request.welcome
    return (
        Amount(
            int(fits.get("samples", welcome.samples)),
            int(fits.get("tokens", welcome.tokens)),
            float(fits.get("cost", welcome.cost)),
        ),
        None,
    )


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
    """What is kept for the confirmation: its number of calls, at what calls took so far, with a margin."""
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


async def _taken_over(connection: Connection, key: LeaseKey, *, again: bool) -> bool:
    """Whether an earlier attempt's lease was found and settled: what it had set aside may have been paid for.

    An attempt whose own lease was settled so is over: its books are in the account, and must not be added once more.
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
    if row is None or row["nonce"] == key.nonce:
        return False
    if row["attempt"] > key.attempt and row["fresh"]:
        raise LeaseTaken(f"attempt {row['attempt']} is at work on {key.holder}; attempt {key.attempt} stops")
    await connection.execute("DELETE FROM budget_leases WHERE run_id = $1 AND holder = $2", key.run_id, key.holder)
    await add_to_account(connection, key.run_id, row["candidate_id"], row["trial_id"], abandoned(row, key.left_open))
    return True


def abandoned(row: Any, left_open: tuple[tuple[int, int], ...] | None = None) -> LeaseBalance:
    """The books of somebody who will not close them. Of its calls those count that had begun, where that is known."""
    held = Amount(row["held_samples"], row["held_tokens"], row["held_cost"])
    if left_open is not None:
        held = replace(held, samples=min(held.samples, dict(left_open).get(row["attempt"], 0)))
    lost = Amount(row["lost_samples"], row["lost_tokens"], row["lost_cost"]) + held
    spent = Amount(row["spent_samples"], row["spent_tokens"], row["spent_cost"])
    return LeaseBalance(spent=spent, lost=lost, dearest=_dearest(row), exceeded=row["exceeded"])


async def add_to_account(connection: Connection, run_id: str, candidate_id: str, trial_id: str, balance: LeaseBalance) -> None:
    """Add a closed lease to the run's account, and what it lost to its trial's."""
    spent, lost, dearest = balance.spent, balance.lost, balance.dearest
    of_calls = spent + lost if trial_id else NOTHING
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


def columns_of(amount: Amount) -> tuple[int, int, float]:
    return amount.samples, amount.tokens, amount.cost
