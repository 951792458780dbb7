"""Outcomes: what a shard still has to answer, the first answer that wins, and answers taken over from other runs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from store.connection import Connection, Database
from store.schema import StoreError
from store.write.runs import Runs
from tests.support.store_examples import ExampleRun
from workflows.model.suite import MeasuredSample, UnscoredAnswer
from workflows.model.trial import ShardInput


async def pairs_of(run: ExampleRun, shard: ShardInput) -> list[tuple[int, int]]:
    return [(pair.position, pair.replicate) for pair in (await run.store.outcomes.missing(shard)).pairs]


async def measured(run: ExampleRun, first_replicate: int = 0) -> list[MeasuredSample]:
    return await run.store.measured_samples.load(run.suite, run.config_hash, first_replicate, run.replicates)


async def test_a_shard_gets_the_suite_the_configuration_and_its_samples(example: ExampleRun) -> None:
    run = await example.open()
    work = await run.store.outcomes.missing(run.shard())

    assert work.suite == run.suite
    assert work.configuration == run.configuration
    assert work.found == 0
    assert [pair.item_hash for pair in work.pairs[::2]] == run.item_hashes
    assert sorted(pair.sample.input["n"] for pair in work.pairs[::2]) == [0, 1, 2, 3, 4]


async def test_pairs_go_sample_by_sample_and_replicate_by_replicate(example: ExampleRun) -> None:
    run = await example.open()
    assert await pairs_of(run, run.shard(first=0, last=5)) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    assert await pairs_of(run, run.shard(first=5, last=10)) == [(2, 1), (3, 0), (3, 1), (4, 0), (4, 1)]
    assert await pairs_of(run, run.shard(first=3, last=4)) == [(1, 1)]


async def test_every_way_of_cutting_a_trial_into_shards_covers_every_pair_once(example: ExampleRun) -> None:
    example.replicates = 3
    run = await example.open()
    everything = [(position, replicate) for position in range(5) for replicate in range(3)]
    for size in range(1, 16):
        cut = [await pairs_of(run, run.shard(first=first, last=min(first + size, 15))) for first in range(0, 15, size)]
        assert [pair for shard in cut for pair in shard] == everything


async def test_a_resampled_candidate_gets_replicates_of_its_own(example: ExampleRun) -> None:
    run = await example.open()
    await run.answer_everything()
    again = run.trial(
        run.candidate("baseline-2", configuration=run.configuration, config_hash=run.config_hash, first_replicate=2)
    )

    assert await pairs_of(run, run.shard(again, first=0, last=3)) == [(0, 2), (0, 3), (1, 2)]


async def test_a_retried_shard_finds_what_is_there_and_gets_only_the_rest(example: ExampleRun) -> None:
    run = await example.open()
    shard = run.shard(first=1, last=6)
    await run.store.outcomes.commit(shard, run.suite, [run.outcome(0, 1), run.outcome(2, 0), run.outcome(4, 1)])

    work = await run.store.outcomes.missing(shard)

    assert [(pair.position, pair.replicate) for pair in work.pairs] == [(1, 0), (1, 1), (2, 1)]
    assert work.found == 2


async def test_the_first_answer_to_a_pair_wins(example: ExampleRun) -> None:
    run = await example.open()
    shard = run.shard()
    await run.store.outcomes.commit(shard, run.suite, [run.outcome(score=1.0)])
    await run.store.outcomes.commit(shard, run.suite, [run.outcome(score=0.0), run.outcome(1, score=0.0)])

    assert [(sample.position, sample.scores["exact"]) for sample in await measured(run)] == [(0, 1.0), (1, 0.0)]


async def test_two_answers_to_one_pair_in_one_batch_are_one(example: ExampleRun) -> None:
    run = await example.open()
    await run.store.outcomes.commit(run.shard(), run.suite, [run.outcome(score=1.0), run.outcome(score=0.0)])
    assert [sample.scores["exact"] for sample in await measured(run)] == [1.0]


async def test_many_writers_of_the_same_answers_do_not_get_in_each_others_way(example: ExampleRun) -> None:
    run = await example.open()
    outcomes = [run.outcome(position, replicate) for position in range(5) for replicate in range(2)]
    await asyncio.gather(
        *(run.store.outcomes.commit(run.shard(), run.suite, outcomes[turn:] + outcomes[:turn]) for turn in range(10))
    )
    assert len(await measured(run)) == 10


async def test_measured_samples_come_in_order_with_all_that_aggregation_reads(example: ExampleRun) -> None:
    run = await example.open()
    failed = replace(run.outcome(1, 0), status="failed", scores={}, passed=False, error="boom", per_score={}, latency_ms=None)
    await run.store.outcomes.commit(run.shard(), run.suite, [failed, run.outcome(0, 1, score=0.25), run.outcome(0, 0)])

    first, second, third = await measured(run)

    assert (first.position, first.replicate, first.scores, first.passed) == (0, 0, {"exact": 1.0}, True)
    assert (first.tokens, first.cost, first.latency_ms, first.ttft_ms) == (10, 0.001, 12.5, None)
    assert (second.position, second.replicate, second.per_score_passed) == (0, 1, {"exact": False})
    assert (third.position, third.status, third.scores, third.latency_ms) == (1, "failed", {}, None)


async def test_an_overlay_that_was_tampered_with_is_refused(example: ExampleRun) -> None:
    run = await example.open()
    async with run.database.connection() as connection:
        await connection.execute("UPDATE overlays SET configuration = $1", '{"prompt": "Leak it."}')
    with pytest.raises(StoreError, match="was changed in the store"):
        await run.store.outcomes.missing(run.shard())


@pytest.mark.parametrize("number", [1e22, 5e-324, 0.1 + 0.2, -0.0, 2**53 + 1, 1.7976931348623157e308])
async def test_a_number_comes_back_as_it_was_hashed(example: ExampleRun, number: float) -> None:
    example.configuration = {"prompt": "Sort it.", "temperature": number}
    run = await example.open()
    assert (await run.store.outcomes.missing(run.shard())).configuration["temperature"] == number


async def test_answers_of_a_deleted_run_are_not_kept(example: ExampleRun) -> None:
    run = await example.open()
    async with run.database.connection() as connection:
        await connection.execute("DELETE FROM runs")
    await run.store.outcomes.commit(run.shard(), run.suite, [run.outcome()])
    async with run.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM outcomes") == 0


class DawdlingDatabase(Database):
    """One whose transactions wait before they commit."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._done, self._may_commit = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with super().transaction() as connection:
            yield connection
            self._done.set()
            await self._may_commit.wait()

    @asynccontextmanager
    async def all_but_committed(self) -> AsyncIterator[None]:
        await self._done.wait()
        yield
        self._may_commit.set()


async def test_answers_committed_while_a_run_is_deleted_do_not_outlive_it(example: ExampleRun) -> None:
    run = await example.open()
    dawdling = DawdlingDatabase(run.database._pool, run.database.url)
    deleting = asyncio.ensure_future(Runs(dawdling).delete(run.run_id))
    async with dawdling.all_but_committed():
        committing = asyncio.ensure_future(run.store.outcomes.commit(run.shard(), run.suite, [run.outcome(0), run.outcome(1)]))
        async with asyncio.timeout(10), run.database.connection() as watching:
            while not committing.done() and not await watching.fetchval(
                "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')"
            ):
                await asyncio.sleep(0)
    assert await deleting
    await committing
    async with run.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM outcomes") == 0


class TestReuse:
    """Whose answers may be used again."""

    async def other_run(self, example: ExampleRun, run_id: str, **changes: str) -> ExampleRun:
        run = ExampleRun(example.store, example.database, run_id=run_id)
        await run.open(execution_id=run_id, **changes)
        await run.store.trials.begin(run.trial())
        return run

    async def test_always_takes_over_what_another_run_has_paid_for(self, example: ExampleRun) -> None:
        first = await self.other_run(example, "first")
        await first.store.outcomes.commit(first.shard(), first.suite, [first.outcome(1, score=0.25)])

        second = await self.other_run(example, "second", reuse="always")
        work = await second.store.outcomes.missing(second.shard())

        assert work.found == 1
        assert (1, 0) not in [(pair.position, pair.replicate) for pair in work.pairs]
        [sample] = await measured(second)
        assert (sample.scores, sample.paid) == ({"exact": 0.25}, False)
        assert [sample.paid for sample in await measured(first)] == [True]

    async def test_only_pairs_of_the_shards_own_range_are_taken_over(self, example: ExampleRun) -> None:
        first = await self.other_run(example, "first")
        await first.answer_everything()
        second = await self.other_run(example, "second", reuse="always")

        work = await second.store.outcomes.missing(second.shard(first=2, last=6))

        assert (work.found, work.pairs) == (4, [])
        assert {sample.position for sample in await measured(second)} == {1, 2}

    async def test_a_copy_of_a_copy_still_names_the_run_that_paid(self, example: ExampleRun) -> None:
        first = await self.other_run(example, "first")
        await first.answer_everything()
        for name in ("second", "third"):
            run = await self.other_run(example, name, reuse="always")
            await run.store.outcomes.missing(run.shard())
        async with example.database.connection() as connection:
            sources = await connection.fetch("SELECT DISTINCT run_id, reused_from FROM outcomes ORDER BY run_id")
        assert [tuple(row) for row in sources] == [("first", None), ("second", "first"), ("third", "first")]

    @pytest.mark.parametrize("reuse", ["run", "never"])
    async def test_otherwise_other_runs_are_left_alone(self, example: ExampleRun, reuse: str) -> None:
        first = await self.other_run(example, "first")
        await first.answer_everything()
        second = await self.other_run(example, "second", reuse=reuse)
        assert len((await second.store.outcomes.missing(second.shard())).pairs) == 10

    async def test_answers_of_another_target_are_never_taken_over(self, example: ExampleRun) -> None:
        first = await self.other_run(example, "first")
        other = first.suite.model_copy(update={"target_fingerprint": "another"})
        await first.store.outcomes.commit(first.shard(), other, [first.outcome()])
        second = await self.other_run(example, "second", reuse="always")
        work = await second.store.outcomes.missing(second.shard())
        assert (work.found, [pair.kept for pair in work.pairs if pair.kept]) == (0, [])

    async def test_answers_that_others_scored_are_taken_over_and_only_their_scores_are_missing(
        self, example: ExampleRun
    ) -> None:
        first = await self.other_run(example, "first")
        await first.answer_everything()
        await example.execute("UPDATE scores SET scorer = 'another'")
        second = await self.other_run(example, "second", reuse="always")

        work = await second.store.outcomes.missing(second.shard())

        assert (work.found, len(work.pairs)) == (0, 10)
        assert {pair.kept.value for pair in work.pairs if pair.kept} == {f"answer {place}" for place in range(5)}
        scored = [replace(second.outcome(p.position, p.replicate), answer_id=p.answer_id, was_kept=True) for p in work.pairs]
        await second.store.outcomes.commit(second.shard(), second.suite, scored)
        assert {(sample.paid, sample.scored_by) for sample in await measured(second)} == {(False, second.shard().trial_id)}

    async def test_of_several_answers_the_one_with_scores_of_these_scorers_is_taken(self, example: ExampleRun) -> None:
        for name in ("first", "scored"):
            run = await self.other_run(example, name)
            await run.store.outcomes.commit(run.shard(), run.suite, [run.outcome(output=name)])
        await example.execute("DELETE FROM scores USING answers a WHERE a.answer_id = scores.answer_id AND run_id = 'first'")
        second = await self.other_run(example, "second", reuse="always")
        assert (await second.store.outcomes.missing(second.shard())).found == 1
        assert await example.values("SELECT reused_from FROM outcomes WHERE run_id = 'second'") == ["scored"]

    async def test_what_passed_is_decided_by_the_metric_of_the_run_that_reuses(self, example: ExampleRun) -> None:
        both = {"exact": {"passed": True, "reason": None}, "brief": {"passed": False, "reason": None}}
        first = await self.other_run(example, "first")
        given = first.outcome(scores={"exact": 1.0, "brief": 0.0}, per_score=both)
        await first.store.outcomes.commit(first.shard(), first.suite, [given, first.outcome(1)])
        second = await self.other_run(example, "second", reuse="always")
        await example.execute("UPDATE suites SET body = body || '{\"metric\": \"brief\"}' WHERE run_id = 'second'")

        work = await second.store.outcomes.missing(second.shard())

        assert [sample.passed for sample in await measured(second)] == [False]
        assert [pair.position for pair in work.pairs if pair.kept] == [1], "an answer without that score is scored"

    async def test_who_scores_a_run_anew_takes_its_failed_answers_too_whatever_its_target_is_by_now(
        self, example: ExampleRun
    ) -> None:
        first = await self.other_run(example, "first")
        failed = first.outcome(1, status="failed", scores={}, passed=False, output=None, error="boom", error_class="timeout")
        await first.store.outcomes.commit(first.shard(), first.suite, [first.outcome(), failed])
        await example.execute("UPDATE scores SET scorer = 'another'; UPDATE answers SET target = 'of then'")
        await example.execute("UPDATE suites SET target = 'of then' WHERE run_id = 'first'")
        second = await self.other_run(example, "second")
        await example.execute("UPDATE suites SET body = body || '{\"rescore_of\": \"first\"}' WHERE run_id = 'second'")
        found = {pair.position: pair.kept for pair in (await second.store.outcomes.missing(second.shard())).pairs if pair.kept}
        assert [(place, kept.error, kept.error_class) for place, kept in found.items()] == [
            (0, None, None),
            (1, "boom", "timeout"),
        ]


class TestWhatIsScoredLater:
    """The answer is stored first, by whoever asked for it; its score comes when it can."""

    async def test_an_answer_waits_for_its_score_and_is_asked_for_only_once(self, example: ExampleRun) -> None:
        run = await example.open()
        [pair, *_] = (await run.store.outcomes.missing(run.shard())).pairs
        kept = UnscoredAnswer(pair.answer_id, pair.item_hash, pair.replicate, "late", tokens=7)
        await run.store.outcomes.commit(run.shard(), run.suite, [], kept=[kept])
        assert (await run.store.unscored_answers.paid_for(run.trial(), run.suite)).tokens == 7
        assert await measured(run) == []

        [found, *_] = (await run.store.outcomes.missing(run.shard())).pairs
        assert found.kept == kept
        scored = replace(run.outcome(tokens=7, scoring_tokens=3), answer_id=kept.answer_id, was_kept=True)
        await run.store.outcomes.commit(run.shard(), run.suite, [scored])

        [sample] = await measured(run)
        assert (sample.tokens, sample.scoring_tokens, sample.scored_by) == (10, 3, None)
        assert await example.values("SELECT output #>> '{}' FROM outcomes") == ["late"]

    async def test_both_may_come_in_one_batch(self, example: ExampleRun) -> None:
        run = await example.open()
        [pair, *_] = (await run.store.outcomes.missing(run.shard())).pairs
        kept = UnscoredAnswer(pair.answer_id, pair.item_hash, pair.replicate, "late")
        scored = replace(run.outcome(), answer_id=pair.answer_id, was_kept=True)
        await run.store.outcomes.commit(run.shard(), run.suite, [scored], kept=[kept])
        assert len(await measured(run)) == 1

    async def test_a_score_never_goes_to_another_answer_than_it_was_made_of(self, example: ExampleRun) -> None:
        run = await example.open()
        one, other = [(await run.store.outcomes.missing(run.shard())).pairs[0] for _ in range(2)]
        assert one.answer_id != other.answer_id
        for pair in (one, other):
            kept = UnscoredAnswer(pair.answer_id, pair.item_hash, pair.replicate, str(pair.answer_id))
            await run.store.outcomes.commit(run.shard(), run.suite, [], kept=[kept])
        late = replace(run.outcome(), answer_id=other.answer_id, was_kept=True)
        await run.store.outcomes.commit(run.shard(), run.suite, [late])
        assert await measured(run) == []
        await run.store.outcomes.commit(run.shard(), run.suite, [replace(late, answer_id=one.answer_id)])
        assert len(await measured(run)) == 1

    async def test_what_a_scorer_failed_on_counts_for_nothing_and_is_not_scored_again_by_this_run(
        self, example: ExampleRun
    ) -> None:
        run = await example.open()
        raised = run.outcome(status="unscored", scores={}, passed=False, error="boom", fault="scorer", per_score={})
        await run.store.outcomes.commit(run.shard(), run.suite, [raised])
        assert [sample.status for sample in await measured(run)] == ["unscored"]
        assert (await run.store.outcomes.missing(run.shard())).found == 1
        found = await run.store.evaluated_samples.first_error(run.run_id, run.suite.split, run.config_hash, "unscored")
        assert found == "boom"
        assert await run.store.evaluated_samples.records(run.run_id, run.suite.split, run.config_hash, 5) == []

        await run.open(execution_id="another")
        assert [pair.kept is not None for pair in (await run.store.outcomes.missing(run.shard())).pairs[:2]] == [True, False]


class TestWhatModelsAnswer:
    """Hostile text must not break a commit, and stays visible."""

    async def stored(self, run: ExampleRun) -> tuple[str | None, str | None, str, str | None]:
        async with run.database.connection() as connection:
            row = await connection.fetchrow("SELECT output ->> 0, error, feedback, trace::text FROM outcomes")
        assert row is not None
        return tuple(row)

    @pytest.mark.parametrize(
        ("hostile", "visible"),
        [
            ("a\x00b", "a␀b"),
            ("a\ud800b", "a\ufffdb"),
            ("\udfff\x00", "\ufffd␀"),
            ("a literal \\u0000 stays", "a literal \\u0000 stays"),
            ("😀 and ﷽ and \u202e", "😀 and ﷽ and \u202e"),
        ],
    )
    async def test_characters_that_no_store_keeps_are_replaced_visibly(
        self, example: ExampleRun, hostile: str, visible: str
    ) -> None:
        run = await example.open()
        outcome = run.outcome(status="failed", output=[hostile], error=hostile, feedback=hostile, trace={hostile: hostile})
        await run.store.outcomes.commit(run.shard(), run.suite, [outcome])

        output, error, feedback, trace = await self.stored(run)

        assert (output, error, feedback) == (visible, visible, visible)
        assert trace is not None and ("␀" in trace or "\ufffd" in trace or visible.replace("\\", "\\\\") in trace)

    async def test_what_is_no_json_is_stored_as_text(self, example: ExampleRun) -> None:
        run = await example.open()
        circle: list[object] = []
        circle.append(circle)
        trace = {"nan": math.nan, "infinite": -math.inf, "set": {1}, "object": ValueError("x"), "circle": circle, 5: (1, 2)}
        await run.store.outcomes.commit(run.shard(), run.suite, [run.outcome(output=["fine"], trace=trace)])
        *_, stored = await self.stored(run)
        assert stored is not None
        assert stored.startswith('{"nan":"nan","infinite":"-inf","set":[1],"object":"x","circle":[[[')
        assert "nested too deeply" in stored and stored.endswith('"5":[1,2]}')

    async def test_one_hostile_answer_does_not_cost_the_others_of_its_batch(self, example: ExampleRun) -> None:
        run = await example.open()
        nested: object = "deep"
        for _ in range(50_000):
            nested = [nested]
        outcomes = [run.outcome(0), run.outcome(1, output="\x00"), run.outcome(2, trace=nested), run.outcome(3, output=10**400)]
        await run.store.outcomes.commit(run.shard(), run.suite, outcomes)
        assert len(await measured(run)) == 4


class TestRecords:
    """Evaluated samples as proposers see them."""

    async def records(self, run: ExampleRun, **changes: bool) -> list[tuple[int, float, str]]:
        found = await run.store.evaluated_samples.records(run.run_id, run.suite.split, run.config_hash, 4, **changes)
        by_input = {record.inputs["n"]: record for record in found}
        assert all(record.expected == number for number, record in by_input.items())
        return [(record.inputs["n"], record.score, record.feedback) for record in found]

    async def answered(self, example: ExampleRun, **changes: Any) -> tuple[ExampleRun, list[int]]:
        example.replicates = 1
        run = await example.open(**changes)
        work = await run.store.outcomes.missing(run.shard())
        numbers = [pair.sample.input["n"] for pair in work.pairs]
        failed = run.outcome(3, status="failed", scores={}, passed=False, error="boom", per_score={})
        rest = [run.outcome(0, score=1.0), run.outcome(1, score=0.25, feedback="too long"), run.outcome(2, score=0.75)]
        await run.store.outcomes.commit(run.shard(), run.suite, [*rest, failed, run.outcome(4, score=0.0)])
        return run, numbers

    async def test_failed_ones_come_first_and_then_the_worst(self, example: ExampleRun) -> None:
        run, n = await self.answered(example)
        assert await self.records(run) == [(n[3], 0.0, "boom"), (n[4], 0.0, ""), (n[1], 0.25, "too long"), (n[2], 0.75, "")]

    async def test_the_highest_is_the_worst_when_minimizing(self, example: ExampleRun) -> None:
        run, n = await self.answered(example, objective={"metric": "exact", "direction": "minimize"})
        found = await self.records(run)
        assert found[0] == (n[3], 1.0, "boom")
        assert [number for number, *_ in found[1:3]] == [n[1], n[4]]

    async def test_they_come_in_the_suites_order_when_asked_for(self, example: ExampleRun) -> None:
        run, n = await self.answered(example)
        assert [number for number, *_ in await self.records(run, worst_first=False)] == n[:4]
