"""Reports in Markdown, HTML and JUnit XML, charts and exports: what they tell, and that text stays text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest

from clients.reports.charts import lineage_chart, regression_matrix, score_chart, spend_chart, turns_of
from clients.reports.exports import mermaid
from clients.reports.facts import RunFacts
from clients.reports.gates import meets
from clients.reports.html import html
from clients.reports.junit import junit_xml
from clients.reports.markdown import fenced, markdown
from clients.reports.optimizer_notes import measured_ancestors
from clients.reports.text.boxes import Verbosity
from tests.support.report_examples import facts, the_example
from workflows.model.trial import Purpose

HOSTILE = (
    "</title></style><script>alert(1)</script> | a **b** `c` \x1b[31m ]]> \"'&<img src=x onerror=alert(2)>\n```\n# heading"
)


def hostile() -> RunFacts:
    """A run whose every text tries to be markup."""
    run = facts([0.5, 0.9, None], values={1: {"systemPrompt": HOSTILE}}, message=HOSTILE)
    iterations = [
        one.model_copy(update={"rationale": HOSTILE, "failure_reason": HOSTILE if one.score is None else None})
        for one in run.iterations
    ]
    return run.model_copy(update={"iterations": tuple(iterations), "use_case": HOSTILE, "experiment": HOSTILE})


class Tags(HTMLParser):
    """Every element and attribute of a document."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.mark.parametrize("verbosity", list(Verbosity))
def test_markup_in_texts_is_shown_by_the_page_and_never_obeyed(verbosity: Verbosity) -> None:
    page = html(hostile(), verbosity)
    found = Tags(page)
    assert not {"script", "img", "iframe", "link", "object"} & set(found.tags)
    assert not [name for name in found.attributes if name.startswith("on")]
    assert "&lt;script&gt;" in page


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    page = html(the_example(), Verbosity.FULL)
    assert "default-src 'none'" in page
    assert not re.search(r"(?:src|href|url\()\s*=?\s*[\"']?(?:https?:)?//", page)


def test_the_page_shows_every_chart_that_has_something_to_show() -> None:
    page = html(the_example(), Verbosity.FULL)
    for heading in ("Score over iterations", "Samples", "Lineage", "Best value", "Iterations, the best first"):
        assert f"<h2>{heading}</h2>" in page
    assert page.count("<svg") == 3


def test_the_score_chart_has_a_mark_for_every_trial_and_names_the_best() -> None:
    chart = score_chart(facts([0.5, 0.7, None, 0.6]))
    assert chart.count('<circle class="trial"') == 2
    assert chart.count('<circle class="best"') == 1
    assert chart.count('class="failed"') == 1
    assert 'aria-label="Score of 3 trials; the best is 0.70"' in chart


def test_charts_of_nothing_are_empty() -> None:
    nothing = facts([None])
    assert [chart(nothing) for chart in (score_chart, lineage_chart, regression_matrix, spend_chart)] == [""] * 4


def test_every_parent_has_its_arrow() -> None:
    run = facts([0.5, 0.6, 0.7])
    first, second, third = run.iterations
    merged = third.model_copy(update={"parents": (first.candidate_id, second.candidate_id)})
    run = run.model_copy(update={"iterations": (first, second.model_copy(update={"parents": (first.candidate_id,)}), merged)})
    assert lineage_chart(run).count('<path class="edge"') == 3
    assert [line.strip() for line in mermaid(run).splitlines() if "-->" in line] == ["n0 --> n1", "n0 --> n2", "n1 --> n2"]


def test_samples_are_told_by_what_became_of_them() -> None:
    run = facts([0.5, 0.9])
    before, after = run.iterations
    before = before.model_copy(update={"sample_means": (1.0, 0.0, 1.0, 0.0, None)})
    after = after.model_copy(update={"sample_means": (1.0, 1.0, 0.0, 0.0, 1.0)})
    assert turns_of(run.model_copy(update={"iterations": (before, after)})) == ["both", "fixed", "broken", "neither"]


def test_markdown_tells_gate_figures_and_the_change_as_a_diff() -> None:
    run = the_example()
    text = markdown(run, Verbosity.FULL, [meets("score > 0.9", run), meets("verdict == better", run)])
    assert "- ✅ gate met" in text
    assert "- ❌ gate not met" in text
    assert "```diff" in text
    assert "\n+ You are a knowledgeable shopping assistant" in text


def test_markdown_in_texts_is_text() -> None:
    text = markdown(hostile(), Verbosity.FULL)
    outside = re.sub(r"(?ms)^(`{3,})diff\n.*?\n\1$", "", text)
    assert "<script" not in outside
    assert "\n# heading" not in outside
    assert "\x1b" not in text


def test_a_fence_is_longer_than_any_in_the_text() -> None:
    assert fenced("a ````` b").startswith("``````\n")


def test_junit_has_a_case_for_the_run_and_for_each_gate() -> None:
    run = the_example()
    suite = ElementTree.fromstring(junit_xml(run, [meets("score > 0.9", run), meets("verdict == better", run)]))[0]
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == ["the run completes", "gate: score > 0.9", "gate: verdict == better"]
    assert [case.find("failure") is not None for case in cases] == [False, False, True]
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")


def test_junit_survives_hostile_texts_and_says_that_a_run_failed() -> None:
    run = hostile().model_copy(update={"status": "failed"})
    suite = ElementTree.fromstring(junit_xml(run))[0]
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "<script>" in (failure.get("message") or "")


def test_a_mermaid_label_carries_no_text_of_a_model() -> None:
    graph = mermaid(hostile())
    assert "script" not in graph
    assert graph.startswith("flowchart TD\n")


def test_a_lineage_goes_through_candidates_that_were_measured_in_part() -> None:
    run = the_example()
    first, *others = run.iterations
    part = first.model_copy(
        update={"candidate_id": "r1-part", "purpose": Purpose.EXPLORATION, "parents": (first.candidate_id,), "samples": 4}
    )
    children = [one.model_copy(update={"parents": ("r1-part",)}) for one in others]
    run = run.model_copy(update={"iterations": (first, *children), "further": (part,)})
    lines = [line.strip() for line in mermaid(run).splitlines()]
    assert 'p0("r1-part<br/>measured in part")' in lines
    assert "n0 --> p0" in lines
    assert "p0 --> n1" in lines
    assert measured_ancestors(run)[others[0].candidate_id] == (first.candidate_id,)
    assert lineage_chart(run).count("<path") >= len(others)
