"""A run as JUnit XML, which every CI system shows: one case for the run, one for each gate."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from clients.reports.facts import RunFacts
from clients.reports.gates import GateResult
from clients.reports.headline import headline_of
from clients.reports.text.boxes import Verbosity, box
from clients.reports.text.progress_lines import termination
from clients.reports.text.terminal_text import visible


def junit_xml(facts: RunFacts, gates: Sequence[GateResult] = ()) -> str:
    """The document. What XML cannot carry (control characters) is shown in its visible form."""
    ended = facts.finished_at or facts.started_at
    seconds = max((ended - facts.started_at).total_seconds(), 0.0)
    cases = [_run_case(facts, seconds), *(_gate_case(facts, gate) for gate in gates)]
    failures = sum("<failure" in case for case in cases)
    counts = f'tests="{len(cases)}" failures="{failures}" errors="0" skipped="0" time="{seconds:.3f}"'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f"<testsuites {counts}>",
            f'<testsuite name={_attribute(f"ratchet: {facts.run_id}")} {counts} timestamp="{facts.started_at.isoformat()}">',
            f'<properties><property name="headline" value={_attribute(headline_of(facts).words)}/></properties>',
            *cases,
            f"<system-out>{escape(visible(box(facts, Verbosity.SUMMARY)))}</system-out>",
            "</testsuite>",
            "</testsuites>",
            "",
        ]
    )


def _run_case(facts: RunFacts, seconds: float) -> str:
    failure = "" if facts.status == "completed" else f"{facts.status}: {termination(facts)}"
    return _case(facts, "the run completes", failure, seconds)


def _gate_case(facts: RunFacts, gate: GateResult) -> str:
    return _case(facts, f"gate: {gate.gate}", "" if gate.met else gate.words, 0.0)


def _case(facts: RunFacts, name: str, failure: str, seconds: float) -> str:
    head = f'<testcase classname={_attribute(f"ratchet.{facts.use_case}")} name={_attribute(name)} time="{seconds:.3f}"'
    return f"{head}/>" if not failure else f"{head}><failure message={_attribute(failure)}/></testcase>"


def _attribute(text: str) -> str:
    return quoteattr(visible(text))
