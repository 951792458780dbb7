"""The checks of teams, batches and agents can fail: a soak of such runs passes, and whatever is done to its record is found."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.system.soak.batch_checks import batched_requests_are_paid_once, batches_are_taken
from tests.system.soak.budget_checks import budgets_hold, spending_is_that_of_answers, team_months_hold
from tests.system.soak.recorded_history import Check, History, Row
from tests.system.soak.soak_report import CHECKS
from tests.system.soak.turn_checks import effects_happen_once, turns_are_repeated_by_faults_alone, turns_go_with_their_answer

RECORDED = Path(__file__).parent / "recorded_kinds.json.gz"
"""What a soak of 25 seconds with seed 2 wrote of these designs, its hashes cut short, without what these checks do not read."""

OF_KINDS: tuple[Check, ...] = (
    team_months_hold,
    batched_requests_are_paid_once,
    batches_are_taken,
    effects_happen_once,
    turns_are_repeated_by_faults_alone,
    turns_go_with_their_answer,
)


@pytest.fixture
def history() -> History:
    return History(**json.loads(gzip.decompress(RECORDED.read_bytes())))


def test_nothing_is_found_in_what_was_recorded(history: History) -> None:
    assert [one for check in (*OF_KINDS, budgets_hold, spending_is_that_of_answers) for one in check(history)] == []
    assert set(OF_KINDS) <= set(CHECKS)
    assert history.rows("team_months") and history.rows("batches")
    assert {line["what"] for line in history.calls} >= {"begun", "effect", "turn"}


def a_month(history: History) -> Row:
    return history.tables["team_months"][0]


def lines_of(history: History, kind: str, what: str) -> list[Row]:
    return [line for line in history.calls if line["what"] == what and line["run"].startswith(kind)]


def overshoots_a_month(history: History) -> None:
    run = history.tables["run_teams"][0]["run_id"]
    for row in (a_month(history), next(row for row in history.tables["budgets"] if row["run_id"] == run)):
        row["spent_cost"] += 1000


def forgets_a_run_in_the_month(history: History) -> None:
    a_month(history)["spent_tokens"] -= 10


def hides_calls_from_the_month(history: History) -> None:
    run = history.tables["run_teams"][0]["run_id"]
    line = next(line for line in history.calls if line["run"] == run and line["what"] == "begun")
    history.calls += [{**line, "call": f"hidden {n}"} for n in range(1000)]


def answers_a_request_in_two_batches(history: History) -> None:
    called = lines_of(history, "refine-batch", "begun")[0]["call"]
    lines = [line for line in history.calls if line["call"] == called]
    fault = history.faults[0]
    history.calls += [{**line, "call": "again", "at": fault["until"] + 1} for line in lines]


def leaves_a_batch_open(history: History) -> None:
    history.tables["batches"][0]["state"] = "sent"


def loses_a_batched_answer(history: History) -> None:
    answers = history.tables["answers"]
    answers.remove(next(row for row in answers if row["run_id"].startswith("refine-batch")))


def pays_twice_at_a_fault(history: History) -> None:
    line = lines_of(history, "refine-agent", "effect")[0]
    history.calls.append({**line, "call": "again", "at": history.faults[0]["until"] + 1})


def asks_for_a_turn_again_in_peace(history: History) -> None:
    line = lines_of(history, "refine-agent", "turn")[0]
    history.calls.append({**line, "call": "again", "at": line["until"] + 1, "until": line["until"] + 2})
    history.faults.clear()


def keeps_a_turn_beside_its_answer(history: History) -> None:
    answer = next(row for row in history.tables["answers"] if row["run_id"].startswith("refine-agent"))
    history.tables["turns"].append({**answer, "turn": 1})


DONE: dict[Callable[[History], Any], str] = {
    overshoots_a_month: "team budget over",
    forgets_a_run_in_the_month: "team month does not add up",
    hides_calls_from_the_month: "call not accounted for",
    answers_a_request_in_two_batches: "batch paid twice",
    leaves_a_batch_open: "batch left open",
    loses_a_batched_answer: "batched answer lost",
    pays_twice_at_a_fault: "effect twice",
    asks_for_a_turn_again_in_peace: "turn paid twice",
    keeps_a_turn_beside_its_answer: "turns left over",
}


@pytest.mark.parametrize("done", DONE, ids=lambda done: done.__name__)
def test_what_is_done_to_it_is_found(done: Callable[[History], None], history: History) -> None:
    done(history)
    assert {one.check for check in OF_KINDS for one in check(history)} == {DONE[done]}
