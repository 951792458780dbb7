"""What searches read of the store: a bounded part of the trials, all hashes, and training samples in their order."""

from __future__ import annotations

from typing import Any

import pytest

from store.read.search_history import Searched
from tests.support.store_examples import ExampleRun
from workflows.model.activities.computation import Bounded
from workflows.model.spec.judgement import Evidence
from workflows.model.trial import Purpose, Split

SCORES = {"a": 0.1, "b": 0.9, "c": 0.3, "d": None, "e": 0.2, "f": 0.4}


async def _measured(example: ExampleRun, **changes: Any) -> ExampleRun:
    run = await example.open(**changes)
    baseline = run.trial(purpose=Purpose.BASELINE)
    await run.store.trials.begin(baseline)
    await run.record(baseline, 0.0)
    for place, (name, score) in enumerate(SCORES.items(), start=1):
        trial = run.trial(run.candidate(name, round=place))
        await run.store.trials.begin(trial)
        await run.record(trial, score, **({"status": "failed"} if score is None else {}))
    return run


def _names(found: Searched) -> list[str]:
    return [trial.candidate_id for trial in found.trials]


async def test_the_baseline_the_best_and_the_newest_are_read_in_order_with_all_hashes(example: ExampleRun) -> None:
    run = await _measured(example)
    found = await run.store.search_history.searched(run.run_id, Bounded(best=1, newest=2))
    assert _names(found) == ["baseline", "b", "e", "f"]
    assert len(set(found.config_hashes)) == len(found.config_hashes) == 7
    assert [trial.score for trial in found.trials] == [0.0, 0.9, 0.2, 0.4]
    assert found.trials[1].configuration["prompt"] == "Sort it, b."


async def test_named_candidates_are_read_in_any_case_and_failed_ones_as_failed(example: ExampleRun) -> None:
    run = await _measured(example)
    found = await run.store.search_history.searched(run.run_id, Bounded(best=0, newest=0, candidates=("d",)))
    assert [(trial.candidate_id, trial.status, trial.score) for trial in found.trials][1:] == [("d", "failed", None)]


async def test_the_best_is_the_lowest_where_less_is_better(example: ExampleRun) -> None:
    run = await _measured(example, objective={"direction": "minimize"})
    assert _names(await run.store.search_history.searched(run.run_id, Bounded(best=2, newest=0))) == ["baseline", "a"]


async def test_a_trial_that_runs_is_no_experience_but_it_is_known(example: ExampleRun) -> None:
    run = await _measured(example)
    await run.store.trials.begin(run.trial(run.candidate("g", round=7)))
    found = await run.store.search_history.searched(run.run_id, Bounded(best=9, newest=9))
    assert "g" not in _names(found)
    assert run.candidate("g").config_hash in found.config_hashes


async def test_what_stopped_early_is_told_by_how_far_it_was_ahead_of_what_it_was_compared_with(example: ExampleRun) -> None:
    """On the first samples, which were easy, the baseline had .9: .95 is no better than .05 over all of them."""
    run = await _measured(example)
    for name, score, stopped in (("g", 0.95, "futile after 16 of 120 samples"), ("h", 0.95, None)):
        trial = run.trial(run.candidate(name, round=7))
        await run.store.trials.begin(trial)
        evidence = (Evidence(reference="baseline", reference_mean=0.9, mean=score, effect=score - 0.9),)
        await run.record(trial, score, stopped_early=stopped, evidence=evidence)
    found = await run.store.search_history.searched(run.run_id, Bounded(best=1, newest=2))
    told = {trial.candidate_id: trial.score for trial in found.trials}
    assert told["g"] == pytest.approx(0.05) and told["h"] == 0.95


async def test_training_samples_come_in_the_order_of_their_split(example: ExampleRun) -> None:
    run = await example.open(dataset={"items": [{"input": n} for n in range(20)], "splits": {"train": 0.5, "validation": 0.5}})
    train = await run.store.suites.first_samples(run.run_id, Split.TRAIN, 100)
    async with run.database.connection() as connection:
        drawn = await connection.fetch(
            "SELECT s.input FROM suite_samples d JOIN suites USING (run_id, split) JOIN samples s USING (dataset_id, item_hash)"
            " WHERE run_id = $1 AND split = 'train' ORDER BY d.position",
            run.run_id,
        )
    assert [str(sample.input) for sample in train] == [row["input"] for row in drawn]
    assert len(train) == 10
    assert await run.store.suites.first_samples(run.run_id, Split.TRAIN, 3) == train[:3]
