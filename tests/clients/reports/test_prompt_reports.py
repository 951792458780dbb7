"""Reports of runs over prompts: which prompt, which sections, and what became of them."""

from __future__ import annotations

from clients.reports.text.boxes import Verbosity, box
from tests.support.prompted_specs import read
from tests.support.report_examples import box_rows, facts

BETTER = {"section:rules/labels": "Stay {{factors.tone}}.\nRead {{factors.role}} twice."}


def test_a_report_names_the_prompt_and_where_it_was_found() -> None:
    stored = box(facts([0.5, 0.75], spec=read(), values={1: BETTER}), Verbosity.SUMMARY)
    assert box_rows(stored, "Prompt:") == ["Prompt:           support/triage (stable, revision 3)"]
    written = box(facts([0.5, 0.75], spec=read(prompt={"file": "triage.yaml"}), values={1: BETTER}), Verbosity.SUMMARY)
    assert box_rows(written, "Prompt:") == ["Prompt:           support/triage (triage.yaml)"]


def test_sections_are_shown_whole_and_frozen_ones_among_what_is_fixed() -> None:
    shown = box(facts([0.5, 0.75], spec=read(), values={1: BETTER}), Verbosity.SUMMARY)
    assert "section:rules/labels" in shown and "Read {{factors.role}} twice." in shown
    assert "section:role=You sort tickets of {{input.shop}}." in " ".join(box_rows(shown, "Fixed factors:"))
