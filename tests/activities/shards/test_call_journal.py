"""What a lost attempt at a shard paid for in vain is known to the call, on the same machine; else as far as can be known."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from activities.shards.call_journal import CallJournal, ShardCalls
from tests.support.activity_attempts import activity_environment
from tests.support.measured_runs import MeasuredRun, evaluation
from tests.support.suite_building import samples, shard, suite
from workflows.rules.scoring.merged_parts import ending_of

pytestmark = pytest.mark.usefixtures("measured_runs")

KEY = "run/activity"


def attempt(journal: CallJournal, number: int, without_answer: range | set[int], heard: tuple[Any, ...] = ()) -> ShardCalls:
    calls = journal.of_shard(KEY, number, heard)
    calls.goes_on(set(without_answer), side_by_side=4)
    return calls


def test_calls_that_were_stored_or_refused_are_not_lost(tmp_path: Path) -> None:
    journal = CallJournal(tmp_path)
    first = attempt(journal, 1, range(10))
    for pair in range(6):
        first.begins(pair)
    first.cost_nothing(5)
    second = attempt(journal, 2, set(range(10)) - {0, 1})  # killed: 0 and 1 are stored, 2, 3 and 4 are not
    assert (second.lost, second.left_open) == (3, {1: 3})
    for pair in range(2, 10):
        second.begins(pair)
        second.answered(pair)
    assert second.lost == 3


def test_a_call_that_is_lost_twice_counts_twice(tmp_path: Path) -> None:
    for number in (1, 2):
        attempt(CallJournal(tmp_path), number, range(10)).begins(7)  # each in a process of its own
    third = attempt(CallJournal(tmp_path), 3, range(10))
    assert (third.lost, third.left_open) == (2, {1: 1, 2: 1})
    third.begins(7)
    third.answered(7)
    assert third.lost == 2


def test_an_answer_that_arrives_after_all_is_not_lost(tmp_path: Path) -> None:
    attempt(CallJournal(tmp_path), 1, range(10)).begins(7)
    attempt(CallJournal(tmp_path), 2, range(10))  # knows 7 to be open, and dies before it calls
    assert attempt(CallJournal(tmp_path), 3, range(7)).lost == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full, a file that has no room, is missing")
def test_calls_that_a_full_disk_has_no_room_for_are_known_all_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "calls"
    attempt(CallJournal(folder), 1, range(10)).begins(3)
    [notes] = folder.glob("*.1")
    full = notes.with_suffix(".2")
    full.symlink_to("/dev/full")
    second = attempt(CallJournal(folder), 2, range(10))
    for pair in (4, 5, 6):
        second.begins(pair)
    second.cost_nothing(6)
    full.unlink()
    full.write_text("4\n5")  # what there was room for, cut in the middle of a line
    journal = CallJournal(folder)
    third = attempt(journal, 3, range(10))
    assert (third.lost, third.left_open) == (3, {1: 1, 2: 2})
    assert journal.spare is not None
    assert journal.spare.stat().st_mode & 0o777 == 0o700
    third.over()
    journal.close()
    assert not journal.spare.exists(), "notes stay in memory"


@pytest.mark.parametrize(
    ("heard", "lost"),
    [
        ((), 4),  # died before its first heartbeat, and wrote nothing here
        (({"calls": {"place": "elsewhere", "in_flight": 3, "lost": 2}},), 5),
        (({"calls": {"place": "elsewhere", "in_flight": 99, "lost": 0}},), 10),  # no more than there was to do
        (({"calls": {"place": "elsewhere", "in_flight": "nonsense"}},), 0),
        (("nonsense", {"calls": 7}), 4),
    ],
)
def test_of_another_machine_the_last_heartbeat_is_believed(heard: tuple[Any, ...], lost: int, tmp_path: Path) -> None:
    calls = attempt(CallJournal(tmp_path), 2, range(10), heard)
    assert (calls.lost, calls.left_open) == (lost, None)


def test_an_attempt_that_never_began_here_lost_nothing_where_all_workers_write_here(tmp_path: Path) -> None:
    calls = attempt(CallJournal(tmp_path, of_all_workers=True), 3, range(10))
    assert (calls.lost, calls.left_open) == (0, {})


def test_notes_are_nobody_elses_to_read_and_do_not_stay(tmp_path: Path) -> None:
    folder = tmp_path / "calls"
    journal = CallJournal(folder)
    calls = attempt(journal, 1, range(10))
    calls.begins(3)
    [notes] = [path for path in folder.iterdir() if path.name != "place"]
    assert (notes.stat().st_mode & 0o777, folder.stat().st_mode & 0o777, notes.read_text()) == (0o600, 0o700, "3\n")
    calls.over()
    journal.close()
    assert [path.name for path in folder.iterdir()] == ["place"]


def test_notes_that_nobody_came_back_for_are_swept(tmp_path: Path) -> None:
    attempt(CallJournal(tmp_path), 1, range(10)).begins(3)
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    CallJournal(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["place"]


async def test_a_shard_that_is_taken_over_tells_what_its_worker_lost() -> None:
    run = MeasuredRun(suite("echo"), samples(5))
    environment = activity_environment(attempt=2)
    heard = {"calls": {"place": "elsewhere", "in_flight": 2, "lost": 1}}
    environment.info = dataclasses.replace(environment.info, heartbeat_details=[heard, {"attempts": {"lost": 1, "begun": 0}}])
    async with evaluation(run) as evaluating:
        result = await environment.run(evaluating.evaluate_shard, shard(5))
    assert (result.evaluated, result.lost) == (5, 3)
    assert ending_of([result])["lost"] == 3


async def test_a_call_is_noted_before_it_is_made_and_never_after(tmp_path: Path) -> None:
    run = MeasuredRun(suite("echo"), samples(5))
    journal = CallJournal(tmp_path)
    async with evaluation(run, journal=journal) as evaluating:
        result = await activity_environment().run(evaluating.evaluate_shard, shard(5))
    [notes] = [path for path in tmp_path.iterdir() if path.name != "place"]
    assert sorted(notes.read_text().split()) == list("01234")
    assert result.lost == 0
