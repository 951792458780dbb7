"""The figures of a run, each with its name: what Markdown and the HTML report list."""

from __future__ import annotations

from clients.reports.comparisons.score_differences import error_rate_text
from clients.reports.compressions import compression_text
from clients.reports.facts import RunFacts, treatment
from clients.reports.formatting import counted, duration_text, objective_text
from clients.reports.optimizer_notes import counted_text, lost_rounds_text, parts_text
from clients.reports.release_outcome import release_text
from clients.reports.removal_notes import hold_text, removal_text
from clients.reports.text.progress_lines import termination
from clients.reports.text.summary import (
    adjusted_text,
    can_find,
    errors_text,
    exceeded_text,
    importance_text,
    lost_text,
    means_text,
    reused_text,
    score_interval,
    spent_text,
)
from workflows.model.failures import without_traceback


def figures(facts: RunFacts) -> list[tuple[str, str]]:
    """Pair each figure that has something to say with its name. The texts may hold what users and models wrote."""
    compression = facts.result.compression if facts.result is not None else None
    rows = [
        ("Objective", objective_text(facts.request)),
        ("Treatment", ", ".join(treatment(facts)) or "none"),
        ("Interval", score_interval(facts)),
        ("Means", means_text(facts)),
        ("Rounds", f"{facts.round}, {counted(len(facts.iterations), 'trial')}, {facts.counts.rejected} proposals rejected"),
        ("Can find", can_find(facts)),
        ("Error rate", error_rate_text(facts.request.judgement)),
        ("Release", release_text(facts)),
        ("Spent", spent_text(facts)),
        ("Prices", facts.versions.get("prices", "")),
        ("Counted", counted_text(facts)),
        ("In part", parts_text(facts)),
        ("Lost rounds", lost_rounds_text(facts)),
        ("Errors", errors_text(facts)),
        ("Adjusted", adjusted_text(facts)),
        ("Mattered", importance_text(facts)),
        ("Reused", reused_text(facts)),
        ("Lost", lost_text(facts)),
        ("Removed", removal_text(facts.removals)),
        ("Held", hold_text(facts.legal_holds)),
        ("Exceeded", exceeded_text(facts)),
        ("Compressed", "" if compression is None else compression_text(compression)),
        ("Took", _took(facts)),
        ("Ended", without_traceback(termination(facts))),
    ]
    return [(label, text) for label, text in rows if text]


def _took(facts: RunFacts) -> str:
    return "" if facts.finished_at is None else duration_text(facts.elapsed_seconds(facts.finished_at))
