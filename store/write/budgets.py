"""Budgets: what a run may spend, what it has spent, and what is set aside for calls in flight, on however many workers.

Whoever takes something from what is left locks the run's row, so that takers come one after the other. Writing where a purse
stands needs no lock: what it holds only becomes less, or turns into what it has spent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from store.budget_leases import LeaseBalance, Leased, LeaseKey, LeaseRequest, LeaseTaken
from store.connection import Connection
from store.events import RunUnknown
from workflows.model.activities.external_trials import CallsSettlement
from workflows.model.run.amounts import LAST_DIGITS, NOTHING, RESOURCES, Amount, Resource, total
from workflows.model.spec.execution import Budget
from workflows.model.spec.limits import AdjustedLimits

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
    other_alone: bool

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


async def open_budget(connection: Connection, run_id: str, budget: Budget, confirmation_calls: int) -> None:
    """A fresh account: a run that is started anew begins with nothing spent."""
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


async def adjusted_limits(connection: Connection, run_id: str) -> AdjustedLimits:
    """The run's limits as the adjust update left them."""
    row = await connection.fetchrow(
        "SELECT r.limits, b.limited FROM runs r JOIN budgets b USING (run_id) WHERE run_id = $1", run_id
    )
    return AdjustedLimits() if row is None else limits_in(row["limits"], row["limited"])


def limits_in(limits: str, budgeted: bool) -> AdjustedLimits:
    """What a run's row says of its limits."""
    return AdjustedLimits.model_validate_json(limits).model_copy(update={"budgeted": budgeted})


async def lease(connection: Connection, key: LeaseKey, balance: LeaseBalance, request: LeaseRequest) -> Leased:
    """Set more aside: as much as is welcome, or what there is of it, or nothing when that is less than is needed."""
    account = await _account(connection, key, again=request.again)
    granted, short_of = grant(account, balance, request)
    if short_of is None:
        balance = replace(balance, held=balance.held + granted, alone=balance.alone or request.alone, idle=False, waiting=False)
    else:
        balance = replace(balance, held=(balance.held - request.spare).not_negative())
    await _write(connection, key, balance)
    return Leased(granted, short_of, account.something_comes_back(short_of), account.dearest, tuple(account.limits))


def grant(account: BudgetAccount, balance: LeaseBalance, request: LeaseRequest) -> tuple[Amount, Resource | None]:
    """What may be set aside, or what there is too little of."""
    left = account.left(balance.held + balance.spent + balance.lost)
    wants_money = request.alone or request.needed.tokens or request.needed.cost
    if account.counts_money and wants_money and (account.other_alone or (request.alone and account.others_hold_money)):
        return NOTHING, "cost" if "cost" in account.limits else "tokens"
    for name, amount in left.items():
        needed = getattr(request.needed, name)
        if (needed > 0 and needed > amount) or (request.alone and name != "samples" and amount <= 0):
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


async def write_balance(connection: Connection, key: LeaseKey, balance: LeaseBalance) -> None:
    """Where a purse stands. One that another attempt has taken over is not listened to any more."""
    await connection.execute(
        """
        UPDATE budget_leases SET
            held_samples = $4, held_tokens = $5, held_cost = $6, spent_samples = $7, spent_tokens = $8, spent_cost = $9,
            lost_samples = $10, lost_tokens = $11, lost_cost = $12, dearest_tokens = $13, dearest_cost = $14,
            exceeded = $15, alone = $16, idle = $17, waiting = $18, renewed_at = now() + make_interval(secs => $19)
        WHERE run_id = $1 AND holder = $2 AND nonce = $3
        """,
        key.run_id,
        key.holder,
        key.nonce,
        *_columns(balance),
        key.lasts,
    )


async def close_lease(connection: Connection, key: LeaseKey, balance: LeaseBalance) -> None:
    """The purse is empty: what it took is the run's now. Closing twice changes nothing."""
    await _lock(connection, key.run_id)
    closed = await connection.fetchval(
        "DELETE FROM budget_leases WHERE run_id = $1 AND holder = $2 AND nonce = $3 RETURNING true",
        key.run_id,
        key.holder,
        key.nonce,
    )
    if closed:
        await _fold(connection, key.run_id, key.candidate_id, key.trial_id, balance)


async def settle_calls(connection: Connection, key: LeaseKey, settlement: CallsSettlement) -> None:
    """Calls of strangers are over: what they took is the run's, the rest of what was set aside for them is given back."""
    budget = await _lock(connection, key.run_id)
    rows = await connection.fetch(
        "DELETE FROM budget_leases WHERE run_id = $1 AND holder = ANY($2) AND nonce = $3"
        " RETURNING held_samples, held_tokens, held_cost",
        key.run_id,
        list(settlement.holders),
        key.nonce,
    )
    held = total(Amount(*row) for row in rows)
    if not held.samples:
        return
    most = held.times(1 / held.samples)
    was_known = bool(most.tokens or most.cost)
    dearest = settlement.dearest
    limited = [name for name in RESOURCES if budget[f"limit_{name}"] and name != "samples"]
    balance = LeaseBalance(
        spent=Amount(settlement.heard, settlement.tokens, settlement.cost),
        lost=most.times(settlement.unheard).or_less(held),
        dearest=dearest,
        exceeded=int(was_known and dearest is not None and most.short_of(dearest, limited) is not None),
    )
    await _fold(connection, key.run_id, key.candidate_id, key.trial_id, balance)


async def settle_trial(connection: Connection, run_id: str, candidate_id: str, trial_id: str) -> Amount:
    """Close what attempts left open that nobody will take over any more; what the trial's calls lost in all."""
    await _lock(connection, run_id)
    left_open = await connection.fetch(
        "DELETE FROM budget_leases WHERE run_id = $1 AND trial_id = $2 RETURNING *", run_id, trial_id
    )
    for row in left_open:
        await _fold(connection, run_id, candidate_id, trial_id, _abandoned(row))
    trial = await connection.fetchrow(
        "SELECT lost_samples, lost_tokens, lost_cost FROM trials WHERE run_id = $1 AND candidate_id = $2 AND trial_id = $3",
        run_id,
        candidate_id,
        trial_id,
    )
    return NOTHING if trial is None else Amount(*trial)


async def settle_left_open(connection: Connection, run_id: str) -> None:
    """Close what nobody renews any more, of whichever trial: the run is over."""
    await _lock(connection, run_id)
    left_open = await connection.fetch(
        "DELETE FROM budget_leases WHERE run_id = $1 AND renewed_at < now() - make_interval(secs => $2) RETURNING *",
        run_id,
        SECONDS_UNTIL_STALE,
    )
    for row in left_open:
        await _fold(connection, run_id, row["candidate_id"], row["trial_id"], _abandoned(row))


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


async def _lock(connection: Connection, run_id: str) -> Any:
    row = await connection.fetchrow("SELECT * FROM budgets WHERE run_id = $1 FOR NO KEY UPDATE", run_id)
    if row is None:
        raise RunUnknown(f"run {run_id!r} has no budget in the store: it was deleted, or never prepared")
    return row


async def _account(connection: Connection, key: LeaseKey, *, again: bool) -> BudgetAccount:
    """The account under lock, with what an earlier attempt left behind already settled."""
    budget = await _lock(connection, key.run_id)
    if await _taken_over(connection, key, again=again):
        budget = await _lock(connection, key.run_id)
    others = await connection.fetchrow(
        """
        SELECT coalesce(sum(held_samples + spent_samples + lost_samples), 0)::bigint AS samples,
               coalesce(sum(held_tokens + spent_tokens + lost_tokens), 0)::bigint AS tokens,
               coalesce(sum(held_cost + spent_cost + lost_cost), 0) AS cost,
               coalesce(sum(spent_samples + lost_samples), 0)::bigint AS calls,
               coalesce(sum(spent_tokens + lost_tokens) FILTER (WHERE trial_id <> ''), 0)::bigint AS tokens_of_calls,
               coalesce(sum(spent_cost + lost_cost) FILTER (WHERE trial_id <> ''), 0) AS cost_of_calls,
               max(dearest_tokens) AS dearest_tokens, max(dearest_cost) AS dearest_cost,
               coalesce(bool_or(is_there AND NOT idle), false) AS busy,
               coalesce(bool_or(gives_back AND held_samples > 0), false) AS hold_samples,
               coalesce(bool_or(gives_back AND (held_tokens > 0 OR held_cost > $5)), false) AS hold_money,
               coalesce(bool_or(is_there AND alone), false) AS alone
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
        other_alone=others["alone"],
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
            SELECT count(*) AS samples, coalesce(sum(o.tokens), 0) AS tokens, coalesce(sum(o.cost), 0) AS cost
            FROM outcomes o
            WHERE o.config_hash = t.config_hash AND o.evaluator = suite.evaluator AND o.run_id = t.run_id
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
        Amount(tokens=row["dearest_tokens"], cost=row["dearest_cost"]) for row in rows if row["dearest_tokens"] is not None
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
    await _fold(connection, key.run_id, row["candidate_id"], row["trial_id"], _abandoned(row, key.left_open))
    return True


def _abandoned(row: Any, left_open: tuple[tuple[int, int], ...] | None = None) -> LeaseBalance:
    """The books of somebody who will not close them. Of its calls those count that had begun, where that is known."""
    held = Amount(row["held_samples"], row["held_tokens"], row["held_cost"])
    if left_open is not None:
        held = replace(held, samples=min(held.samples, dict(left_open).get(row["attempt"], 0)))
    lost = Amount(row["lost_samples"], row["lost_tokens"], row["lost_cost"]) + held
    spent = Amount(row["spent_samples"], row["spent_tokens"], row["spent_cost"])
    return LeaseBalance(spent=spent, lost=lost, dearest=_dearest(row), exceeded=row["exceeded"])


async def _fold(connection: Connection, run_id: str, candidate_id: str, trial_id: str, balance: LeaseBalance) -> None:
    """Add a closed purse to the run's account, and what it lost to its trial's."""
    spent, lost, dearest = balance.spent, balance.lost, balance.dearest
    of_calls = spent + lost if trial_id else NOTHING
    await connection.execute(
        """
        UPDATE budgets SET
            spent_samples = spent_samples + $2, spent_tokens = spent_tokens + $3, spent_cost = spent_cost + $4,
            lost_samples = lost_samples + $5, lost_tokens = lost_tokens + $6, lost_cost = lost_cost + $7,
            tokens_of_calls = tokens_of_calls + $8, cost_of_calls = cost_of_calls + $9,
            dearest_tokens = greatest(dearest_tokens, $10), dearest_cost = greatest(dearest_cost, $11),
            exceeded = exceeded + $12
        WHERE run_id = $1
        """,
        run_id,
        *_amount(spent),
        *_amount(lost),
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
            *_amount(lost),
            *_amount(spent),
            bool(lost),
        )


async def _write(connection: Connection, key: LeaseKey, balance: LeaseBalance) -> None:
    await connection.execute(
        """
        INSERT INTO budget_leases (run_id, holder, nonce, held_samples, held_tokens, held_cost, spent_samples, spent_tokens,
                                   spent_cost, lost_samples, lost_tokens, lost_cost, dearest_tokens, dearest_cost, exceeded,
                                   alone, idle, waiting, attempt, candidate_id, trial_id, renewed_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
                now() + make_interval(secs => $22))
        ON CONFLICT (run_id, holder) DO UPDATE SET
            held_samples = excluded.held_samples, held_tokens = excluded.held_tokens, held_cost = excluded.held_cost,
            spent_samples = excluded.spent_samples, spent_tokens = excluded.spent_tokens, spent_cost = excluded.spent_cost,
            lost_samples = excluded.lost_samples, lost_tokens = excluded.lost_tokens, lost_cost = excluded.lost_cost,
            dearest_tokens = excluded.dearest_tokens, dearest_cost = excluded.dearest_cost, exceeded = excluded.exceeded,
            alone = excluded.alone, idle = excluded.idle, waiting = excluded.waiting, renewed_at = excluded.renewed_at
        """,
        key.run_id,
        key.holder,
        key.nonce,
        *_columns(balance),
        key.attempt,
        key.candidate_id,
        key.trial_id,
        key.lasts,
    )


def _columns(balance: LeaseBalance) -> list[Any]:
    dearest = balance.dearest
    return [
        *_amount(balance.held),
        *_amount(balance.spent),
        *_amount(balance.lost),
        None if dearest is None else dearest.tokens,
        None if dearest is None else dearest.cost,
        balance.exceeded,
        balance.alone,
        balance.idle,
        balance.waiting,
    ]


def _amount(amount: Amount) -> tuple[int, int, float]:
    return amount.samples, amount.tokens, amount.cost
