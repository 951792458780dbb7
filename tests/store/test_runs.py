"""Runs: opened once, written round by round, finished once, started anew only by another execution."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ratchet.optimizer import StopReason
from store.read.reader import StoreReader
from store.write.proposals import ModelAnswer
from tests.support.store_examples import NOON, ExampleRun
from workflows.model.run.candidates import ReasonCode, Rejection
from workflows.model.run.contract import CommitRounds, Proposed
from workflows.model.run.rounds import Counts, Spend
from workflows.model.spec.limits import AdjustedLimits
from workflows.model.trial import Conclusion


def rejection(round_index: int = 1, proposed_index: int = 0) -> Rejection:
    return Rejection(
        round=round_index,
        proposed_index=proposed_index,
        reason_code=ReasonCode.DUPLICATE,
        message="known \x00",
        config_hash="ab",
    )


async def types(reader: StoreReader, run: ExampleRun) -> list[str]:
    return [event.type for event in await reader.events.after(run.run_id)]


async def test_a_prepared_run_is_there_with_its_spec(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open(experiment="monday", seed=7)
    stored = await reader.runs.load(run.run_id)

    assert stored is not None
    assert (stored.name, stored.use_case, stored.experiment, stored.status) == ("triage", "triage", "monday", "initialized")
    assert (stored.optimizer, stored.objective, stored.direction) == ("refine", "exact", "maximize")
    assert (stored.dataset_count, stored.search_split, stored.versions) == (5, "all", {"ratchet": "0.1.0"})
    assert stored.spec["seed"] == 7 and stored.spec["configuration"]["prompt"]["value"] == "Sort it."
    assert await run.store.suites.load(run.run_id, run.suite.split) == run.suite


async def test_opening_it_again_from_the_same_execution_changes_nothing(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    await run.store.trials.begin(run.trial())
    await run.record(run.trial())
    await run.store.served_times.mark(["optimization", "optimization-evaluation"])  # until then, time passes unserved
    before = await reader.runs.report(run.run_id)

    await asyncio.gather(*(run.open() for _ in range(4)))

    assert await reader.runs.report(run.run_id) == before


async def test_another_execution_starts_afresh_and_pays_for_nothing_twice(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    await run.store.trials.begin(run.trial())
    await run.answer_everything()
    await run.record(run.trial())
    await run.store.runs.commit_rounds(
        CommitRounds(run_id=run.run_id, records=(run.round(0), run.round(1, rejections=(rejection(),))))
    )
    await run.store.runs.finish(run.finish("cancelled"))

    await run.open(execution_id="execution-2")

    report = await reader.runs.report(run.run_id)
    assert report is not None
    assert (report.run.status, report.run.life, report.run.spend, report.run.finished_at) == ("initialized", 2, Spend(), None)
    assert (report.rounds, report.trials, report.rejections) == ((), (), ())
    assert (await run.store.outcomes.missing(run.shard())).pairs == []
    await run.store.trials.begin(run.trial())
    await run.record(run.trial())
    assert (await types(reader, run))[-4:] == [
        "run_status_changed",
        "run_status_changed",
        "trial_added_or_updated",
        "trial_added_or_updated",
    ]


async def test_a_decided_round_is_stored_once_with_its_rejections_and_events(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    record = run.round(
        1,
        candidate_ids=("better",),
        rejections=(rejection(1, 1), rejection(1, 2)),
        best_score=0.75,
        best_candidate_id="better",
        best_so_far=0.75,
        best_so_far_id="better",
        new_best=True,
        counts=Counts(proposed=3, completed=1, rejected=2),
        spend=Spend(samples=10, trials=1, tokens=100, cost=0.5),
        extra={"pareto_front": ["better"]},
    )
    entry = CommitRounds(run_id=run.run_id, records=(record,))
    for _ in range(3):
        await run.store.runs.commit_rounds(entry)

    report = await reader.runs.report(run.run_id)
    assert report is not None
    assert [(row.round, row.best_so_far, row.extra) for row in report.rounds] == [(1, 0.75, {"pareto_front": ["better"]})]
    assert [(row.proposed_index, row.reason_code, row.message) for row in report.rejections] == [
        (1, "duplicate", "known ␀"),
        (2, "duplicate", "known ␀"),
    ]
    assert (report.run.best_candidate_id, report.run.best_score, report.run.round) == ("better", 0.75, 1)
    assert (report.run.counts.proposed, report.run.counts.rejected, report.run.spend.cost) == (3, 2, 0.5)
    assert await types(reader, run) == [
        "run_status_changed",
        "best_candidate_changed",
        "progress_changed",
        "run_status_changed",
    ]


async def test_pausing_and_resuming_is_told_each_time_and_only_once(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    for status in ("running", "paused", "paused", "running", "running", "paused"):
        await run.store.runs.commit_rounds(CommitRounds(run_id=run.run_id, records=(), status=status))
    told = [event.payload["status"] for event in await reader.events.after(run.run_id)]
    assert told == ["initialized", "running", "paused", "running", "paused"]


async def test_adjusted_limits_are_what_shards_ask_for(example: ExampleRun) -> None:
    run = await example.open()
    assert await run.store.runs.adjusted_limits(run.run_id) == AdjustedLimits()
    await run.store.runs.commit_rounds(CommitRounds(run_id=run.run_id, records=(), limits={"concurrent_samples": 8}))
    await run.store.runs.commit_rounds(CommitRounds(run_id=run.run_id, records=(), limits={"concurrent_trials": 2}))
    assert await run.store.runs.adjusted_limits(run.run_id) == AdjustedLimits(concurrent_samples=8)
    assert await run.store.runs.adjusted_limits("unknown") == AdjustedLimits()


async def test_counts_never_shrink_when_an_older_round_arrives_late(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    newer = run.round(2, counts=Counts(proposed=4, completed=4), spend=Spend(tokens=400))
    older = run.round(1, counts=Counts(proposed=2, completed=2), spend=Spend(tokens=200))
    for record in (newer, older):
        await run.store.runs.commit_rounds(CommitRounds(run_id=run.run_id, records=(record,)))
    stored = await reader.runs.load(run.run_id)
    assert stored is not None
    assert (stored.round, stored.counts.proposed, stored.spend.tokens) == (2, 4, 400)


async def test_an_older_round_that_arrives_late_even_after_the_end_changes_no_best(
    example: ExampleRun, reader: StoreReader
) -> None:
    run = await example.open()
    older = run.round(1, best_so_far=0.5, best_so_far_id="first")
    newer = run.round(2, best_so_far=0.75, best_so_far_id="second")
    for record in (newer, older):
        await run.store.runs.commit_rounds(CommitRounds(run_id=run.run_id, records=(record,)))
    stored = await reader.runs.load(run.run_id)
    assert stored is not None
    assert (stored.best_candidate_id, stored.best_score) == ("second", 0.75)

    await run.store.runs.finish(run.finish(best_score=0.25, best_candidate_id="baseline", rounds=2))  # nothing better held
    for record in (older, newer):
        await run.store.runs.commit_rounds(CommitRounds(run_id=run.run_id, records=(record,)))
    ended = await reader.runs.load(run.run_id)
    assert ended is not None
    assert (ended.best_candidate_id, ended.best_score) == ("baseline", 0.25)


async def test_the_last_round_may_come_twice_and_ends_with_the_reason(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    first = run.round(0, new_best=True, best_so_far=0.5, best_so_far_id="baseline")
    last = first.model_copy(
        update={"stopped": True, "stop_reason": StopReason.MAX_ROUNDS, "new_best": False, "status": "completed"}
    )
    finish = run.finish(best_score=0.5, best_candidate_id="baseline", rounds=0, finished_at=NOON)
    for _ in range(2):
        await run.store.runs.finish(finish.model_copy(update={"records": (first, last)}))

    report = await reader.runs.report(run.run_id)
    assert report is not None
    assert [(row.stopped, row.stop_reason) for row in report.rounds] == [(True, "max_rounds")]
    assert (report.run.status, report.run.stop_reason, report.run.finished_at) == ("completed", "max_rounds", NOON)
    assert report.run.result == finish.result
    assert await types(reader, run) == [
        "run_status_changed",
        "best_candidate_changed",
        "progress_changed",
        "run_status_changed",
        "run_finished",
    ]


async def test_a_late_ledger_does_not_bring_a_finished_run_back_to_life(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    await run.store.runs.commit_rounds(CommitRounds(run_id=run.run_id, records=(run.round(0), run.round(1))))
    await run.store.runs.finish(run.finish())
    await run.store.runs.commit_rounds(CommitRounds(run_id=run.run_id, records=(run.round(1),), status="running"))

    report = await reader.runs.report(run.run_id)
    assert report is not None
    assert report.run.status == "completed"
    assert [row.stopped for row in report.rounds] == [False, True]


async def test_a_trial_that_the_run_left_behind_does_not_run_for_ever(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    await run.store.trials.begin(run.trial())
    await run.store.runs.finish(run.finish("cancelled"))
    trial = await reader.trials.load(run.run_id, "baseline")
    assert trial is not None and (trial.status, trial.error) == ("cancelled", "the run ended before this trial did")


async def test_what_such_a_trial_was_paid_for_counts_and_what_it_says_later_counts_as_the_difference(
    example: ExampleRun, reader: StoreReader
) -> None:
    run = await example.open()
    trial = run.trial()
    await run.store.trials.begin(trial)
    shard = run.shard(trial)
    await run.store.outcomes.commit(shard, run.suite, [run.outcome(position) for position in range(3)])
    await run.store.runs.finish(run.finish("cancelled"))

    async def told() -> list[tuple[Any, ...]]:
        async with run.database.connection() as connection:
            return [
                tuple(*await connection.fetch(f"SELECT {columns} FROM {table} WHERE run_id = $1", run.run_id))
                for table, columns in (
                    ("trials", "paid_samples, paid_tokens, paid_cost"),
                    ("runs", "paid_samples, paid_tokens, paid_cost"),
                    ("budgets", "spent_samples, spent_tokens, spent_cost"),
                )
            ]

    before = run.finish("cancelled").result.spend
    of_run = (before.samples + 3, before.tokens + 30, pytest.approx(before.cost + 0.003))
    assert await told() == [(3, 30, pytest.approx(0.003)), of_run, (3, 30, pytest.approx(0.003))]
    late = run.result(trial, None, status="cancelled", paid_samples=4, paid_tokens=40, paid_cost=0.004)
    await run.store.trials.record(late, Conclusion(trial=trial, ended="cancelled"), [None] * run.samples)
    of_run = (before.samples + 4, before.tokens + 40, pytest.approx(before.cost + 0.004))
    assert await told() == [(4, 40, pytest.approx(0.004)), of_run, (4, 40, pytest.approx(0.004))]


async def test_a_models_answer_is_paid_for_once(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    first = ModelAnswer(round=1, index=0, text="Sort \x00 it.", cut_off=False, tokens=50, cost=0.25)
    assert await run.store.model_answers.load(run.run_id, "a" * 64) is None

    kept = await run.store.model_answers.keep(run.run_id, "a" * 64, first)
    again = await run.store.model_answers.keep(run.run_id, "a" * 64, replace(first, text="other", tokens=70))

    assert kept == again == await run.store.model_answers.load(run.run_id, "a" * 64)
    assert kept.text == "Sort ␀ it."
    stored = await reader.runs.load(run.run_id)
    assert stored is not None and (stored.spend.tokens, stored.spend.cost) == (50, 0.25)


async def test_a_proposal_is_made_once(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    first = Proposed(values={"prompt": "Sort \x00 it.", "n": 1e22}, rationale="shorter", tokens=50, cost=0.25)
    assert await run.store.proposals.load(run.run_id, 1, 0) is None

    kept = await run.store.proposals.store(run.run_id, 1, 0, first)
    again = await run.store.proposals.store(run.run_id, 1, 0, Proposed(values={"prompt": "other"}, tokens=70, cost=9.0))

    assert kept == again == await run.store.proposals.load(run.run_id, 1, 0)
    assert kept.values == {"prompt": "Sort ␀ it.", "n": 1e22}


async def test_all_of_a_run_can_be_written_at_once_without_deadlock(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    trials = [run.trial(run.candidate(f"c{n}", index=n)) for n in range(10)]
    work: list[Any] = []
    for n, trial in enumerate(trials):
        work += [run.store.trials.begin(trial), run.record(trial, 0.5), run.answer_everything()]
        work += [run.store.runs.commit_rounds(CommitRounds(run_id=run.run_id, records=(run.round(n),))), run.open()]
        work += [
            run.store.proposals.store(run.run_id, n, 0, Proposed(values={}, tokens=1)),
            run.store.runs.finish(run.finish()),
        ]
    await asyncio.gather(*work)
    stored = await reader.runs.load(run.run_id)
    assert stored is not None and stored.status == "completed"


async def test_a_trial_that_begins_after_its_run_has_ended_does_not_run_for_ever(
    example: ExampleRun, reader: StoreReader
) -> None:
    """A run is cancelled while a trial writes that it begins: the one is stored before the other."""
    run = await example.open()
    await run.store.runs.finish(run.finish("cancelled"))
    before = await types(reader, run)

    await run.store.trials.begin(run.trial())

    report = await reader.runs.report(run.run_id)
    assert report is not None
    assert (report.run.status, report.run.counts.running, report.trials) == ("cancelled", 0, ())
    assert await types(reader, run) == before
