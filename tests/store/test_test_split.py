"""The test split is read once: for the baseline and one winner of a run with all its retries; others are counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from store.schema import StoreError
from tests.support.store_examples import ExampleRun
from workflows.model.run.test_split import OpenedTestSplit, OpenTestSplit
from workflows.model.trial import Purpose

ITEMS = [{"input": {"n": n}, "expected": n} for n in range(20)]
HELD_BACK = {"items": ITEMS, "splits": {"validation": 0.5, "test": 0.5}}


async def opened(example: ExampleRun, run_id: str, *, dataset: dict[str, Any] = HELD_BACK, **changes: Any) -> ExampleRun:
    return await replace(example, run_id=run_id).open(dataset=dataset, **changes)


async def reads(run: ExampleRun, *configurations: str) -> OpenedTestSplit:
    return await run.store.held_back_splits.open(OpenTestSplit(run_id=run.run_id, config_hashes=configurations))


async def test_the_baseline_and_one_winner_are_measured_on_it_however_often_that_is_asked(example: ExampleRun) -> None:
    run = await opened(example, "one")
    assert await reads(run, "baseline", "winner") == OpenedTestSplit()
    assert await reads(run, "baseline", "winner") == OpenedTestSplit()
    assert await reads(run, "baseline") == OpenedTestSplit()


async def test_a_second_winner_is_refused_by_whom_the_split_was_read(example: ExampleRun) -> None:
    run = await opened(example, "one")
    await reads(run, "baseline", "winner")
    refused = (await reads(run, "baseline", "another")).refused
    assert refused is not None
    assert "another winner already, by one" in refused
    assert "other samples held back" in refused


async def test_a_run_that_kept_its_baseline_may_still_confirm_a_winner(example: ExampleRun) -> None:
    run = await opened(example, "one")
    await reads(run, "baseline")
    assert (await reads(run, "baseline", "winner")).refused is None


async def test_a_retry_reads_with_the_eyes_of_the_run_that_it_retries(example: ExampleRun) -> None:
    await reads(await opened(example, "one"), "baseline", "winner")
    retry = await opened(example, "two", retry_of="one")
    assert await reads(retry, "baseline", "winner") == OpenedTestSplit()
    again = await opened(example, "three", retry_of="two")
    assert (await reads(again, "baseline", "another")).refused is not None


async def test_other_runs_over_the_same_samples_are_counted_even_when_they_were_deleted(example: ExampleRun) -> None:
    first = await opened(example, "one")
    await reads(first, "baseline", "winner")
    await reads(await opened(example, "two", retry_of="one"), "baseline", "winner")
    async with first.database.transaction() as connection:
        await connection.execute("DELETE FROM runs WHERE run_id = 'two'")
    assert (await reads(await opened(example, "three"), "baseline", "another")).readers == 1
    assert (await reads(await opened(example, "four"), "baseline")).readers == 2


async def test_samples_that_other_runs_searched_on_are_no_longer_untouched(example: ExampleRun) -> None:
    run = await opened(example, "one")
    assert (await reads(run, "baseline")).searched == 0
    await opened(example, "two", seed=0)  # the same split: it holds back the same samples
    assert (await reads(run, "baseline")).searched == 0
    await opened(example, "three", dataset={"items": ITEMS})
    assert (await reads(run, "baseline")).searched == 10


async def test_another_split_is_another_matter(example: ExampleRun) -> None:
    await reads(await opened(example, "one"), "baseline", "winner")
    assert (await reads(await opened(example, "two", seed=7), "baseline", "another")).readers == 0


async def test_a_trial_on_held_back_samples_that_nobody_opened_does_not_begin(example: ExampleRun) -> None:
    run = await opened(example, "one")
    trial = run.trial(purpose=Purpose.CONFIRMATION, split="test", samples=10)
    with pytest.raises(StoreError, match="'one' was not opened for candidate 'baseline'"):
        await run.store.trials.begin(trial)
    await reads(run, trial.candidate.config_hash)
    await run.store.trials.begin(trial)


async def test_a_run_without_held_back_samples_has_nothing_to_open(example: ExampleRun) -> None:
    run = await opened(example, "one", dataset={"items": ITEMS})
    with pytest.raises(StoreError, match="no test split"):
        await reads(run, "baseline")


async def test_training_samples_have_a_suite_of_their_own_when_others_are_scored_on(example: ExampleRun) -> None:
    run = await opened(example, "one", dataset={"items": ITEMS, "splits": {"train": 0.25, "validation": 0.5, "test": 0.25}})
    async with run.database.connection() as connection:
        suites = await connection.fetch("SELECT split, samples FROM suites ORDER BY split")
        drawn = await connection.fetch("SELECT item_hash FROM suite_samples")
        held_back = await connection.fetchval("SELECT confirmation_calls FROM budgets")
    assert [tuple(row) for row in suites] == [("test", 5), ("train", 5), ("validation", 10)]
    assert len({row["item_hash"] for row in drawn}) == 20
    assert held_back == 2 * 5 * run.replicates
