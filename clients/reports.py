"""Reports: what a run is told as. Boxes and lines for the terminal, YAML for the files, JSON for programs.

    facts = facts_of(await reader.report(run_id))
    print(box(facts, Verbosity.SUMMARY))

Everything here returns plain text or plain values; print it without markup.
"""

from clients.reporting.boxes import Verbosity, box
from clients.reporting.entries import get_entries, report_json
from clients.reporting.facts import (
    Improvement,
    Iteration,
    IterationStatus,
    RunFacts,
    Statistics,
    Step,
    best_iteration,
    fixed_factors,
    improvement,
    steps,
    treatment,
)
from clients.reporting.figures import CAUSES
from clients.reporting.history import fingerprint, history_of
from clients.reporting.history_files import NotAHistory, history_json, history_text, read_history, write_history
from clients.reporting.history_format import SCHEMA_VERSION, RecordedHistory
from clients.reporting.progress_lines import progress_lines, starting_line, terminated_line
from clients.reporting.stored import facts_of
from clients.reporting.summary_text import progress_text, status_text

__all__ = [
    "CAUSES",
    "SCHEMA_VERSION",
    "Improvement",
    "Iteration",
    "IterationStatus",
    "NotAHistory",
    "RecordedHistory",
    "RunFacts",
    "Statistics",
    "Step",
    "Verbosity",
    "best_iteration",
    "box",
    "facts_of",
    "fingerprint",
    "fixed_factors",
    "get_entries",
    "history_json",
    "history_of",
    "history_text",
    "improvement",
    "progress_lines",
    "progress_text",
    "read_history",
    "report_json",
    "starting_line",
    "status_text",
    "steps",
    "terminated_line",
    "treatment",
    "write_history",
]
