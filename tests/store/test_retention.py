"""Texts, answers and runs go batch by batch; what is held stays; what is gone is as good as not there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from activities.cleanup import StoreCleanup
from activities.releases.override_stores import Overrides
from store.connection import Database
from store.read.reader import StoreReader
from store.read.sized_runs import SizedRuns
from store.write.proposals import ModelAnswer, ProposalOrigin
from store.write.repositories import Store
from store.write.retention.legal_holds import HeldRun, HoldRequest, LegalHolds
from store.write.retention.removals import Removals
from store.write.runs import Runs
from tests.support.store_examples import ExampleRun
from workflows.model.run.contract import Proposed
from workflows.model.suite import UnscoredAnswer
from workflows.rules.retention_policy import DueRemoval, Removed, parse_retention

LATER = datetime.now(UTC) + timedelta(days=40)
COUNSEL = HoldRequest("legal", "ann", "ann (uid 1) on desk", "case 7")


async def finished(example: ExampleRun) -> ExampleRun:
    """A run that is over, with ten answers."""
    run = await example.open()
    await run.store.trials.begin(run.trial())
    await run.answer_everything()
    await run.record(run.trial())
    await run.store.model_answers.keep(run.run_id, "request", ModelAnswer(1, 0, "Try this.", False, 5, 0.1, "m", ["Asked"]))
    origin = ProposalOrigin(asked_of="p", asked={"records": ["Asked"]})
    await run.store.proposals.store(run.run_id, 1, 0, Proposed(values={"prompt": "x"}), origin)
    await run.store.proposals.store_configurations(run.run_id, {"h": {"prompt": "y"}})
    await run.store.runs.finish(run.finish())
    return run


def due(run: ExampleRun, removed: Removed = "texts", policy: str = "texts=30d") -> DueRemoval:
    return DueRemoval(run.run_id, removed, policy, answers=10, bytes=1234)


async def test_texts_go_and_scores_verdicts_and_costs_stay(example: ExampleRun, reader: StoreReader) -> None:
    run = await finished(example)
    await run.execute('UPDATE runs SET first_look = \'{"shown": [{"answer": "secret"}], "warnings": ["all alike"]}\'')
    page = await reader.trials.items(run.run_id, "baseline")
    assert page is not None and page.items[0].output is not None
    before = [(item.scores, item.passed, item.tokens, item.status) for item in page.items]
    removals = Removals(run.database, at_once=3)

    assert await removals.carry_out(due(run))

    page = await reader.trials.items(run.run_id, "baseline")
    assert page is not None
    assert [(item.scores, item.passed, item.tokens, item.status) for item in page.items] == before
    assert all(item.texts_removed and item.output is None and item.feedback == "" for item in page.items)
    assert {item.score_details["exact"].get("reason", "gone") for item in page.items} == {"gone"}
    assert page.items[0].score_details["exact"]["passed"] is True
    assert await run.values("SELECT answer FROM model_answers") == [""]
    assert await run.values("SELECT asked FROM model_answers UNION ALL SELECT asked FROM proposals") == [None, None]
    assert await run.values("SELECT count(*) FROM proposed_configurations") == [0]
    stored = await reader.runs.load(run.run_id)
    assert stored is not None and stored.first_look is not None
    assert (stored.first_look.shown, stored.first_look.warnings) == ((), ("all alike",))
    [removal] = stored.removals
    assert (removal.kind, removal.policy, removal.complete) == ("texts", "texts=30d", True)
    assert (removal.answers, removal.bytes) == (10, 1234)


async def test_a_removal_that_is_cut_off_goes_on_and_counts_nothing_twice(example: ExampleRun, reader: StoreReader) -> None:
    run = await finished(example)
    removals = Removals(run.database, at_once=4)
    turns = iter([True, False])
    assert not await removals.carry_out(due(run), lambda: next(turns))
    assert await run.values("SELECT count(*) FROM answers WHERE texts_removed") == [4]
    stored = await reader.runs.load(run.run_id)
    assert stored is not None and [(one.complete, one.answers) for one in stored.removals] == [(False, 4)]

    assert await removals.carry_out(due(run))
    stored = await reader.runs.load(run.run_id)
    assert stored is not None and [(one.complete, one.answers) for one in stored.removals] == [(True, 10)]


async def test_answers_go_with_their_scores_and_then_the_run(example: ExampleRun, reader: StoreReader) -> None:
    run = await finished(example)
    removals = Removals(run.database, at_once=3)
    assert await removals.carry_out(due(run, "answers", "answers=9d"))
    assert await run.values("SELECT (SELECT count(*) FROM answers) + (SELECT count(*) FROM scores)") == [0]
    report = await reader.runs.report(run.run_id)
    assert report is not None and report.trials[0].sample_means is not None

    assert await removals.carry_out(due(run, "runs", "runs=99d"))
    assert await reader.runs.load(run.run_id) is None
    told = await SizedRuns(run.database).removed()
    assert [(one.run_id, one.kind, one.answers, one.complete) for one in told] == [
        (run.run_id, "runs", 0, True),
        (run.run_id, "answers", 10, True),
    ]


async def test_a_held_run_loses_nothing_by_no_policy_and_by_nobody(example: ExampleRun, reader: StoreReader) -> None:
    run = await finished(example)
    holds = LegalHolds(run.database)
    hold = await holds.set(run.run_id, COUNSEL)
    again = await holds.set(run.run_id, HoldRequest("legal", "bob", "bob (uid 2) on desk"))
    assert again == hold and (hold.set_by, hold.through, hold.reason) == ("ann", "ann (uid 1) on desk", "case 7")

    assert not await Removals(run.database).carry_out(due(run))
    assert await run.values("SELECT count(*) FROM removals") == [0]
    with pytest.raises(HeldRun, match="held for 'legal' by ann since"):
        await Runs(run.database).delete(run.run_id)
    with pytest.raises(HeldRun, match="removed or overwritten"):
        await run.open(execution_id="execution-2")
    [sized] = await SizedRuns(run.database).load()
    assert "held for 'legal' by ann" in sized.kept
    stored = await reader.runs.load(run.run_id)
    assert stored is not None and [one.label for one in stored.legal_holds] == ["legal"]

    assert not await holds.lift(run.run_id, "audit", "ann")
    assert await holds.lift(run.run_id, "legal", "ann")
    assert await Removals(run.database).carry_out(due(run))
    assert await run.values("SELECT lifted_by FROM legal_holds") == ["ann"], "what was held, and by whom, stays on record"


async def test_a_hold_that_comes_half_way_keeps_what_is_left(example: ExampleRun) -> None:
    run = await finished(example)
    removals = Removals(run.database, at_once=4)
    turns = iter([True, False])
    await removals.carry_out(due(run), lambda: next(turns))
    await LegalHolds(run.database).set(run.run_id, COUNSEL)
    assert not await removals.carry_out(due(run))
    assert await run.values("SELECT count(*) FROM answers WHERE output IS NOT NULL") == [6]


async def test_an_open_run_loses_nothing(example: ExampleRun) -> None:
    run = await example.open()
    await run.answer_everything()
    assert not await Removals(run.database).carry_out(due(run))
    assert await run.values("SELECT count(*) FROM answers WHERE texts_removed") == [0]


async def test_nobody_takes_over_answers_that_have_lost_their_texts(
    example: ExampleRun, store: Store, database: Database, reader: StoreReader
) -> None:
    first = await finished(example)
    second = await ExampleRun(store, database, run_id="triage-2").open(reuse="always")
    await second.store.trials.begin(second.trial())
    assert (await store.outcomes.missing(second.shard())).found == 10
    await Removals(database).carry_out(due(first))
    third = await ExampleRun(store, database, run_id="triage-3").open(retry_of=first.run_id)
    await third.store.trials.begin(third.trial())
    for name, missed in (("triage-2", 0), ("triage-3", 1)):
        stored = await reader.runs.load(name)
        assert stored is not None and stored.sources_removed == missed
    work = await store.outcomes.missing(third.shard())
    assert (work.found, len(work.pairs), [pair.kept for pair in work.pairs]) == (0, 10, [None] * 10)


async def test_a_run_started_anew_keeps_what_is_scored_and_asks_for_what_nobody_can_score(example: ExampleRun) -> None:
    run = await example.open()
    await run.store.trials.begin(run.trial())
    shard = run.shard()
    pairs = (await run.store.outcomes.missing(shard)).pairs
    unscored = [
        UnscoredAnswer(pair.answer_id, pair.item_hash, pair.replicate, "late", 1, 0.1, 1.0, None, None) for pair in pairs[8:]
    ]
    outcomes = [run.outcome(pair.position, pair.replicate) for pair in pairs[:8]]
    await run.store.outcomes.commit(shard, run.suite, outcomes, kept=unscored)
    await run.store.model_answers.keep(run.run_id, "request", ModelAnswer(1, 0, "Try this.", False, 5, 0.1))
    await run.store.runs.finish(run.finish())
    await Removals(run.database).carry_out(due(run))

    await run.open(execution_id="execution-2")
    work = await run.store.outcomes.missing(run.shard())
    assert (work.found, [pair.kept for pair in work.pairs]) == (8, [None, None])
    assert await run.store.model_answers.load(run.run_id, "request") is None
    await run.store.outcomes.commit(run.shard(), run.suite, [run.outcome(pair.position, pair.replicate) for pair in work.pairs])
    assert (await run.store.outcomes.missing(run.shard())).found == 10


@pytest.fixture
async def overrides(database_url: str) -> AsyncIterator[Overrides]:
    found = Overrides("postgres", database_url)
    yield found
    await found.close()


async def test_the_cleanup_carries_out_what_a_dry_run_shows(
    example: ExampleRun, store: Store, database: Database, overrides: Overrides
) -> None:
    run = await finished(example)
    kept = await finished(ExampleRun(store, database, run_id="triage-2"))
    await LegalHolds(database).set(kept.run_id, COUNSEL)
    dry = {one.run_id: one for one in await SizedRuns(database).load()}
    assert await run.values("SELECT count(*) FROM run_sizes") == [0], "a dry run writes nothing"

    def cleanup(policy: str) -> StoreCleanup:
        return StoreCleanup(database, overrides, retention=parse_retention(policy))

    assert await Removals(database).sized_runs(lambda: False) is None
    assert await StoreCleanup(database, overrides).carry_out_retention(LATER) == {}
    assert await cleanup("texts=60d").carry_out_retention(LATER) == {}
    assert {one.run_id: one for one in await Removals(database).sized_runs() or ()} == dry
    assert dry[run.run_id].text_bytes > 10 * len("answer 0") and dry[run.run_id].answers == 10
    assert await cleanup("texts=30d").carry_out_retention(LATER) == {"texts": 1}
    assert await cleanup("texts=30d").carry_out_retention(LATER) == {}
    assert await cleanup("texts=30d,answers=31d").carry_out_retention(LATER, lambda: False) == {"left": 1}
    assert await cleanup("texts=30d,answers=31d").carry_out_retention(LATER) == {"answers": 1}
    assert await cleanup("runs=31d").carry_out_retention(LATER) == {"runs": 1}
    assert await run.values("SELECT run_id FROM runs") == [kept.run_id]
    assert await run.values("SELECT count(*) FROM answers WHERE output IS NOT NULL") == [10]


async def test_what_an_open_run_takes_its_answers_from_stays(example: ExampleRun, store: Store, database: Database) -> None:
    run = await finished(example)
    user = await ExampleRun(store, database, run_id="triage-2").open(retry_of=run.run_id)
    for source in ("retry_of", "rescore_of"):
        await user.execute(f"UPDATE suites SET body = body || '{{\"{source}\": \"{run.run_id}\"}}' WHERE run_id = 'triage-2'")
        [sized] = await SizedRuns(database).load()
        assert sized.kept == "triage-2 is open and uses its answers"
        await user.execute("UPDATE suites SET body = body - '{retry_of,rescore_of}'::text[] WHERE run_id = 'triage-2'")
    [sized] = await SizedRuns(database).load()
    assert sized.kept == ""
