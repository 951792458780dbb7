"""Budgets hold whoever is killed when: random shards over real PostgreSQL, against a world that counts what is really paid.

`RATCHET_BUDGET_SEEDS` sets how many seeds are tried (12 by default).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random

import pytest

from activities.budget.lease import BudgetLease, fresh_nonce
from activities.budget.metering import BudgetExhausted, metered
from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_models import ChatModels, Patience
from activities.endpoints.gate import Gates
from activities.observation.worker_meters import WorkerMeters
from activities.targets.faults import CandidateFault, NotSent, Refused, Throttled, TookTooLong, Unreachable
from activities.targets.patience_requests import patience_asked_for
from store.budget_leases import LeaseBalance, LeaseKey, LeaseRequest, LeaseTaken, Second
from store.connection import Database, is_away
from store.write.limits.budgets import Budgets
from tests.support.budgets import EACH, covers, opened, random_budget, used, watched
from tests.support.counted import Counted
from tests.support.leased_work import MortalBudgets, Shard, Workers, World
from tests.support.store_examples import ExampleRun
from workflows.model.run.amounts import NOTHING, Amount
from workflows.model.run.contract import CommitRounds
from workflows.model.spec.execution import Budget
from workflows.model.spec.targets.at_most import AtMost

SEEDS = range(int(os.environ.get("RATCHET_BUDGET_SEEDS", "12")))


@dataclass
class Chains(Shard):
    """Samples of several calls, of which each may take something else."""

    steps: int = 2
    known_steps: int = 1
    """What the purse is told."""
    refused: Amount = NOTHING

    def budget_lease(self, budgets: MortalBudgets) -> BudgetLease:
        budget_lease = super().budget_lease(budgets)
        budget_lease._calls_each = self.known_steps
        return budget_lease

    async def _pair(self, budget_lease: BudgetLease, budgets: MortalBudgets) -> None:
        most = Amount(samples=1)
        reservation = None
        try:
            reservation = await budget_lease.reservation()
            for _ in range(self.steps if self.exhausted is None else 0):
                most = EACH.times(self.world.random.uniform(0.3, 1.7))
                await self.world.step(CallContext(meter=reservation), most)
            if self.exhausted is None or reservation.begun:
                reservation.answered(0, 0.0)
                self.answered += 1
        except BudgetExhausted as error:
            self.exhausted, self.refused = error.resource, most
        finally:
            if reservation is not None:
                reservation.close()


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_budget_is_ever_overshot(seed: int, example: ExampleRun, database: Database) -> None:
    """With several workers, shards side by side, calls that fail after they were paid, and workers killed at any moment."""
    random = Random(seed)
    budget = random_budget(random)
    run = await opened(example, budget)
    world = World(random, failing=random.choice([0.0, 0.1, 0.3]), known=True)
    stated = AtMost(tokens=EACH.tokens, cost=EACH.cost)
    shards = [Shard(run, world, f"shard-{n}", random.randint(5, 60), stated) for n in range(random.randint(1, 6))]
    workers = Workers(run, world, shards, random, kills_left=random.choice([0, 3, 8]))
    async with watched(database, run.run_id, lambda: budget):
        await workers.all_done()
    await run.store.budgets.settle_trial(run.trial())
    account = await used(database, run.run_id)
    assert account.held == NOTHING
    assert covers(budget, world.paid), f"paid {world.paid} of {budget}"
    assert covers(budget, account.all)
    assert account.all.samples >= world.paid.samples
    if budget.tokens or budget.cost:  # what nobody limits is not set aside, and so not known of calls that say nothing
        assert account.all.short_of(world.paid) is None, "something was paid and not accounted for"
    assert account.exceeded == 0
    if any(shard.exhausted for shard in shards):
        assert not covers(budget, account.all + Amount(1, EACH.tokens, EACH.cost)), "more could have been done"
    if not workers.kills and not world.failing:
        assert account.lost == NOTHING
        assert account.spent.short_of(world.paid) is None and world.paid.short_of(account.spent) is None


@pytest.mark.parametrize("seed", SEEDS)
async def test_samples_of_several_calls_never_starve_each_other(seed: int, example: ExampleRun, database: Database) -> None:
    """However many calls a sample makes, and whether that is known: it is over, it is within the budget, and `exhausted`
    means that nothing more fits."""
    random = Random(seed)
    budget = random_budget(random)
    run = await opened(example, budget)
    world = World(random, known=True)
    shards = []
    for number in range(random.randint(1, 4)):
        steps = random.randint(2, 4)
        known = random.choice([1, steps])
        shards.append(Chains(run, world, f"shard-{number}", random.randint(10, 60), None, steps=steps, known_steps=known))
    side_by_side = random.randint(5, 40)
    async with watched(database, run.run_id, lambda: budget), asyncio.timeout(60), asyncio.TaskGroup() as group:
        for shard in shards:
            group.create_task(shard.work(MortalBudgets(run.database), side_by_side))
    account = await used(database, run.run_id)
    assert account.held == NOTHING
    assert covers(budget, account.all)
    for shard in shards:
        assert shard.exhausted is not None or shard.answered == shard.calls
        if shard.exhausted is not None:
            assert not covers(budget, account.all + shard.refused), "there was room for what was refused"


@pytest.mark.parametrize("seed", range(6))
async def test_an_adjusted_budget_holds_from_then_on(seed: int, example: ExampleRun, database: Database) -> None:
    """Limits go up and down while calls are made: what was set aside stays, and nothing beyond it is."""
    random = Random(seed)
    budget = Budget(samples=30, cost=0.3)
    run = await opened(example, budget)
    world = World(random, known=True)
    stated = AtMost(tokens=EACH.tokens, cost=EACH.cost)
    shards = [Shard(run, world, f"shard-{n}", 60, stated) for n in range(3)]
    highest = budget

    async def adjust() -> None:
        nonlocal highest
        for _ in range(6):
            await asyncio.sleep(random.uniform(0.002, 0.02))
            changed = Budget(samples=random.randint(5, 120), cost=random.uniform(0.05, 1.0))
            # Before it takes effect: what is granted from then on may need it.
            highest = Budget(samples=max(highest.samples, changed.samples), cost=max(highest.cost, changed.cost))
            await run.store.runs.commit_rounds(CommitRounds(run_id=run.run_id, records=(), status="running", budget=changed))

    adjusting = asyncio.create_task(adjust())
    async with watched(database, run.run_id, lambda: highest):
        await Workers(run, world, shards, random, kills_left=0).all_done()
    await adjusting
    assert covers(highest, world.paid)
    assert (await used(database, run.run_id)).held == NOTHING


async def test_a_lowered_budget_lets_nothing_new_begin(example: ExampleRun, database: Database) -> None:
    run = await opened(example, Budget(samples=30))
    world = World(Random(1), known=True)
    stated = AtMost(tokens=EACH.tokens)
    await Shard(run, world, "before", 10, stated).work(MortalBudgets(run.database), 4)
    lowered = Budget(samples=5)
    await run.store.runs.commit_rounds(CommitRounds(run_id=run.run_id, records=(), status="running", budget=lowered))
    after = Shard(run, world, "after", 10, stated)
    await after.work(MortalBudgets(run.database), 4)
    assert (world.paid.samples, after.exhausted) == (10, "samples")
    raised = Budget(samples=15)
    await run.store.runs.commit_rounds(CommitRounds(run_id=run.run_id, records=(), status="running", budget=raised))
    await Shard(run, world, "later", 10, stated).work(MortalBudgets(run.database), 4)
    assert world.paid.samples == 15


@pytest.mark.parametrize("seed", range(3))
async def test_what_nobody_states_is_learned_by_one_call_at_a_time(seed: int, example: ExampleRun, database: Database) -> None:
    budget = Budget(cost=0.3)
    run = await opened(example, budget)
    world = World(Random(seed))
    shards = [Shard(run, world, f"shard-{n}", 20, None) for n in range(3)]
    await Workers(run, world, shards, Random(seed), kills_left=0).all_done()
    assert world.most_in_flight > 1, "it was never learned"
    assert world.paid.cost <= 0.3 + EACH.cost
    assert (await used(database, run.run_id)).held == NOTHING


async def test_a_call_that_takes_more_than_stated_is_counted_in_full_and_told(example: ExampleRun, database: Database) -> None:
    run = await opened(example, Budget(cost=1.0))
    world = World(Random(3), known=True)
    await Shard(run, world, "liar", 10, AtMost(cost=EACH.cost / 4)).work(MortalBudgets(run.database), 1)
    account = await used(database, run.run_id)
    assert account.exceeded == 10
    assert account.spent.cost == pytest.approx(world.paid.cost)


async def test_what_a_dead_worker_had_set_aside_counts_as_lost(example: ExampleRun, database: Database) -> None:
    run = await opened(example, Budget(samples=100, cost=1.0))
    shard = Shard(run, World(Random(4), known=True), "shard", 10, AtMost(cost=EACH.cost))
    dying = shard.budget_lease(MortalBudgets(run.database))
    reservation = await dying.reservation()
    assert await reservation.reserve(lambda: EACH) == EACH
    held = (await used(database, run.run_id)).held
    assert held.short_of(Amount(1, EACH.tokens, EACH.cost)) is None
    await shard.budget_lease(MortalBudgets(run.database)).reservation()
    account = await used(database, run.run_id)
    assert account.lost == held
    with pytest.raises(LeaseTaken):
        await reservation.reserve(lambda: EACH.times(5))
    lost = await run.store.budgets.settle_trial(run.trial())
    assert lost.samples >= held.samples


async def test_a_superseded_attempt_adds_nothing_to_the_books_after_its_successor_settled(
    example: ExampleRun, database: Database
) -> None:
    run = await opened(example, Budget(samples=100, cost=1.0))
    shard = Shard(run, World(Random(4), known=True), "shard", 10, AtMost(cost=EACH.cost))
    superseded = shard.budget_lease(MortalBudgets(run.database))
    reservation = await superseded.reservation()
    reservation.answered(0, 0.01)
    reservation.close()
    successor = shard.budget_lease(MortalBudgets(run.database))
    async with successor.open():
        (await successor.reservation()).close()
    settled = await used(database, run.run_id)
    with pytest.raises(LeaseTaken):
        await asyncio.gather(*[superseded.reservation() for _ in range(10)])
    assert await used(database, run.run_id) == settled


async def test_of_what_a_dead_worker_had_set_aside_only_calls_that_had_begun_are_lost(
    example: ExampleRun, database: Database
) -> None:
    run = await opened(example, Budget(samples=100))
    dying = BudgetLease(run.store.budgets, LeaseKey(run.run_id, "shard", 1, fresh_nonce()), is_away, most_needed=50)
    for _ in range(3):
        await dying.reservation()
    held = (await used(database, run.run_id)).held.samples
    assert held > 3
    key = LeaseKey(run.run_id, "shard", 2, fresh_nonce(), left_open=((1, 3),))
    await BudgetLease(run.store.budgets, key, is_away, most_needed=50).reservation()
    assert (await used(database, run.run_id)).lost == Amount(samples=3)


async def test_an_answer_that_a_dead_worker_had_not_stored_is_counted_once(example: ExampleRun, database: Database) -> None:
    run = await opened(example, Budget(samples=100))
    dying = BudgetLease(run.store.budgets, LeaseKey(run.run_id, "shard", 1, fresh_nonce()), is_away, most_needed=50)
    stored, on_its_way, _in_flight = [await dying.reservation(answer_id=number) for number in range(3)]
    for reservation in (stored, on_its_way):
        reservation.answered(0, 0.0)
        reservation.close()
    await dying.stored_with(partial(_written, run.store.budgets), {0})
    assert (await used(database, run.run_id)).spent == Amount(samples=1)
    key = LeaseKey(run.run_id, "shard", 2, fresh_nonce(), left_open=((1, 2),))
    await BudgetLease(run.store.budgets, key, is_away, most_needed=50).reservation()
    settled = await used(database, run.run_id)
    assert (settled.spent, settled.lost) == (Amount(samples=1), Amount(samples=2))


async def _written(budgets: Budgets, key: LeaseKey, balance: Callable[[Second], LeaseBalance]) -> Second:
    await budgets.write_balance(key, balance({}))
    return {}


async def test_an_answer_that_another_attempt_was_faster_with_is_lost_and_not_spent(
    example: ExampleRun, database: Database
) -> None:
    run = await opened(example, Budget(samples=100))
    await run.store.outcomes.commit(run.shard(), run.suite, [replace(run.outcome(), answer_id=1)])
    late = BudgetLease(run.store.budgets, LeaseKey(run.run_id, "shard", 2, fresh_nonce()), is_away, most_needed=50)
    answers = [replace(run.outcome(position), answer_id=2 + position, tokens=10, cost=0.5) for position in range(2)]
    commit = run.store.outcomes.commit
    async with late.open():
        for answer in answers:
            reservation = await late.reservation(answer_id=answer.answer_id)
            reservation.answered(10, 0.5)
            reservation.close()
        for _ in range(2):  # a reply may be lost, and then the same is stored again
            await late.stored_with(lambda key, balance: commit(run.shard(), run.suite, answers, (key, balance)), {2, 3})
            at_work = await used(database, run.run_id)
            assert (at_work.spent, at_work.lost) == (Amount(1, 10, 0.5), Amount(1, 10, 0.5))
    settled = await used(database, run.run_id)
    assert (settled.spent, settled.lost, settled.held) == (Amount(1, 10, 0.5), Amount(1, 10, 0.5), NOTHING)


async def test_an_answer_that_nobody_tries_to_store_any_more_is_lost(example: ExampleRun, database: Database) -> None:
    run = await opened(example, Budget(samples=100))
    budget_lease = BudgetLease(run.store.budgets, LeaseKey(run.run_id, "shard", 1, fresh_nonce()), is_away, most_needed=50)
    async with budget_lease.open():
        reservation = await budget_lease.reservation(answer_id=7)
        reservation.answered(0, 0.0)
        reservation.close()
    settled = await used(database, run.run_id)
    assert (settled.spent, settled.lost, settled.held) == (NOTHING, Amount(samples=1), NOTHING)


async def test_the_search_leaves_the_confirmation_its_calls(example: ExampleRun, database: Database) -> None:
    splits = {"validation": 0.5, "test": 0.5}
    example.samples, example.replicates = 40, 1
    items = [{"input": {"n": n}, "expected": n} for n in range(40)]
    run = await opened(example, Budget(samples=100), dataset={"items": items, "splits": splits})
    world = World(Random(5), known=True)
    search = Shard(run, world, "search", 100, AtMost(cost=0.1))
    await search.work(MortalBudgets(run.database), 4)
    assert (search.answered, search.exhausted) == (60, "samples")
    key = LeaseKey(run.run_id, "confirmation", 1, fresh_nonce(), confirming=True)
    leased = await run.store.budgets.lease(key, LeaseBalance(), LeaseRequest(Amount(samples=40), Amount(samples=40)))
    assert (leased.granted.samples, leased.short_of) == (40, None)


async def test_what_lost_calls_can_have_taken_is_not_expected_of_the_confirmation(
    example: ExampleRun, database: Database
) -> None:
    example.samples, example.replicates = 40, 1
    items = [{"input": {"n": n}, "expected": n} for n in range(40)]
    run = await opened(example, Budget(cost=1.0), dataset={"items": items, "splits": {"validation": 0.5, "test": 0.5}})
    trial = run.trial()
    budgets = run.store.budgets
    for number, balance in enumerate([books(spent=10, cost=0.01), LeaseBalance(lost=Amount(samples=1, cost=0.2))]):
        ended = LeaseKey(run.run_id, f"shard {number}", 1, fresh_nonce(), trial.candidate.candidate_id, trial.trial_id)
        await budgets.lease(ended, LeaseBalance(), LeaseRequest(Amount(samples=1), Amount(samples=1)))
        await budgets.close_lease(ended, balance)
    key = LeaseKey(run.run_id, "search", 1, fresh_nonce())
    enough, too_much = (LeaseRequest(Amount(cost=cost), Amount(cost=cost)) for cost in (0.7, 0.76))
    assert (await budgets.lease(key, LeaseBalance(), enough)).short_of is None
    assert (await budgets.lease(key, LeaseBalance(), too_much)).short_of == "cost"


def books(*, spent: int, cost: float) -> LeaseBalance:
    return LeaseBalance(spent=Amount(samples=spent, cost=cost), dearest=Amount(cost=cost / spent))


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (CandidateFault("HTTP 400", kind="any label at all", billed="no"), NOTHING),
        (Unreachable("HTTP 500", kind="any label at all", billed="no"), NOTHING),
        (Throttled("HTTP 429", None), NOTHING),
        (Refused("HTTP 401"), NOTHING),
        (NotSent("a placeholder names nothing"), NOTHING),
        (CandidateFault("a label decides nothing", kind="http 400"), EACH),
        (Unreachable("the connection was lost"), EACH),
        (TookTooLong("took longer than 1 s"), EACH),
        (CandidateFault("an answer came, and no bill", billed="yes"), EACH),
        (CandidateFault("raised", kind="raised ValueError"), EACH),
        (TimeoutError(), EACH),
        (patience_asked_for("busy", {"billed": "no"}), NOTHING),
        (patience_asked_for("busy", {"billed": "unknown", "after": 1.0}), EACH),
        (patience_asked_for("busy", {"billed": "yes"}), EACH),
    ],
)
async def test_calls_that_end_without_a_bill_count_unless_nothing_can_have_been_billed(
    error: Exception, lost: Amount, example: ExampleRun, database: Database
) -> None:
    run = await opened(example, Budget(cost=1.0))
    budget_lease = Shard(run, World(Random(6)), "shard", 1, None).budget_lease(MortalBudgets(run.database))
    async with budget_lease.open():
        reservation = await budget_lease.reservation()
        with contextlib.suppress(type(error)):
            async with metered(CallContext(meter=reservation), lambda: EACH):
                raise error
        reservation.close()
    account = await used(database, run.run_id)
    assert (account.lost.tokens, account.lost.cost) == (lost.tokens, lost.cost)
    assert account.lost.samples == bool(lost)


async def test_a_connection_that_was_never_made_costs_nothing(example: ExampleRun, database: Database) -> None:
    run = await opened(example, Budget(cost=1.0))
    budget_lease = Shard(run, World(Random(7)), "shard", 1, None).budget_lease(MortalBudgets(run.database))
    models = ChatModels(Gates(), patience=Patience(attempts=1))
    hello = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "parameters": {"max_tokens": 5}}
    async with budget_lease.open():
        reservation = await budget_lease.reservation()
        context = CallContext(meter=reservation)
        with contextlib.suppress(Unreachable):
            await models.ask(
                base_url="http://127.0.0.1:9/v1",
                stream=False,
                timeout=5,
                prices={},
                context=context,
                **hello,  # type: ignore[arg-type]
            )
        reservation.close()
    await models.close()
    assert (await used(database, run.run_id)).all == NOTHING


async def test_what_is_set_aside_and_what_is_refused_is_counted(example: ExampleRun, counted: Counted) -> None:
    run = await opened(example, Budget(samples=1))
    key = LeaseKey(run.run_id, "shard", 1, fresh_nonce())
    lease = BudgetLease(run.store.budgets, key, is_away, most_needed=2, meters=WorkerMeters(counted.meter))
    async with lease.open():
        first = await lease.reservation()
        first.answered(0, 0.0)
        first.close()
        with pytest.raises(BudgetExhausted):
            await lease.reservation()
    sums = counted.sums()
    assert (sums["ratchet_reservations", "granted"], sums["ratchet_reservations", "refused"]) == (1, 1)
    assert sums["ratchet_reservation_wait_seconds",] > 0


async def test_without_a_budget_nothing_is_metered() -> None:
    async with metered(CallContext(), lambda: pytest.fail("nobody asks what it takes")) as call:
        call.took(1, 1.0)
