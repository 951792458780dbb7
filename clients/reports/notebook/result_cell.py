"""What came of a run, below a cell: what it comes to, the search as a drawing, what changed, and the figures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from clients.reports.comparisons.diff import FactorDifference, differences
from clients.reports.comparisons.score_differences import difference_text
from clients.reports.facts import RunFacts, best_iteration, compared
from clients.reports.figures import figures
from clients.reports.formatting import telling_apart
from clients.reports.headline import Headline, Outcome, headline_of
from clients.reports.notebook.markup import Markup, cell, element, pill, rows
from clients.reports.notebook.trial_chart import trial_chart
from clients.reports.text.progress_lines import termination
from clients.reports.text.terminal_text import ellipsized, one_line
from workflows.model.spec.factors import Configuration

OUTCOMES: Final = {
    Outcome.BETTER: "good",
    Outcome.NOT_WORSE: "good",
    Outcome.UNPROVEN: "warn",
    Outcome.UNCONFIRMED: "warn",
    Outcome.NOTHING: "bad",
}
STATUSES: Final = {"completed": None, "failed": "bad", "terminated": "bad", "cancelled": "warn", "paused": "warn"}
LONGEST_LINE: Final = 60
"""Characters of a value that stands beside its name; a longer one gets a block of its own."""
MOST_COMPARED: Final = 50


def result_cell(facts: RunFacts) -> str:
    """Write a run, finished or not, as HTML that shows itself."""
    found = headline_of(facts)
    return cell(
        head(facts.use_case, facts.run_id, facts.status, brief(found)),
        element("p", found.words, class_="leads"),
        (element("p", element("span", f"{name}: ", class_="soft"), text) for name, text in found.beside),
        _ended_badly(facts),
        _warnings(facts),
        _comparison(facts) if facts.request.optimizer.is_comparison else trial_chart(facts),
        _changes(facts),
        element("details", element("summary", "Figures"), rows(figures(facts))),
        label=f"Result of run {facts.run_id}",
    )


def head(use_case: str, run_id: str, status: str, verdict: Markup | None = None) -> Markup:
    """Write the first line: which run it is, how it stands, and what it comes to in a word."""
    is_named_after_it = run_id.startswith(use_case)
    return element(
        "div",
        element("strong", run_id if is_named_after_it else use_case),
        " ",
        None if is_named_after_it else element("span", run_id, class_="soft"),
        " ",
        pill(status, STATUSES.get(status, "accent")),
        " ",
        verdict,
        class_="head",
    )


def brief(found: Headline) -> Markup | None:
    """What it comes to, as in a column of a list; nothing while it goes on."""
    return pill(found.brief, OUTCOMES.get(found.outcome)) if found.brief and found.outcome is not Outcome.OPEN else None


def _ended_badly(facts: RunFacts) -> Markup | None:
    """Why it ended, with where a plug-in raised, if it did not end as everybody hopes."""
    if not facts.is_over or facts.status == "completed":
        return None
    return element("p", termination(facts), class_="notice", data_kind="bad")


def _warnings(facts: RunFacts) -> Iterator[Markup]:
    """What is probably wrong with the measurement."""
    for warning in facts.first_look.warnings if facts.first_look is not None else ():
        yield element("p", warning, class_="notice")


def _comparison(facts: RunFacts) -> Markup | None:
    """The variations side by side, the best first; None where only the baseline was measured."""
    found = compared(facts)
    if len(found) < 2:
        return None
    scores = telling_apart(*(iteration.score or 0.0 for iteration, _ in found))
    told = [
        element(
            "tr",
            element("td", score),
            element("td", "" if difference is None else difference_text(difference)),
            element("td", _brief_changes(facts.request.baseline, iteration.configuration) or "the baseline"),
        )
        for (iteration, difference), score in zip(found[:MOST_COMPARED], scores, strict=False)
    ]
    heads = element("tr", (element("th", name) for name in ("Score", "Difference", "What differs")))
    left = len(found) - len(told)
    more = element("p", f"and {left} more: .trials() has all of them", class_="soft") if left else None
    return element("div", element("table", element("thead", heads), element("tbody", told)), more)


def _brief_changes(baseline: Configuration, other: Configuration) -> str:
    changed = differences(baseline, other)
    return ", ".join(f"{one.factor}={ellipsized(one_line(_text(one.after)), LONGEST_LINE)}" for one in changed)


def _changes(facts: RunFacts) -> Iterator[Markup]:
    """What the result differs in from what the run began with; else what the search's winner would have changed."""
    best, unproven = best_iteration(facts), facts.result.unproven if facts.result is not None else None
    baseline = facts.request.baseline
    if best is not None and (changed := differences(baseline, best.configuration)):
        yield element("h4", "What changed" if facts.is_over else "What the best so far changes")
        yield from (_difference(one) for one in changed)
    elif unproven is not None and (changed := differences(baseline, unproven.configuration)):
        yield element("h4", "What the winner of the search would have changed, and does not hold")
        yield from (_difference(one) for one in changed)


def _difference(found: FactorDifference) -> Markup:
    before, after = _text(found.before), _text(found.after)
    if "\n" not in before + after and len(before) + len(after) <= LONGEST_LINE:
        values = element("span", element("del", before), " → ", element("ins", after), class_="change")
        return element("p", element("span", f"{found.factor}: ", class_="soft"), values)
    names = {"same": "span", "removed": "del", "added": "ins"}
    pieces = (element(names[piece.kind], piece.text) for piece in found.segments)
    return element("div", element("span", found.factor, class_="soft"), element("pre", pieces))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
