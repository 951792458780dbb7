"""Trials: begun once, ended once, whatever is retried, and in whatever order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.events import RunUnknown
from store.read.reader import StoreReader
from store.schema import StoreError
from tests.support.store_examples import ExampleRun
from workflows.model.run.contract import HistoryPage
from workflows.model.trial import Conclusion


async def rows(run: ExampleRun, query: str) -> list[tuple[Any, ...]]:
    async with run.database.connection() as connection:
        return [tuple(row) for row in await connection.fetch(query)]


EVERYTHING = (
    "SELECT (to_jsonb(r) - 'updated_at')::text FROM runs r"
    " UNION ALL SELECT t::text FROM trials t UNION ALL SELECT c::text FROM candidates c UNION ALL SELECT e::text FROM events e"
    " UNION ALL SELECT o::text FROM rounds o UNION ALL SELECT x::text FROM rejections x"
)


async def test_beginning_a_trial_stores_overlay_candidate_row_and_event(example: ExampleRun) -> None:
    run = await example.open()
    candidate = run.candidate("better", parent_candidate_ids=("baseline",), rationale="shorter", extra={"origin": "me"})
    await run.store.trials.begin(run.trial(candidate))

    assert await run.store.overlays.load(candidate.config_hash) == candidate.configuration
    assert await run.store.search_history.candidate(run.run_id, "better") == candidate
    assert await rows(run, "SELECT candidate_id, status, split, samples FROM trials") == [("better", "running", "all", 5)]
    assert await rows(run, "SELECT status FROM runs") == [("running",)]
    assert await rows(run, "SELECT type, payload ->> 'status' FROM events ORDER BY id") == [
        ("run_status_changed", "initialized"),
        ("run_status_changed", "running"),
        ("trial_added_or_updated", "running"),
    ]


async def test_beginning_it_again_changes_nothing(example: ExampleRun) -> None:
    run = await example.open()
    trial = run.trial(records=(run.round(0, new_best=True, best_so_far=0.5, best_so_far_id="baseline"),))
    await run.store.trials.begin(trial)
    before = await rows(run, EVERYTHING)
    await asyncio.gather(*(run.store.trials.begin(trial) for _ in range(5)))
    assert await rows(run, EVERYTHING) == before


async def test_recording_the_same_end_again_changes_nothing(example: ExampleRun) -> None:
    run = await example.open()
    trial = run.trial()
    await run.store.trials.begin(trial)
    await run.record(trial, 0.5)
    before = await rows(run, EVERYTHING)

    await run.record(trial, 0.5, duration_ms=99_999)
    await asyncio.gather(*(run.record(trial, 0.5) for _ in range(5)))

    assert await rows(run, EVERYTHING) == before


async def test_a_trial_that_begins_as_its_run_ends_leaves_the_counts_of_the_run_alone(example: ExampleRun) -> None:
    run = await example.open()
    await run.store.runs.finish(run.finish("cancelled"))
    ended = await rows(run, "SELECT completed, failed, stopped, paid_trials FROM runs")
    await run.store.trials.begin(run.trial())
    await run.record(run.trial(), None, status="cancelled", paid_samples=2)

    assert await rows(run, "SELECT completed, failed, stopped, paid_trials FROM runs") == ended
    assert await rows(run, "SELECT paid_samples FROM runs") == [(2,)]  # what was paid is told all the same


async def test_a_finished_trial_never_runs_again(example: ExampleRun) -> None:
    run = await example.open()
    await run.store.trials.begin(run.trial())
    await run.record(run.trial(), 0.5)
    await run.store.trials.begin(run.trial())

    assert await rows(run, "SELECT status, score FROM trials") == [("completed", 0.5)]
    statuses = await rows(run, "SELECT payload ->> 'status' FROM events WHERE type = 'trial_added_or_updated' ORDER BY id")
    assert statuses == [("running",), ("completed",)]


async def test_a_trial_that_ends_differently_after_a_reset_is_counted_once(example: ExampleRun) -> None:
    run = await example.open()
    await run.store.trials.begin(run.trial())
    await run.record(run.trial(), None, status="failed", failure="execution", error="boom", paid_samples=3, paid_cost=0.5)
    await run.record(run.trial(), 0.75, paid_samples=10, paid_cost=2.0)

    assert await rows(run, "SELECT completed, failed, paid_trials, paid_samples, paid_cost FROM runs") == [(1, 0, 1, 10, 2.0)]
    assert await rows(run, "SELECT status, score, error FROM trials") == [("completed", 0.75, None)]


async def test_an_end_without_a_beginning_is_kept_all_the_same(example: ExampleRun) -> None:
    run = await example.open()
    await run.record(run.trial(), 0.5)
    assert await rows(run, "SELECT status, score FROM trials") == [("completed", 0.5)]
    statuses = await rows(run, "SELECT payload ->> 'status' FROM events WHERE type = 'trial_added_or_updated' ORDER BY id")
    assert statuses == [("running",), ("completed",)]


async def test_the_runs_totals_add_up_over_concurrent_trials(example: ExampleRun) -> None:
    run = await example.open()
    endings: list[dict[str, Any]] = [
        {"score": 0.5},
        {"score": None, "status": "failed"},
        {"score": None, "status": "cancelled"},
        {"score": None, "status": "timeout"},
    ]
    trials = [run.trial(run.candidate(f"c{n}", index=n)) for n in range(12)]
    await asyncio.gather(*(run.store.trials.begin(trial) for trial in trials))
    await asyncio.gather(*(run.record(trial, **endings[n % 4]) for n, trial in enumerate(trials)))

    assert await rows(run, "SELECT completed, failed, stopped, paid_trials, paid_samples, paid_tokens FROM runs") == [
        (3, 3, 6, 12, 120, 1200)
    ]


async def test_a_confirmation_is_a_trial_of_its_own_and_no_candidate_more(example: ExampleRun) -> None:
    run = await example.open(dataset={"items": [{"input": n} for n in range(10)], "splits": {"validation": 0.5, "test": 0.5}})
    confirmation = await run.confirming()
    for trial, score in ((run.trial(), 0.5), (confirmation, 0.25)):
        await run.store.trials.begin(trial)
        await run.record(trial, score)

    assert await rows(run, "SELECT purpose, score FROM trials ORDER BY purpose") == [("baseline", 0.5), ("confirmation", 0.25)]
    assert await rows(run, "SELECT completed, paid_trials, baseline_score FROM runs") == [(1, 2, 0.5)]


async def test_a_trial_keeps_what_each_sample_was_worth_with_gaps(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    await run.store.trials.begin(run.trial())
    await run.store.trials.record(run.result(run.trial()), Conclusion(trial=run.trial()), [1.0, None, 0.5, None, 0.1 + 0.2])

    trial = await reader.trials.load(run.run_id, "baseline")
    assert trial is not None and trial.sample_means == (1.0, None, 0.5, None, 0.1 + 0.2)


async def test_history_has_finished_trials_in_the_order_of_their_proposals_a_page_at_a_time(example: ExampleRun) -> None:
    run = await example.open()
    trials = [run.trial(run.candidate(f"c{r}{i}", round=r, index=i)) for r, i in [(2, 1), (1, 1), (2, 0), (1, 0), (3, 0)]]
    await asyncio.gather(*(run.store.trials.begin(trial) for trial in trials))
    for trial in trials[:-1]:
        await run.record(trial, 0.5)

    whole = await run.store.search_history.page(HistoryPage(run_id=run.run_id))
    pages = [await run.store.search_history.page(HistoryPage(run_id=run.run_id, after=after, limit=3)) for after in (0, 3)]

    assert [row.facts.candidate_id for row in whole] == ["c10", "c11", "c20", "c21"]
    assert (*pages[0], *pages[1]) == whole
    assert whole[0].facts.score == 0.5 and whole[0].facts.status == "completed"


async def test_free_text_of_a_trial_may_hold_anything(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    trial = run.trial(run.candidate("baseline", rationale="nul \x00 and half \ud800"))
    await run.store.trials.begin(trial)
    await run.record(trial, None, status="failed", error="\x00\udfff", failure="execution")
    stored = await reader.trials.load(run.run_id, "baseline")
    assert stored is not None and (stored.rationale, stored.error) == ("nul ␀ and half \ufffd", "␀\ufffd")


async def test_a_configuration_must_have_the_hash_it_names(example: ExampleRun) -> None:
    run = await example.open()
    with pytest.raises(StoreError, match="does not have the hash"):
        await run.store.trials.begin(run.trial(run.candidate("forged", config_hash="0" * 64)))
    assert await rows(run, "SELECT count(*) FROM trials") == [(0,)]


async def test_a_trial_of_a_run_that_is_not_there_is_refused(example: ExampleRun) -> None:
    run = await example.open()
    async with run.database.connection() as connection:
        await connection.execute("DELETE FROM runs")
    with pytest.raises(RunUnknown, match="'triage-1' is not in the store"):
        await run.store.trials.begin(run.trial())
    with pytest.raises(RunUnknown):
        await run.record(run.trial())
