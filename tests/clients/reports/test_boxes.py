"""Boxes, progress lines and status summaries, for runs of every kind and for text of every kind."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from clients.reports.formatting import duration_text, percent_text, score_text, telling_apart
from clients.reports.markdown import markdown
from clients.reports.text.boxes import Verbosity, box
from clients.reports.text.progress_lines import progress_lines, told
from clients.reports.text.summary import status_text
from clients.reports.text.terminal_text import visible, wrapped
from ratchet.optimizer import StopReason
from tests.support.report_examples import FINISHED, STARTED, box_rows, confirmed, facts, first_block, request, the_example
from workflows.model.run.candidates import ReasonCode, Rejection
from workflows.model.run.decisions import Decision
from workflows.model.run.rounds import Counts, Spend
from workflows.model.spec.judgement import Verdict

TWO_FACTORS: dict[str, Any] = {
    "model": "gpt-4",
    "system_prompt": {"value": "Short.", "change": "text"},
    "temperature": {"value": 0.7, "change": "structured", "type": "number", "min": 0, "max": 1},
}
PYTHON_PROPOSER = {"proposer": {"kind": "python", "ref": "shop.propose:better"}}


def test_the_text_report_tells_what_was_spent_and_by_whose_prices() -> None:
    known = the_example().model_copy(update={"versions": {"prices": "genai-prices 0.0.70, as of 2026-11-20: gpt-4"}})
    for verbosity in (Verbosity.SUMMARY, Verbosity.FULL):
        told = first_block(box(known, verbosity))
        assert "Spent: 0.125, 108,000 tokens, 240 calls, 12 trials" in told
        assert "Prices: genai-prices 0.0.70, as of 2026-11-20: gpt-4" in told
    assert "Spent:" not in box(known, Verbosity.MINIMAL)
    free = known.model_copy(update={"versions": {}, "spend": Spend(samples=240, trials=12)})
    assert "Spent:" not in box(free) and "Prices:" not in box(free)


# -- scores and other figures


@pytest.mark.parametrize(
    ("score", "text"),
    [
        (0.85, "0.85"),
        (0.9, "0.90"),
        (1.0, "1.00"),
        (0.0, "0.00"),
        (-0.0, "0.00"),
        (0.8750, "0.875"),
        (0.84999999, "0.85"),
        (0.12345678, "0.1235"),
        (-0.5, "-0.50"),
        (12.5, "12.50"),
        (0.00123456, "0.00123"),
        (1.5e-7, "1.5e-07"),
        (2e12, "2e+12"),
    ],
)
def test_a_score_has_two_to_four_decimals_and_small_ones_keep_their_digits(score: float, text: str) -> None:
    assert score_text(score) == text


def test_scores_that_differ_look_different() -> None:
    assert telling_apart(0.85, 0.85) == ["0.85", "0.85"]
    assert telling_apart(0.85001, 0.85002) == ["0.85001", "0.85002"]
    one, other = telling_apart(0.1 + 0.2, 0.3)
    assert one != other


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_any_two_scores_that_differ_look_different(one: float, other: float) -> None:
    first, second = telling_apart(one, other)
    assert (first == second) == (one == other)


def test_percentages_and_durations() -> None:
    assert [percent_text(value) for value in (11.7647, -40.0, 0.0, -0.001)] == ["+11.76%", "-40.00%", "+0.00%", "+0.00%"]
    assert [duration_text(value) for value in (0, 59.6, 723, 7500, 7200, 273600, -3)] == [
        "0s",
        "1m",
        "12m 3s",
        "2h 5m",
        "2h",
        "3d 4h",
        "0s",
    ]


# -- what a box says


def test_several_treatment_factors_are_labelled_with_a_gap_and_each_shows_its_value() -> None:
    spec = request(configuration=TWO_FACTORS, optimizer=PYTHON_PROPOSER)
    text = box(facts([0.5, 0.75], spec=spec, values={1: {"system_prompt": "Be brief.\nBe kind.", "temperature": 0.4}}))

    assert "║  Treatment:        system_prompt, temperature                    ║" in text
    assert "║  Fixed factors:    model=gpt-4                                   ║" in text
    assert text.splitlines()[-6:-1] == [
        "║  Best values:                                                    ║",
        "║    system_prompt:                                                ║",
        "║      Be brief.                                                   ║",
        "║      Be kind.                                                    ║",
        "║    temperature: 0.4                                              ║",
    ]


def test_only_what_the_proposer_can_change_is_the_treatment() -> None:
    assert box_rows(box(facts([0.5], spec=request(configuration=TWO_FACTORS))), "Treatment") == [
        "Treatment factor: system_prompt"
    ]
    stepping = request(configuration=TWO_FACTORS, optimizer={"proposer": {"kind": "step"}})
    assert box_rows(box(facts([0.5], spec=stepping)), "Treatment") == ["Treatment factor: temperature"]


def test_what_a_persons_own_candidate_changed_belongs_to_the_treatment() -> None:
    text = box(facts([0.5, 0.6], spec=request(configuration=TWO_FACTORS), values={1: {"temperature": 0.1}}))
    assert box_rows(text, "Treatment") == ["Treatment:        system_prompt, temperature"]


def test_minimizing_shows_the_score_as_it_went() -> None:
    spec = request(objective={"kind": "mean", "metric": "exact", "direction": "minimize"})
    run = facts([0.5, 0.6, 0.3, 0.3], spec=spec)
    text = box(run, Verbosity.FULL)

    assert "Objective:        MINIMIZE mean exact" in text
    assert "Best iteration:   2 " in text
    assert "Not confirmed, in the search 0.50 → 0.30, r2-" in text
    assert progress_lines(run)[3].endswith("Iteration 2: score=0.30 (best=0.30) ↑ NEW BEST")
    assert progress_lines(run)[4].endswith("Iteration 3: score=0.30 (best=0.30)")


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        ({"kind": "cost_efficiency"}, ["MAXIMIZE cost efficiency"]),
        ({"kind": "python", "ref": "shop.eval:value"}, ["MAXIMIZE shop.eval:value"]),
        (
            {"kind": "weighted", "components": [{"kind": "success_rate", "weight": 0.7}, {"kind": "mean", "weight": 0.3}]},
            ["MAXIMIZE 70% success rate + 30% mean exact"],
        ),
    ],
)
def test_every_kind_of_objective_is_told_in_words(objective: dict[str, Any], words: list[str]) -> None:
    [row] = box_rows(box(facts([0.5], spec=request(objective=objective))), "Objective:")
    assert row == f"Objective:        {words[0]}"


def test_an_improvement_from_zero_has_no_percentage() -> None:
    assert "Score:            0.00 → 0.50 (+0.50)" in box(facts([0.0, 0.5], confirmation=confirmed(0.0, 0.5)))


def test_a_candidate_that_does_not_hold_is_shown_as_unproven_and_the_baseline_is_the_best_value() -> None:
    given = facts([0.8, 0.9], values={1: {"systemPrompt": "Be brief."}}, confirmation=confirmed(verdict=Verdict.INCONCLUSIVE))
    text = box(given, Verbosity.FULL)
    assert first_block(text).startswith("No improvement was found that holds Unproven: r1-")
    assert box_rows(text, "Score:") == ["Score:            0.81"]
    assert "You are a helpful shopping assistant." in text.partition("Best value:")[2]
    assert "systemPrompt: Be brief." in text.partition("Best value:")[2].partition("Unproven:")[2]
    assert "\n+ Be brief." in markdown(given).partition("### Unproven: r1-")[2]


def test_the_full_report_says_why_each_candidate_was_kept_or_dropped() -> None:
    run = facts([0.8, 0.9])
    decision = Decision(candidate_id=run.iterations[1].candidate_id, kept=True, explanation="kept: score 0.9 beats 0.8 of r0")
    rounds = (run.rounds[0], run.rounds[1].model_copy(update={"decisions": (decision,)}))
    assert "  1: kept: score 0.9 beats 0.8 of r0" in box(run.model_copy(update={"rounds": rounds}), Verbosity.FULL)
    assert "Decisions:" not in box(run, Verbosity.FULL)


def test_what_was_decided_is_shown_even_where_the_score_alone_would_say_otherwise() -> None:
    run = facts([0.8, 0.9])
    dropped = Decision(candidate_id=run.iterations[1].candidate_id, explanation="dropped: judgement.accept asks for better")
    rounds = (run.rounds[0], run.rounds[1].model_copy(update={"decisions": (dropped,)}))
    assert not any("NEW BEST" in line for line in progress_lines(run.model_copy(update={"rounds": rounds})))
    assert any("NEW BEST" in line for line in progress_lines(run))


def test_a_run_whose_baseline_failed_shows_its_status_and_its_message() -> None:
    message = "The baseline failed: 20 of the baseline's 20 samples failed; first error: no such model"
    run = facts([None], reason=StopReason.BASELINE_FAILED, message=message, status="failed")
    for verbosity in Verbosity:
        text = box(run, verbosity)
        assert box_rows(text, "Status:") == ["Status:           FAILED"]
        assert box_rows(text, "Termination:")[0] == "Termination:      The baseline failed: 20 of the baseline's 20"
        assert box_rows(text, "Best value:") == ["Best value:       none"]
    assert "Score:" not in box(run, Verbosity.FULL)
    assert progress_lines(run)[1] == (
        "OPTIMIZE [shopping-assistant] Iteration 0: EXECUTION_FAILED (best=none): the target raised ValueError: no such model"
    )


def test_a_failed_trial_never_wins_and_says_why_it_failed() -> None:
    spec = request(objective={"kind": "mean", "direction": "minimize"})
    lines = progress_lines(facts([0.5, None, 0.4], spec=spec))
    assert lines[2].endswith("Iteration 1: EXECUTION_FAILED (best=0.50): the target raised ValueError: no such model")
    assert lines[3].endswith("Iteration 2: score=0.40 (best=0.40) ↑ NEW BEST")


def test_a_run_that_goes_on_has_no_end_yet() -> None:
    run = facts([0.5, 0.6], reason=None, status="running", counts=Counts(proposed=2, completed=2, running=1))
    text = box(run)
    assert "Iterations:       2 (1 running)" in text
    assert "Status:           RUNNING" in text
    assert "Termination:" not in text
    assert not any("Terminated" in line for line in progress_lines(run))


def test_a_display_that_comes_back_gets_only_what_it_has_not_shown() -> None:
    run = facts([0.5, 0.6, 0.55], reason=None, status="running")
    assert progress_lines(run, shown=2) == ["OPTIMIZE [shopping-assistant] Iteration 2: score=0.55 (best=0.60)"]
    assert progress_lines(run, shown=3) == []


def test_a_round_is_told_once_it_is_decided_so_that_no_line_is_taken_back() -> None:
    run = facts([0.5, 0.6, 0.7], reason=None, status="running")
    undecided = run.model_copy(update={"rounds": run.rounds[:2]})
    assert progress_lines(undecided, shown=0) == [
        "OPTIMIZE [shopping-assistant] Iteration 0: score=0.50 (best=0.50)",
        "OPTIMIZE [shopping-assistant] Iteration 1: score=0.60 (best=0.60) ↑ NEW BEST",
    ]
    assert told(undecided) == 2
    assert progress_lines(run, shown=2) == ["OPTIMIZE [shopping-assistant] Iteration 2: score=0.70 (best=0.70) ↑ NEW BEST"]


def test_a_full_box_counts_the_rejections_by_reason() -> None:
    rejections = tuple(
        Rejection(round=1, proposed_index=index, reason_code=code, message="…")
        for index, code in enumerate([ReasonCode.DUPLICATE, ReasonCode.TOO_LONG, ReasonCode.DUPLICATE])
    )
    text = box(facts([0.5], rejections=rejections), Verbosity.FULL)
    assert box_rows(text, "Rejections:") == ["Rejections:       3 (duplicate 2, too_long 1)"]
    assert "Rejections:" not in box(facts([0.5], rejections=rejections), Verbosity.SUMMARY)


def test_many_long_fixed_factors_are_cut_and_a_full_box_shows_them_all() -> None:
    many = {f"factor_{number}": f"a, rather = long value {'x' * 90}" for number in range(30)}
    spec = request(configuration={**many, "systemPrompt": {"value": "Hi", "change": "text"}})
    rows = box_rows(box(facts([0.5], spec=spec)), "Fixed factors:")
    assert len(rows) == 6 and rows[-1].endswith("…")
    assert rows[0].startswith('Fixed factors:    factor_0="a, rather')
    assert "factor_29=" in box(facts([0.5], spec=spec), Verbosity.FULL)


def test_a_value_that_is_no_text_is_shown_as_json() -> None:
    order = {"tools": {"change": "structured", "type": "order", "value": [{"name": f"tool number {n}"} for n in range(3)]}}
    spec = request(configuration={**order, "model": "gpt-4"}, optimizer={"proposer": {"kind": "step"}})
    assert '║      {                                                           ║\n║        "name": "tool number 0"' in box(
        facts([0.5], spec=spec)
    )


# -- hostile and unusual text


def test_escapes_and_controls_are_shown_instead_of_obeyed() -> None:
    hostile = "\x1b[31mred\x1b[0m \x07bell\rback \x9b2J \u202eevil\u202c \U000e0041 \x7f\ttab"
    assert visible(hostile) == ("␛[31mred␛[0m ␇bell␍back <U+009B>2J <U+202E>evil<U+202C> <U+E0041> ␡    tab")
    run = facts([0.5, 0.6], values={1: {"systemPrompt": hostile}}, message=f"Stopped\nearly {hostile}", use_case="a\nb")
    everything = [box(run, Verbosity.FULL), *progress_lines(run), status_text(run, FINISHED)]
    assert not any(character in text for text in everything for character in "\x1b\x07\r\x9b\u202e\x7f\t")
    assert all("\n" not in line for line in progress_lines(run))


def test_explicit_line_ends_and_blank_lines_are_kept() -> None:
    text = box(facts([0.5, 0.6], values={1: {"systemPrompt": "one\n\n  two\n"}}), Verbosity.MINIMAL)
    assert [line.strip("║").rstrip() for line in text.splitlines()[-5:-1]] == ["    one", "", "      two", ""]


def test_wide_characters_and_emoji_do_not_move_the_border() -> None:
    value = "日本語のプロンプトはとても長いので折り返す必要があります。" * 4 + "\n👩‍💻 ⚠️ 🇩🇪 é e\u0301 क्षि ✅"
    text = box(facts([0.5, 0.6], values={1: {"systemPrompt": value}}), Verbosity.FULL)
    assert {cell_len(line) for line in text.splitlines()} == {68}
    assert "👩‍💻" in text and "⚠️" in text


ANY_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=200) | st.text(
    st.sampled_from("a \n\t\u0301\u200d\ufe0f👩💻🇩🇪日é⚠\u200b\u202e"), min_size=1, max_size=120
)


@settings(max_examples=150, deadline=None)
@given(ANY_TEXT, st.sampled_from(list(Verbosity)))
def test_no_text_whatever_moves_the_border(text: str, verbosity: Verbosity) -> None:
    spec = request(configuration={"fixed": text, "systemPrompt": {"value": "Hi", "change": "text"}})
    run = facts([0.5, None, 0.6], spec=spec, values={2: {"systemPrompt": text}}, message=text, use_case=text, experiment=text)
    lines = box(run, verbosity).split("\n")
    assert {cell_len(line) for line in lines} == {68}
    assert {line[0] + line[-1] for line in lines} <= {"╔╗", "╠╣", "╚╝", "║║"}


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Zl", "Zp", "Mn", "Me"])), st.integers(4, 70))
def test_wrapping_loses_nothing_but_blanks(line: str, width: int) -> None:
    rows = wrapped(line, width)
    assert all(cell_len(row) <= width for row in rows)
    assert "".join("".join(rows).split()) == "".join(line.split())


def test_a_very_long_prompt_is_laid_out_at_once() -> None:
    value = "word " * 30_000 + "x" * 40_000
    assert len(box(facts([0.5, 0.6], values={1: {"systemPrompt": value}})).splitlines()) > 3000


# -- status


def test_the_status_of_a_finished_run() -> None:
    assert status_text(the_example(), FINISHED) == (
        "Run:           run-1\n"
        "Status:        completed\n"
        "Ended:         No improvement in last 5 iterations\n"
        "Round:         11\n"
        "Result:        Better: 0.85 → 0.95, +0.10 (95% CI +0.01…+0.19, p = 0.01), on 40 held-back samples\n"
        f"In the search: 0.85 → 0.95, {the_example().iterations[7].candidate_id}\n"
        "Trials:        12 completed; 12 proposed, 0 rejected\n"
        "Spend:         240 samples, 108,000 tokens, 0.125 cost\n"
        "Time:          15m 30s"
    )


def test_the_status_of_a_running_run_tells_the_search_as_such_and_the_most_that_is_left() -> None:
    running = facts([0.8, 0.9], reason=None, status="running")
    decision = Decision(
        candidate_id=running.iterations[1].candidate_id, kept=True, reference="r0", verdict=Verdict.INCONCLUSIVE
    )
    rounds = (running.rounds[0], running.rounds[1].model_copy(update={"decisions": (decision,)}))
    told = status_text(running.model_copy(update={"rounds": rounds}), STARTED + timedelta(minutes=2))
    assert "Verdict:  inconclusive, in the search against r0" in told
    assert "Result:   In the search so far: 0.80 → 0.90, r1-" in told
    assert "Time:     2m, at most 18m left" in told


def test_the_status_of_a_run_that_has_nothing_yet() -> None:
    run = facts([], reason=None, status="initialized", spend=Spend())
    assert "Result:   Nothing is measured yet" in status_text(run, STARTED + timedelta(seconds=5))
