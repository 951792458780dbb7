"""A run while it goes on, as the terminal draws it and as lines where nothing can be drawn."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console

from clients.reports.text.live import LiveDisplay, PlainDisplay
from clients.reports.text.progress_lines import decision_texts
from store.read.rows.run_rows import LiveProgress, TrialInFlight
from tests.support.report_examples import facts, request
from workflows.model.run.decisions import Decision
from workflows.model.run.rounds import Counts, Spend
from workflows.model.spec.judgement import Verdict
from workflows.model.trial import Purpose


def progress(**changes: Any) -> LiveProgress:
    now = datetime.now(UTC)
    given: dict[str, Any] = {
        "run_id": "triage-1",
        "name": "triage",
        "use_case": "triage",
        "experiment": "triage-1",
        "status": "running",
        "stop_reason": None,
        "message": "",
        "optimizer": "refine",
        "objective": "label",
        "direction": "maximize",
        "round": 4,
        "counts": Counts(proposed=6, running=2, completed=5, rejected=1),
        "spend": Spend(samples=300, tokens=40_000, cost=0.25, trials=5),
        "baseline_candidate_id": "r0-aa",
        "baseline_score": 0.5,
        "best_candidate_id": "r3-bb",
        "best_score": 0.75,
        "search_verdict": Verdict.BETTER,
        "started_at": now - timedelta(seconds=100),
        "updated_at": now,
        "finished_at": None,
        "answered": 12,
        "expected": 120,
        "in_flight": (in_flight("r5-cc", 12), in_flight("r5-dd", 0)),
    }
    return LiveProgress(**{**given, **changes})


def in_flight(candidate_id: str, answered: int) -> TrialInFlight:
    return TrialInFlight(
        candidate_id=candidate_id,
        purpose=Purpose.CANDIDATE,
        round=5,
        answered=answered,
        expected=60,
        started_at=datetime.now(UTC),
    )


def drawn(display: LiveDisplay, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(display)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def display_of(shown: LiveProgress, **spec: Any) -> LiveDisplay:
    display = LiveDisplay("triage-1")
    display.note("")
    display.update(shown, request(**spec))
    return display


def test_the_panel_shows_rounds_trials_in_flight_the_best_spend_and_time_left() -> None:
    shown = drawn(display_of(progress(), budget={"cost": 5}, stop={"max_rounds": 20, "no_improvement": 0}))
    assert "running · round 5" in shown
    assert "4 decided of at most 20" in shown
    assert "r5-cc" in shown
    assert "12/60" in shown
    assert "0.50 → 0.75, r3-bb, better in its round; to be confirmed" in shown
    assert "cost 0.2500 of 5" in shown
    assert "1m 40s · at most 5m 20s left" in shown


def test_many_trials_in_flight_are_summed_up() -> None:
    trials = tuple(in_flight(f"r5-{number}", 1) for number in range(9))
    shown = drawn(display_of(progress(in_flight=trials, answered=9, expected=540)))
    assert "r5-4" in shown
    assert "r5-5" not in shown
    assert "and 4 more" in shown
    assert "9/540 in all" in shown


def test_decisions_are_told_in_words_the_newest_last_and_markup_in_them_is_text() -> None:
    display = display_of(progress())
    display.decided([f"{number}: dropped: score 0.5" for number in range(5)])
    display.decided(["6: kept: [bold]score[/bold] 0.75 beats 0.5 of r0-aa"])
    shown = drawn(display)
    assert "kept: [bold]score[/bold] 0.75" in shown
    assert "4: dropped" in shown
    assert "2: dropped" not in shown
    narrow = drawn(display, width=50)
    assert max(len(line) for line in narrow.splitlines()) <= 50


def test_lines_tell_decisions_only_where_they_are_asked_for_and_notes_once() -> None:
    for asked in (True, False):
        printed: list[str] = []
        display = PlainDisplay(printed.append, decisions=asked)
        with display:
            display.lines(["OPTIMIZE [a] Iteration 1: score=0.5 (best=0.5)"])
            display.decided(["1: kept: because"])
            display.note("a server does not answer, trying again")
            display.note("a server does not answer, trying again")
        assert printed[1:-1] == (["  1: kept: because"] if asked else [])
        assert printed[-1] == "(a server does not answer, trying again)"


def test_each_decision_is_told_once_by_the_number_of_its_iteration() -> None:
    run = facts([0.5, 0.6, 0.4])
    rounds = tuple(
        record.model_copy(
            update={"decisions": (Decision(candidate_id=one.candidate_id, explanation=f"because {one.number}\n!"),)}
        )
        for record, one in zip(run.rounds, run.iterations, strict=True)
    )
    run = run.model_copy(update={"rounds": rounds})
    assert decision_texts(run) == ["1: because 1↵!", "2: because 2↵!"]
    assert decision_texts(run, told_rounds=2) == ["2: because 2↵!"]
    assert decision_texts(run, told_rounds=3) == []
