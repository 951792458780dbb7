"""What a notebook shows of a run: everything that was written by others is text, and nothing of it is a script."""

from __future__ import annotations

from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

from clients.reports.notebook.progress_cell import FollowedRun, progress_cell, progress_text
from clients.reports.notebook.result_cell import result_cell
from store.read.rows.run_rows import LiveProgress, TrialInFlight
from tests.support.report_examples import BETTER, FINISHED, STARTED, confirmed, facts, request, the_example
from workflows.model.run.first_look import FirstLook
from workflows.model.run.rounds import Counts, Spend
from workflows.model.trial import Purpose

HOSTILE = "<img src=x onerror=alert(1)>\"'&</style></pre><script>alert(2)</script>\u202e\x1b[31m$x^2$"


class Cell(HTMLParser):
    """The elements of a cell, and its text as a reader sees it."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        assert self._open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if self._open[-1:] != ["style"] else ""


def progress(**changes: Any) -> LiveProgress:
    values: dict[str, Any] = {
        "run_id": "shop-1",
        "name": "shop",
        "use_case": "shop",
        "experiment": "prompt",
        "status": "running",
        "optimizer": "refine",
        "direction": "maximize",
        "objective": "exact",
        "round": 2,
        "stop_reason": None,
        "message": "",
        "counts": Counts(completed=3, running=1),
        "spend": Spend(samples=60, tokens=9000, cost=0.5),
        "started_at": STARTED,
        "updated_at": STARTED + timedelta(seconds=30),
        "finished_at": None,
        "answered": 5,
        "expected": 20,
        "baseline_score": 0.5,
        "baseline_candidate_id": "r0-a",
        "best_score": 0.75,
        "best_candidate_id": "r1-b",
        "in_flight": (
            TrialInFlight(candidate_id="r3-c", purpose=Purpose.CANDIDATE, round=3, answered=5, expected=20, started_at=STARTED),
        ),
    }
    return LiveProgress.model_validate({**values, **changes})


def test_a_result_leads_with_what_was_confirmed_and_shows_what_changed_word_by_word() -> None:
    run = facts([0.5, None, 0.75], values={2: {"systemPrompt": BETTER}}, confirmation=confirmed())
    cell = Cell(result_cell(run))
    assert cell.text.index("Better: ") < cell.text.index("In the search") < cell.text.index("What changed")
    assert "systemPrompt" in cell.text
    assert {"ins", "del", "svg", "details"} <= set(cell.tags)
    assert "Objective" in cell.text
    assert "1 failed" in cell.text
    assert ("class", "failed") in cell.attributes


def test_what_others_wrote_is_text_wherever_it_stands() -> None:
    spec = request(configuration={"systemPrompt": {"value": HOSTILE, "change": "text"}, "model": HOSTILE})
    run = facts(
        [0.5, 0.75],
        spec=spec,
        values={1: {"systemPrompt": f"{HOSTILE} and more\n{HOSTILE}"}},
        status="failed",
        message=HOSTILE,
        first_look=FirstLook(warnings=(HOSTILE,)),
    ).model_copy(update={"use_case": HOSTILE, "run_id": HOSTILE})
    moving = FollowedRun(HOSTILE, progress(use_case=HOSTILE), spec, run, HOSTILE, [HOSTILE], [HOSTILE], [HOSTILE])
    over = FollowedRun(HOSTILE, progress(status="failed", finished_at=FINISHED, message=HOSTILE), spec, run, "", [], [HOSTILE])
    waiting = FollowedRun(HOSTILE, note=HOSTILE)
    for html in (result_cell(run), *map(progress_cell, (moving, over, waiting))):
        cell = Cell(html)
        assert not {"script", "img", "a", "iframe", "link"} & set(cell.tags)
        assert not [name for name, _ in cell.attributes if name.startswith("on") or name in ("href", "src")]
        assert "<script>alert(2)</script>" in cell.text
        assert "\u202e" not in html
        assert "\x1b" not in html
        assert cell.tags.count("style") == 1
        assert ("class", "ratchet tex2jax_ignore mathjax_ignore") in cell.attributes


def test_a_run_under_way_shows_its_trials_its_scores_and_the_newest_lines() -> None:
    lines = [f"line {n}" for n in range(9)]
    shown = FollowedRun("shop-1", progress(), request(), facts([0.5, 0.75], reason=None), "", [], lines)
    cell = Cell(progress_cell(shown))
    assert "r3-c 5/20" in cell.text
    assert ("style", "width:25.0%") in cell.attributes
    assert "0.50 → 0.75" in cell.text
    assert "svg" in cell.tags
    assert "line 8" in cell.text
    assert "line 4" not in cell.text
    assert progress_text(shown).startswith("shop-1: running, round 3; 0.50 → 0.75")
    over = FollowedRun("shop-1", progress(status="completed", finished_at=FINISHED), request(), None, "", [], ["line 0"] * 5)
    assert "What happened, in 5 lines" in Cell(progress_cell(over)).text


def test_variations_stand_side_by_side_and_a_measurement_has_nothing_to_compare() -> None:
    explored = request(optimizer={"name": "none", "configurations": [{"model": "gpt-5"}]})
    cell = Cell(result_cell(facts([0.5, 0.75], spec=explored, values={1: {"model": "gpt-5"}})))
    assert "table" in cell.tags
    assert "model=gpt-5" in cell.text
    assert "the baseline" in cell.text
    measured = Cell(result_cell(facts([0.5], spec=request(optimizer="none"))))
    assert not {"table", "svg"} & set(measured.tags)


def test_the_example_is_drawn_without_words_in_the_drawing() -> None:
    html = result_cell(the_example())
    drawn = html[html.index("<svg") : html.index("</svg>")]
    assert "<text" not in drawn
    assert Cell(drawn + "</svg>").text == ""
