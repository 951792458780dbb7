"""Reports in Markdown, HTML and JUnit XML, and exports: what they tell, and that text stays text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from clients.reports import page_modules
from clients.reports.exports import mermaid
from clients.reports.facts import RunFacts
from clients.reports.gates import meets
from clients.reports.html import html
from clients.reports.junit import junit_xml
from clients.reports.markdown import fenced, markdown
from clients.reports.page_modules import PAGE, page_script
from clients.reports.text.boxes import Verbosity
from ratchet._text.visible import visible
from tests.support.html_reports import HtmlReport
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


HOSTILE_ANSWER = {"/optimizations/run-1": json.dumps({"name": HOSTILE, "told": "<!--<script>"})}


def test_markup_in_texts_is_data_of_the_report_and_never_its_markup() -> None:
    run = hostile()
    document = html(run, HOSTILE_ANSWER, [meets("score > 0.9", run)])
    found = HtmlReport(document)
    assert found.tags.count("script") == 2
    assert not {"img", "iframe", "link", "object"} & set(found.tags)
    assert not [name for name in found.attributes if name.startswith("on")]
    assert "alert(1)</script>" not in document and "<!--" not in document
    assert found.data["answers"]["/optimizations/run-1"]["name"] == HOSTILE
    assert "&lt;script&gt;" in document.partition("<style>")[0]


def test_the_report_loads_nothing_and_runs_its_own_script_only() -> None:
    document = html(the_example(), {})
    policy = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', document)[0]
    assert policy.startswith("default-src 'none'; ")
    for directive, tag in (("script-src", '<script type="module">'), ("style-src", "<style>")):
        inside = document.partition(tag)[2].partition(f"</{tag[1:].split()[0].rstrip('>')}>")[0]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy
    assert "unsafe" not in policy
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", document)
    assert visible(document) == document  # what a terminal may not show would change the script


def test_the_report_tells_figures_and_how_it_fared_at_the_gates() -> None:
    run = the_example()
    found = HtmlReport(html(run, {}, [meets("score > 0.9", run), meets("verdict == worse", run)]))
    assert [gate["met"] for gate in found.words["gates"]] == [True, False]
    assert found.figures["Objective"] == "MAXIMIZE success rate"
    assert found.figures["Rounds"] == "11, 12 trials, 0 proposals rejected"
    assert found.figures["Took"] == "15m 30s"


def test_every_module_of_the_page_is_understood_and_comes_after_those_it_imports() -> None:
    script = page_script()
    order = re.findall(r'^modules\["([^"]+)"\] = ', script, re.MULTILINE)
    for body in script.split("\nmodules[")[1:]:
        name = body.partition('"')[2].partition('"')[0]
        for needed in re.findall(r'^const .* = modules\["([^"]+)"\];$', body, re.MULTILINE):
            assert order.index(needed) < order.index(name)
    assert order[-1] == "app.js"
    assert "report_source.js" in order and "source.js" not in order
    written = {path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*.js")}
    # What screens beside the runs consist of is loaded when they are first shown; a report has none of them.
    left_out = written - set(order)
    assert left_out - {name for name in left_out if name.partition("/")[0] in ("start", "prompts", "datasets", "labels")} == {
        *("source.js", "library/list.js", "views/matrix.js", "views/matrix_answer.js", "views/matrix_grid.js"),
        *("views/matrix_pages.js", "views/candidate_choices.js"),
    }


def test_a_module_that_exports_in_another_way_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app.js").write_text("export default function show() {}\n")
    monkeypatch.setattr(page_modules, "PAGE", tmp_path)
    with pytest.raises(page_modules.NotUnderstood, match=r"app\.js: export default"):
        page_script()


def test_every_parent_has_its_arrow() -> None:
    run = facts([0.5, 0.6, 0.7])
    first, second, third = run.iterations
    merged = third.model_copy(update={"parents": (first.candidate_id, second.candidate_id)})
    run = run.model_copy(update={"iterations": (first, second.model_copy(update={"parents": (first.candidate_id,)}), merged)})
    assert [line.strip() for line in mermaid(run).splitlines() if "-->" in line] == ["n0 --> n1", "n0 --> n2", "n1 --> n2"]


def test_markdown_tells_gate_figures_and_the_change_as_a_diff() -> None:
    run = the_example()
    text = markdown(run, Verbosity.FULL, [meets("score > 0.9", run), meets("verdict == worse", run)])
    assert text.splitlines()[2].startswith("**Better: 0.85 → 0.95, +0.10 (95% CI +0.01…+0.19, p = 0.01)")
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
    suite = ElementTree.fromstring(junit_xml(run, [meets("score > 0.9", run), meets("verdict == worse", run)]))[0]
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == ["the run completes", "gate: score > 0.9", "gate: verdict == worse"]
    assert [case.find("failure") is not None for case in cases] == [False, False, True]
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    leads = suite.find("properties/property")
    assert leads is not None and (leads.get("value") or "").startswith("Better: 0.85 → 0.95, +0.10")


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
