"""Batches that are sent: what is meant is stored once, one sends at a time, and what went in vain is counted."""

from __future__ import annotations

from dataclasses import replace

from store.write.answers.judge_replies import JudgeReply
from store.write.answers.sent_batches import MeantBatch
from store.write.retention.removals import remove_texts_beside_answers
from tests.support.store_examples import ExampleRun

MEANT = MeantBatch("key-1", 1, 0, 3, "execution", "openai", "http://model", "m", None, {"a": 0, "b": 1, "c": 2})


async def test_two_attempts_that_mean_the_same_batch_have_one(example: ExampleRun) -> None:
    run = await example.open()
    batches, part = run.store.sent_batches, run.shard()
    assert await batches.open_at(part) is None
    assert await batches.next_number(part) == 1
    first = await batches.mean(part, MEANT)
    second = await batches.mean(part, replace(MEANT, places={"a": 0, "other": 5}, until=6))
    assert first.batch_key == second.batch_key == "key-1"
    assert (second.until, second.requests) == (3, 3)
    assert await batches.places(run.run_id, "key-1") == MEANT.places
    found = await batches.open_at(part)
    assert found is not None and found.batch_key == "key-1"
    assert await batches.next_number(part) == 2


async def test_one_attempt_sends_at_a_time_and_the_first_name_stays(example: ExampleRun) -> None:
    run = await example.open()
    batches, part = run.store.sent_batches, run.shard()
    meant = await batches.mean(part, MEANT)
    assert await batches.begin_sending(meant, "one", "file-1", 10.0)
    assert await batches.begin_sending(meant, "one", "file-1", 10.0), "its own reply may have been lost"
    assert not await batches.begin_sending(meant, "two", "file-2", 10.0), "it looked before the other began"
    seen = await batches.load(run.run_id, "key-1")
    assert (seen.sender, seen.input_file) == ("one", "file-1")
    assert seen.sending_for is not None and seen.sending_at is not None
    assert seen.longest_sending == 10.0
    assert await batches.begin_sending(seen, "two", "file-2", 10.0), (
        "it knows that another may have sent it, and has looked for that"
    )
    await batches.was_refused(seen, "one")
    assert (await batches.load(run.run_id, "key-1")).sender == "two"
    await batches.was_sent(seen, "batch-7")
    await batches.was_sent(seen, "batch-8")
    await batches.withdraw(seen)
    sent = await batches.load(run.run_id, "key-1")
    assert await batches.known("http://model", ["batch-7", "batch-9"]) == {"batch-7"}
    assert await batches.known("http://other", ["batch-7"]) == set()
    assert (sent.state, sent.provider_id) == ("sent", "batch-7")
    assert not await batches.begin_sending(sent, "three", "file-3", 10.0)


async def test_what_got_no_answer_is_counted_in_one_execution(example: ExampleRun) -> None:
    run = await example.open()
    batches, part = run.store.sent_batches, run.shard(first=0, last=2)
    for number, without in ((1, {"a": "http 500", "c": "http 500"}), (2, {"a": "batch expired"})):
        meant = await batches.mean(part, replace(MEANT, batch_key=f"key-{number}", number=number))
        await batches.was_sent(meant, f"batch-{number}")
        await batches.is_over(meant, "taken", "completed", without)
        assert await batches.without_answer(meant) == len(without)
    failures = await batches.failures(part, "execution")
    assert {name: (failed.times, failed.error_class) for name, failed in failures.items()} == {"a": (2, "batch expired")}
    assert await batches.failures(part, "another execution") == {}
    assert await batches.open_in(part) == []


async def test_what_judges_replied_is_kept_with_the_end_of_their_batch_until_texts_are_removed(example: ExampleRun) -> None:
    run = await example.open()
    batches, part = run.store.sent_batches, run.shard(first=0, last=3)
    judged = await batches.mean(part, replace(MEANT, scorer="scorers[0]"))
    assert await batches.open_at(part) is None, "it is the judge's"
    assert await batches.open_at(part, "scorers[0]") is not None
    said = {"a": JudgeReply(15, 0.5, value="5"), "b": JudgeReply(0, 0.0, fault="no", kind="http 400", billed="no")}
    for _ in range(2):
        await batches.is_over(judged, "taken", "completed", {"c": "batch expired"}, said)
    assert await run.store.judge_replies.load(part, "execution") == {0: {"a": said["a"]}, 1: {"b": said["b"]}}
    assert await run.store.judge_replies.load(run.shard(first=1, last=3), "execution") == {1: {"b": said["b"]}}
    assert await run.store.judge_replies.load(part, "another execution") == {}
    async with run.database.transaction() as connection:
        await remove_texts_beside_answers(connection, run.run_id)
    assert await run.store.judge_replies.load(part, "execution") == {}
