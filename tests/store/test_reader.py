"""What clients read: lists, pages, lineage, live counters, reports; and that a deleted run is gone."""

from __future__ import annotations

import itertools
import json
from operator import attrgetter
from typing import Any

import pytest

from store.read.reader import StoreReader
from tests.support.store_examples import ExampleRun
from workflows.model.run.candidates import ReasonCode, Rejection
from workflows.model.run.contract import CommitRounds
from workflows.model.trial import Conclusion


async def searched(example: ExampleRun) -> ExampleRun:
    """A run with a baseline and three candidates, of which one has two parents."""
    run = await example.open(
        dataset={"items": [{"input": {"n": n}} for n in range(10)], "splits": {"validation": 0.5, "test": 0.5}}
    )
    parents: dict[str, tuple[str, ...]] = {"baseline": (), "a": ("baseline",), "b": ("baseline",), "ab": ("a", "b")}
    for n, (name, of) in enumerate(parents.items()):
        candidate = run.candidate(name, parent_candidate_ids=of, round={"baseline": 0, "ab": 2}.get(name, 1), index=n)
        trial = run.trial(candidate)
        await run.store.trials.begin(trial)
        await run.answer_everything(trial, score=n / 4)
        await run.record(trial, n / 4)
    rejections = tuple(
        Rejection(round=2, proposed_index=index, reason_code=ReasonCode.NO_CHANGE, message="same") for index in (1, 2, 3)
    )
    record = run.round(2, rejections=rejections, new_best=True, best_so_far=0.75, best_so_far_id="ab")
    await run.store.runs.commit_rounds(CommitRounds(run_id=run.run_id, records=(run.round(0), run.round(1), record)))
    return run


async def test_runs_are_listed_with_the_newest_first(example: ExampleRun, reader: StoreReader) -> None:
    for name in ("one", "two", "three"):
        await ExampleRun(example.store, example.database, run_id=name).open()
    last = ExampleRun(example.store, example.database, run_id="two")
    await last.store.runs.finish(last.finish())

    assert [run.run_id for run in await reader.runs.page()] == ["three", "two", "one"]
    assert [run.run_id for run in await reader.runs.page(status="completed")] == ["two"]
    assert [run.run_id for run in await reader.runs.page(offset=1, limit=1)] == ["two"]


async def test_trials_come_in_pages(example: ExampleRun, reader: StoreReader) -> None:
    run = await searched(example)
    page = await reader.trials.page(run.run_id, offset=1, limit=2)
    newest = await reader.trials.page(run.run_id, limit=2, newest_first=True)
    assert page is not None and newest is not None
    assert (page.total, [trial.candidate_id for trial in page.items]) == (4, ["a", "b"])
    assert [trial.candidate_id for trial in newest.items] == ["ab", "b"]
    assert page.items[0].parent_candidate_ids == ("baseline",)


async def test_the_lineage_keeps_several_parents(example: ExampleRun, reader: StoreReader) -> None:
    run = await searched(example)
    graph = await reader.candidates.graph(run.run_id)
    assert graph is not None
    assert [(node.candidate_id, node.score, node.is_best, node.is_baseline) for node in graph.nodes] == [
        ("baseline", 0.0, False, True),
        ("a", 0.25, False, False),
        ("b", 0.5, False, False),
        ("ab", 0.75, True, False),
    ]
    assert [(edge.parent, edge.child) for edge in graph.edges] == [
        ("baseline", "a"),
        ("baseline", "b"),
        ("a", "ab"),
        ("b", "ab"),
    ]


async def test_rejections_come_in_pages(example: ExampleRun, reader: StoreReader) -> None:
    run = await searched(example)
    page = await reader.runs.rejections(run.run_id, offset=1, limit=1)
    assert page is not None
    assert (page.total, [item.proposed_index for item in page.items]) == (3, [2])


async def test_items_of_a_trial_are_its_outcomes_with_their_samples(example: ExampleRun, reader: StoreReader) -> None:
    run = await searched(example)
    page = await reader.trials.items(run.run_id, "b", offset=2, limit=3)
    assert page is not None
    assert (page.total, [(item.position, item.replicate) for item in page.items]) == (10, [(1, 0), (1, 1), (2, 0)])
    assert page.items[0].output == "answer 1" and page.items[0].scores == {"exact": 0.5} and "n" in page.items[0].input
    failed = await reader.trials.items(run.run_id, "a", passed=False)
    passed = await reader.trials.items(run.run_id, "b", passed=False)
    assert failed is not None and passed is not None
    assert (failed.total, passed.total) == (10, 0)


async def test_pages_of_a_complete_trial_are_those_that_counting_gives(example: ExampleRun, reader: StoreReader) -> None:
    run = await searched(example)
    counted = [await reader.trials.items(run.run_id, "b", passed=passed, limit=100) for passed in (True, False)]
    whole = sorted((one.position, one.replicate) for page in counted if page is not None for one in page.items)
    assert len(whole) == 10
    for offset, limit in itertools.product(range(13), (1, 3, 4, 100)):
        page = await reader.trials.items(run.run_id, "b", offset=offset, limit=limit)
        assert page is not None
        assert (page.total, [(item.position, item.replicate) for item in page.items]) == (10, whole[offset : offset + limit])


@pytest.mark.parametrize("what", ["stopped_early = 'certainly worse'", "coverage = 0.9"])
async def test_a_trial_that_is_not_complete_is_counted(example: ExampleRun, reader: StoreReader, what: str) -> None:
    run = await searched(example)
    async with run.database.connection() as connection:
        await connection.execute(
            f"UPDATE trials SET {what}, samples = samples + 2 WHERE run_id = $1 AND candidate_id = 'b'", run.run_id
        )
    page = await reader.trials.items(run.run_id, "b", limit=3)
    assert page is not None
    assert (page.total, len(page.items)) == (10, 3)


async def test_an_answer_that_is_not_there_is_not_counted(example: ExampleRun, reader: StoreReader) -> None:
    run = await searched(example)
    async with run.database.connection() as connection:
        await connection.execute("DELETE FROM answers WHERE run_id = $1 AND output::text LIKE '%answer 1%'", run.run_id)
    page = await reader.trials.items(run.run_id, "b", limit=100)
    assert page is not None
    assert page.total == len(page.items) < 10


async def test_two_ended_trials_are_read_once_for_all_pages_and_anew_when_one_ends_again(
    example: ExampleRun, reader: StoreReader
) -> None:
    run = await searched(example)

    async def missing() -> int:
        found = await reader.comparisons.load((run.run_id, "a", None), (run.run_id, "b", None), offset=1, limit=2)
        assert found is not None
        assert [one.position for one in found.items] == [1, 2]
        return found.turns.count("missing")

    async with run.database.connection() as connection:
        assert await missing() == 0
        await connection.execute("DELETE FROM answers WHERE run_id = $1 AND output::text LIKE '%answer 4%'", run.run_id)
        assert await missing() == 0
        await connection.execute("UPDATE trials SET finished_at = now() WHERE run_id = $1 AND candidate_id = 'b'", run.run_id)
        assert await missing() == 1
        await connection.execute("UPDATE trials SET finished_at = NULL WHERE run_id = $1 AND candidate_id = 'b'", run.run_id)
        await connection.execute("DELETE FROM answers WHERE run_id = $1 AND output::text LIKE '%answer 3%'", run.run_id)
        assert await missing() == 2


async def test_items_of_a_confirmation_are_those_of_the_test_split(example: ExampleRun, reader: StoreReader) -> None:
    run = await searched(example)
    trial = await run.confirming()
    await run.store.trials.begin(trial)
    work = await run.store.outcomes.missing(run.shard(trial))
    answers = [run.outcome(item_hash=pair.item_hash, replicate=pair.replicate) for pair in work.pairs[:3]]
    await run.store.outcomes.commit(run.shard(trial), run.suite, answers)

    progress = await reader.runs.progress(run.run_id)
    confirmed = await reader.trials.items(run.run_id, "baseline", purpose="confirmation")
    measured = await reader.trials.items(run.run_id, "baseline")

    assert confirmed is not None and measured is not None and progress is not None
    assert (confirmed.total, measured.total) == (3, 10)
    assert (progress.answered, progress.expected, progress.counts.running) == (3, 10, 1)


async def test_live_counters_follow_a_trial_as_it_is_answered(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    await run.store.trials.begin(run.trial())
    await run.store.outcomes.commit(run.shard(), run.suite, [run.outcome(n) for n in range(4)])

    running = await reader.runs.progress(run.run_id)
    await run.record(run.trial(), 0.5)
    ended = await reader.runs.progress(run.run_id)

    assert running is not None and ended is not None
    assert (running.status, running.answered, running.expected, running.counts.running) == ("running", 4, 10, 1)
    assert (ended.answered, ended.expected, ended.counts.running, ended.counts.completed) == (0, 0, 0, 1)
    assert ended.baseline_score == 0.5
    assert await reader.runs.progress("unknown") is None


async def test_a_report_has_everything_and_is_json(example: ExampleRun, reader: StoreReader) -> None:
    run = await searched(example)
    await run.store.runs.finish(run.finish(best_score=0.75, best_candidate_id="ab"))
    report = await reader.runs.report(run.run_id)
    assert report is not None
    assert [row.round for row in report.rounds] == [0, 1, 2]
    assert [trial.configuration["prompt"] for trial in report.trials][1] == "Sort it, a."
    assert report.trials[3].sample_means == (0.75,) * 5
    assert len(report.rejections) == 3
    assert json.loads(report.model_dump_json())["run"]["result"]["best_candidate_id"] == "ab"


async def test_a_running_trial_is_in_the_report_without_an_end(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    await run.store.trials.begin(run.trial())
    report = await reader.runs.report(run.run_id)
    assert report is not None
    [trial] = report.trials
    assert (trial.status, trial.score, trial.sample_means, trial.finished_at) == ("running", None, None, None)


@pytest.mark.parametrize(
    "ask", ["runs.load", "runs.report", "trials.page", "candidates.graph", "runs.rejections", "runs.progress"]
)
async def test_of_an_unknown_run_there_is_nothing(reader: StoreReader, ask: str) -> None:
    assert await attrgetter(ask)(reader)("unknown") is None


class TestDeleting:
    """A deleted run is gone, and takes nothing with it that others use."""

    TABLES = (
        "runs",
        "suites",
        "suite_samples",
        "candidates",
        "trials",
        "answers",
        "scores",
        "rejections",
        "rounds",
        "proposals",
        "events",
    )

    async def counts(self, run: ExampleRun) -> dict[str, int]:
        async with run.database.connection() as connection:
            found: dict[str, Any] = {
                table: await connection.fetchval(f"SELECT count(*) FROM {table}") for table in (*self.TABLES, "overlays")
            }
            return found

    async def test_nothing_of_it_is_left(self, example: ExampleRun, reader: StoreReader) -> None:
        run = await searched(example)
        assert await run.store.runs.delete(run.run_id)
        assert not await run.store.runs.delete(run.run_id)
        assert set((await self.counts(run)).values()) == {0}

    async def test_another_run_keeps_its_answers_and_its_configuration(self, example: ExampleRun, reader: StoreReader) -> None:
        run = await searched(example)
        other = await ExampleRun(example.store, example.database, run_id="other").open()
        await other.store.trials.begin(other.trial())
        await other.answer_everything()
        await other.store.trials.record(other.result(other.trial()), Conclusion(trial=other.trial()), [0.5] * 5)

        await run.store.runs.delete(run.run_id)

        assert [listed.run_id for listed in await reader.runs.page()] == ["other"]
        items = await reader.trials.items("other", "baseline")
        assert items is not None and items.total == 10
        assert await example.store.overlays.load(other.config_hash) == other.configuration
        assert (await self.counts(run))["overlays"] == 1
