"""A run as Markdown, for pull requests, job summaries and wikis. What users and models wrote is fenced or escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from clients.reports.comparisons.diff import FactorDifference, differences
from clients.reports.compressions import edit_text
from clients.reports.facts import Iteration, RunFacts, best_iteration, compared, decision_on, slices_to_tell
from clients.reports.figures import figures
from clients.reports.formatting import score_text
from clients.reports.gates import GateResult
from clients.reports.headline import headline_of
from clients.reports.pareto_front import front_objectives, front_of, gain_text, member_name
from clients.reports.text.boxes import Verbosity
from clients.reports.text.progress_lines import termination
from clients.reports.text.terminal_text import ellipsized, one_line, visible
from ratchet._text.markdown_tables import inert
from workflows.model.failures import split_traceback, without_traceback
from workflows.rules.scoring.slices import Slices

ROWS: Final = 20
"""Trials that a summary lists; a full report lists all."""
LONGEST_CELL: Final = 120


def markdown(facts: RunFacts, verbosity: Verbosity = Verbosity.SUMMARY, gates: Sequence[GateResult] = ()) -> str:
    """The run's report, and how it fared at the gates."""
    parts = [f"## {escaped(facts.use_case)} / {escaped(facts.experiment)}", _headline(facts), _end(facts, gates)]
    where = split_traceback(termination(facts))[1]
    parts += [fenced(where)] if where and facts.is_over else []
    if verbosity is Verbosity.MINIMAL:
        return "\n\n".join(part for part in [*parts, *_best_value(facts)] if part) + "\n"
    parts += [_figures(facts), *_best_value(facts), *_edits(facts), *_front(facts), *_iterations(facts, verbosity)]
    slices = slices_to_tell(facts, in_full=verbosity is Verbosity.FULL)
    parts += [] if slices is None else _slices(slices)
    if verbosity is Verbosity.FULL:
        parts += [*_decisions(facts), *_rejections(facts)]
    return "\n\n".join(part for part in parts if part) + "\n"


def escaped(text: str, longest: int | None = None) -> str:
    """On one line, with nothing left that Markdown or HTML would obey."""
    line = one_line(text)
    line = line if longest is None else ellipsized(line, longest)
    return inert(line)


def fenced(text: str, kind: str = "") -> str:
    """A block of code whose fence is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{kind}\n{visible(text)}\n{fence}"


def _end(facts: RunFacts, gates: Sequence[GateResult]) -> str:
    lines = [f"- {'✅' if gate.met else '❌'} {escaped(gate.words)}" for gate in gates]
    if facts.status != "completed":
        lines.append(f"- **{facts.status.upper()}**: {escaped(without_traceback(termination(facts)))}")
    if facts.first_look is not None:
        lines += [f"- ⚠️ {escaped(warning)}" for warning in facts.first_look.warnings]
    return "\n".join(lines)


def _headline(facts: RunFacts) -> str:
    """What the run comes to, and what is told beside it."""
    found = headline_of(facts)
    lines = [f"**{escaped(found.words)}**", ""]
    return "\n".join([*lines, *(f"- {label}: {escaped(text)}" for label, text in found.beside)]).strip()


def _figures(facts: RunFacts) -> str:
    rows = [*figures(facts), ("Run", facts.run_id)]
    return table(("", ""), [(f"**{label}**", escaped(text)) for label, text in rows])


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; its cells are escaped already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _best_value(facts: RunFacts) -> list[str]:
    best = best_iteration(facts)
    if best is None:
        return []
    changed = differences(facts.request.baseline, best.configuration)
    if not changed:
        return ["### Best value", "The baseline itself.", *_unproven(facts)]
    return ["### Best value", *[part for change in changed for part in _change(change)]]


def _unproven(facts: RunFacts) -> list[str]:
    """What the search's winner would have changed, where it does not hold."""
    found = facts.result.unproven if facts.result is not None else None
    if found is None:
        return []
    changed = differences(facts.request.baseline, found.configuration)
    return [f"### Unproven: {escaped(found.candidate_id)}", *[part for change in changed for part in _change(change)]]


def _change(change: FactorDifference) -> list[str]:
    """A text as a diff by lines; anything else as before and after."""
    return [f"**{escaped(change.factor)}**", fenced(line_diff(change), "diff")]


def line_diff(change: FactorDifference) -> str:
    """Whole lines with `-`, `+` or a blank before them."""
    import difflib

    before = "".join(segment.text for segment in change.segments if segment.kind != "added").splitlines()
    after = "".join(segment.text for segment in change.segments if segment.kind != "removed").splitlines()
    return "\n".join(line for line in difflib.ndiff(before, after) if not line.startswith("?"))


def _edits(facts: RunFacts) -> list[str]:
    found = facts.result.compression if facts.result is not None else None
    if found is None or not found.edits:
        return []
    lines = [f"- {'✅' if edit.kept else '❌'} {escaped(edit_text(edit))}" for edit in found.edits]
    return ["### Edits, the largest saving first", "\n".join(lines)]


def _front(facts: RunFacts) -> list[str]:
    names = front_objectives(facts)
    if len(names) < 2:
        return []
    rows = [
        (escaped(member_name(facts, member)), *(escaped(gain_text(member, name)) for name in names))
        for member in front_of(facts)
    ]
    return ["### Pareto front, gains over the baseline", table(("candidate", *map(escaped, names)), rows)]


def _iterations(facts: RunFacts, verbosity: Verbosity) -> list[str]:
    rows = compared(facts)
    shown = rows if verbosity is Verbosity.FULL else rows[:ROWS]
    if not shown:
        return []
    heads = ("#", "candidate", "score", "passed", "verdict in its round", "cost", "why")
    cells = [_iteration(facts, iteration) for iteration, _ in shown]
    left = len(rows) - len(shown)
    more = [f"…and {left} more; `ratchet report RUN --verbosity full --format markdown` lists them."] if left else []
    return ["### Trials of the search, the best first", table(heads, cells), *more]


def _iteration(facts: RunFacts, iteration: Iteration) -> tuple[str, ...]:
    decision = decision_on(facts, iteration)
    statistics = iteration.statistics
    return (
        str(iteration.number),
        escaped(iteration.candidate_id),
        "" if iteration.score is None else score_text(iteration.score),
        f"{statistics.success_count}/{statistics.sample_count}",
        escaped(decision.verdict.value) if decision and decision.verdict else "",
        f"{statistics.total_cost:.4g}",
        escaped(iteration.rationale or "", LONGEST_CELL),
    )


def _slices(slices: Slices) -> list[str]:
    rows = [
        (
            escaped(part.name),
            f"{part.samples:,}",
            *("" if one is None else score_text(one) for one in (part.baseline, part.best)),
        )
        for part in slices.slices
    ]
    left = [f"…and {count:,} more values of {escaped(field)}." for field, count in slices.left_out.items()]
    heading = f"### Slices of the {slices.split.value} samples"
    return [heading, table(("slice", "samples", "baseline", "best"), rows), *left]


def _decisions(facts: RunFacts) -> list[str]:
    told = [(iteration, decision_on(facts, iteration)) for iteration in facts.iterations if iteration.round]
    lines = [f"- {one.number}: {escaped(decision.explanation)}" for one, decision in told if decision and decision.explanation]
    return ["### Decisions", "\n".join(lines)] if lines else []


def _rejections(facts: RunFacts) -> list[str]:
    if not facts.rejections:
        return []
    rows = [(str(found.round), escaped(found.reason_code), escaped(found.message, LONGEST_CELL)) for found in facts.rejections]
    return ["### Rejected before any spend", table(("round", "reason", "message"), rows)]
