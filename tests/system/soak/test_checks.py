"""The checks of a soak can fail: a small soak that was recorded passes, and whatever is done to it by hand is found."""

from __future__ import annotations

import ast
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.system.soak.recorded_history import History, Row
from tests.system.soak.soak_report import report_of, violations_of

HERE = Path(__file__).parent
RECORDED = HERE / "recorded.json.gz"
"""What a soak of 20 seconds with seed 2 wrote: `history.json`, without what no check looks at."""

JUDGES = (*sorted(HERE.glob("*_checks.py")), HERE / "recorded_history.py", HERE / "store_records.py")


@pytest.fixture
def history() -> History:
    return History(**json.loads(gzip.decompress(RECORDED.read_bytes())))


def checks_that_fail(history: History) -> set[str]:
    return {violation.check for violation in violations_of(history)}


def test_nothing_is_found_in_what_was_recorded(history: History) -> None:
    assert violations_of(history) == []
    assert {fault["kind"] for fault in history.faults} >= {"kill worker", "kill postgres", "kill temporal"}
    assert any(len(tried) > 1 for tried in history.attempts().values()), "no call was repeated, so nothing is shown"


def test_those_who_judge_know_nothing_of_who_is_judged() -> None:
    assert len(JUDGES) >= 7
    for path in JUDGES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.split(".")[0] not in {"workflows", "activities", "store", "clients", "ratchet", "worker"}, path
                assert not name.startswith("tests.") or name.startswith("tests.system.soak."), path


# -- what is done to it ----------------------------------------------------------------------------------------------------


def an_answer(history: History) -> Row:
    """One that a plug-in's log tells of, once."""
    paid, attempts = history.paid_answers(), history.attempts()
    whole = {row["run_id"] for row in history.tables["runs"] if row["run_id"].startswith("refine-loop")}
    return next(paid[key] for key, tried in attempts.items() if key[0] in whole and len(tried) == 1 and key in paid)


def call_of(history: History, answer: Row) -> list[Row]:
    """Its lines in the log."""
    paid = history.paid_answers()
    key = next(key for key, row in paid.items() if row is answer and key[3] >= 0)
    run, config, item, replicate = key
    asked = {"run": run, "config": config, "item": item, "replicate": replicate}
    return [line for line in history.calls if all(line.get(name) == value for name, value in asked.items())]


def deletes_an_answer(history: History) -> None:
    history.tables["answers"].remove(an_answer(history))


def invents_an_answer(history: History) -> None:
    for line in call_of(history, an_answer(history)):
        history.calls.remove(line)


def duplicates_a_call_in_peace(history: History) -> None:
    lines = call_of(history, an_answer(history))
    history.calls += [{**line, "call": "once-more", "at": line["at"] + 0.001} for line in lines]
    history.faults.clear()


def duplicates_many_calls_at_a_fault(history: History) -> None:
    fault = next(fault for fault in history.faults if fault["kind"] == "kill worker")
    calls = [line for line in history.calls if line["run"].startswith("refine-loop")]
    for line in calls:
        history.calls.append({**line, "call": f"again {line['call']}", "at": fault["until"] + 1})
        line["at"] = min(line["at"], fault["at"])
    history.faults[:] = [fault]


def hides_what_was_lost(history: History) -> None:
    for row in history.tables["budgets"]:
        row["lost_samples"] = 0


def moves_a_tag_without_base(history: History) -> None:
    [*_, before, last] = [row for row in history.tables["releases"] if row["status"] == "released"]
    last["base_hash"] = last["overlay_hash"] if before["overlay_hash"] != last["overlay_hash"] else "elsewhere"


def moves_a_tag_without_a_row(history: History) -> None:
    rows = sorted(history.tables["prompt_changes"], key=lambda row: int(row["revision"]))
    history.tables["prompt_changes"].append({**rows[-1], "revision": rows[-1]["revision"] + 1, "config_hash": "elsewhere"})
    for tag in history.tables["prompt_tags"]:
        tag["revision"] += 1


def takes_a_revision_away(history: History) -> None:
    rows = sorted(history.tables["prompt_changes"], key=lambda row: int(row["revision"]))
    history.tables["prompt_changes"].remove(rows[1])


def overshoots_a_budget(history: History) -> None:
    row = next(row for row in history.tables["budgets"] if row["limit_samples"])
    row["lost_samples"] += row["limit_samples"]


def spends_more_than_answers(history: History) -> None:
    history.tables["budgets"][0]["spent_samples"] += 1


def leaves_a_lease(history: History) -> None:
    run_id = history.tables["budgets"][0]["run_id"]
    history.tables["budget_leases"].append({"run_id": run_id, "holder": "nobody", "held_samples": 3})


def changes_a_score(history: History) -> None:
    answer = an_answer(history)
    score = next(row for row in history.tables["scores"] if row["answer_id"] == answer["answer_id"])
    score["scores"]["height"] += 0.001


def a_trial(history: History) -> Row:
    return next(row for row in history.tables["trials"] if row["purpose"] == "candidate" and row["status"] == "completed")


def changes_the_score_of_a_trial(history: History) -> None:
    a_trial(history)["score"] += 0.001


def lets_another_one_win(history: History) -> None:
    run = next(row for row in history.tables["runs"] if row["best_candidate_id"] != row["baseline_candidate_id"])
    worse = min(
        (t for t in history.tables["trials"] if t["run_id"] == run["run_id"] and t["purpose"] in {"baseline", "candidate"}),
        key=lambda trial: float(trial["score"]),
    )
    run["best_candidate_id"] = worse["candidate_id"]


def turns_a_verdict_round(history: History) -> None:
    trial = next(
        t for t in history.tables["trials"] if (t["judged"] or {}).get("verdict") == "better" and t["purpose"] == "candidate"
    )
    trial["judged"]["verdict"] = "worse"


def leaves_a_run_open(history: History) -> None:
    history.tables["runs"][0] |= {"status": "running", "finished_at": None}


def forgets_why(history: History) -> None:
    history.tables["runs"][0]["stop_reason"] = None


def leaves_a_workflow_open(history: History) -> None:
    next(one for one in history.executions if one["type"] == "TrialWorkflow")["status"] = "RUNNING"


def loses_a_run(history: History) -> None:
    history.executions.append({"id": "lost", "type": "OptimizationWorkflow", "status": "COMPLETED"})


def loses_a_run_that_was_cancelled_at_work(history: History) -> None:
    history.executions.append({"id": "lost", "type": "OptimizationWorkflow", "status": "CANCELED"})
    history.executions.append({"id": "lost/baseline", "type": "TrialWorkflow", "status": "COMPLETED"})


def tells_an_event_twice(history: History) -> None:
    event = history.tables["events"][-1]
    history.tables["events"].append({**event, "id": event["id"] + 1})


def tells_rounds_out_of_order(history: History) -> None:
    run_id = next(row["run_id"] for row in history.tables["rounds"] if row["round"] >= 2)
    told = [e for e in history.tables["events"] if e["run_id"] == run_id and e["type"] == "progress_changed"]
    told[0]["id"], told[-1]["id"] = told[-1]["id"], told[0]["id"]


def tells_no_end(history: History) -> None:
    history.tables["events"][:] = [row for row in history.tables["events"] if row["type"] != "run_finished"]


def tells_no_trial(history: History) -> None:
    history.tables["events"][:] = [row for row in history.tables["events"] if row["type"] != "trial_added_or_updated"]


def grows(history: History) -> None:
    history.series[:] = [{"at": 2.0 * n, "steady_rss_mb": 150 + n, "connections": 10} for n in range(400)]


def leaves_a_process(history: History) -> None:
    history.left_over["processes"] = ["4711 python"]


def leaves_files(history: History) -> None:
    history.left_over["files"] = [str(n) for n in range(1000)]


DONE: dict[Callable[[History], Any], str] = {
    deletes_an_answer: "answer lost",
    invents_an_answer: "answer from nowhere",
    duplicates_a_call_in_peace: "paid twice",
    duplicates_many_calls_at_a_fault: "more repeated than in flight",
    hides_what_was_lost: "repeats not told",
    moves_a_tag_without_base: "release without its base",
    moves_a_tag_without_a_row: "audit log and tag differ",
    takes_a_revision_away: "tag not linear",
    overshoots_a_budget: "budget over",
    spends_more_than_answers: "spending",
    leaves_a_lease: "lease left over",
    changes_a_score: "mean does not follow",
    changes_the_score_of_a_trial: "score does not follow",
    lets_another_one_win: "winner",
    turns_a_verdict_round: "verdict does not follow",
    leaves_a_run_open: "run did not end",
    forgets_why: "run without a reason",
    leaves_a_workflow_open: "workflow left open",
    loses_a_run: "store and Temporal differ",
    loses_a_run_that_was_cancelled_at_work: "store and Temporal differ",
    tells_an_event_twice: "event told twice",
    tells_rounds_out_of_order: "events out of order",
    tells_no_end: "end not told once",
    tells_no_trial: "trial not told",
    grows: "not flat",
    leaves_a_process: "left over",
    leaves_files: "left over",
}


@pytest.mark.parametrize("done", DONE, ids=lambda done: done.__name__)
def test_what_is_done_to_it_is_found(done: Callable[[History], None], history: History) -> None:
    done(history)
    assert DONE[done] in checks_that_fail(history)


def test_a_run_that_was_cancelled_before_it_began_is_nothing_to_find(history: History) -> None:
    history.executions.append({"id": "at-once", "type": "OptimizationWorkflow", "status": "CANCELED"})
    assert violations_of(history) == []


def test_a_violation_is_told_with_what_is_needed_to_look_at_it(history: History) -> None:
    deletes_an_answer(history)
    found = violations_of(history)
    report = report_of(history, found, seed=3, minutes=0.2, began=history.faults[0]["at"], skipped={"step clock": "missing"})
    assert "seed 3" in report
    assert f"**answer lost**, `{found[0].run_id}` at " in report
    assert "| step clock | skipped: missing |" in report
