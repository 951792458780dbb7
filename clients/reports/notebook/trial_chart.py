"""The scores of a search as a small drawing: every trial, and the best so far.

What it says in words stands around it, not in it: a front end that shows no drawings leaves nothing strange behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from clients.reports.facts import IterationStep, RunFacts, first_success, steps
from clients.reports.formatting import counted, telling_apart
from clients.reports.notebook.markup import Markup, element

WIDTH: Final = 640
HEIGHT: Final = 132
MARGIN: Final = 8
MOST_INTERVALS: Final = 80
"""More of them would be a grey wall."""


class _Scale:
    """From places and scores to the drawing's own units."""

    def __init__(self, trials: int, low: float, high: float) -> None:
        room = (high - low) * 0.04 or abs(high) * 0.1 or 0.1
        self.low, self.high, self._trials = low - room, high + room, trials

    def x(self, place: float) -> float:
        return round(MARGIN + (place + 0.5) / self._trials * (WIDTH - 2 * MARGIN), 1)

    def y(self, score: float) -> float:
        return round(HEIGHT - MARGIN - (score - self.low) / (self.high - self.low) * (HEIGHT - 2 * MARGIN), 1)


def trial_chart(facts: RunFacts) -> Markup | None:
    """Draw the search; None where there is nothing to compare."""
    found = list(steps(facts))
    scores = [step.iteration.score for step in found if step.iteration.score is not None]
    if len(scores) < 2:
        return None
    with_intervals = len(found) <= MOST_INTERVALS
    spans = [(step.iteration.low, step.iteration.high) for step in found] if with_intervals else []
    ends = [end for span in spans for end in span if end is not None]
    low, high = min([*scores, *ends]), max([*scores, *ends])
    scale = _Scale(len(found), low, high)
    drawn = element(
        "svg",
        element("line", class_="edge", x1=0, x2=WIDTH, y1=HEIGHT, y2=HEIGHT, vector_effect="non-scaling-stroke"),
        _baseline(facts, scale),
        _intervals(found, scale) if with_intervals else None,
        _best_line(found, scale),
        _marks(found, scale),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=_words(facts, scores),
    )
    top, bottom = telling_apart(high, low) if high != low else (telling_apart(high)[0], "")
    ends_of_scale = element("div", element("span", top), " ", element("span", bottom), class_="scale")
    plot = element("div", ends_of_scale, drawn, class_="plot")
    return element("figure", plot, element("figcaption", _words(facts, scores)))


def _words(facts: RunFacts, scores: Sequence[float]) -> str:
    told = f"In the search: {counted(len(facts.iterations), 'trial')} in {counted(facts.round, 'round')}"
    failed = len(facts.iterations) - len(scores)
    dashed = "dashed is the baseline" if first_success(facts) else ""
    parts = [told, f"{failed} failed" if failed else "", dashed, "the line is the best so far"]
    return "; ".join(part for part in parts if part)


def _baseline(facts: RunFacts, scale: _Scale) -> Markup | None:
    first = first_success(facts)
    if first is None or first.score is None:
        return None
    y = scale.y(first.score)
    return element("path", class_="baseline", d=f"M{MARGIN} {y}H{WIDTH - MARGIN}", **_stroke(1, "4 4"))


def _intervals(found: Sequence[IterationStep], scale: _Scale) -> Markup | None:
    spans = ((place, step.iteration.low, step.iteration.high) for place, step in enumerate(found))
    pieces = [
        f"M{scale.x(place)} {scale.y(low)}V{scale.y(high)}"
        for place, low, high in spans
        if low is not None and high is not None and low < high
    ]
    return element("path", class_="interval", d="".join(pieces), **_stroke(1.5)) if pieces else None


def _best_line(found: Sequence[IterationStep], scale: _Scale) -> Markup | None:
    path = ""
    for place, step in enumerate(found):
        if step.new_best and step.iteration.score is not None:
            x, y = scale.x(place), scale.y(step.iteration.score)
            path += f"H{x}V{y}" if path else f"M{x} {y}"
    return element("path", class_="best", d=f"{path}H{WIDTH - MARGIN}", **_stroke(2)) if path else None


def _marks(found: Sequence[IterationStep], scale: _Scale) -> Iterator[Markup]:
    """Dots are lines of no length with round ends: they stay round however wide the drawing is shown."""
    for kind, width in (("tried", 6.0), ("kept", 8.0)):
        dots = [
            f"M{scale.x(place)} {scale.y(step.iteration.score)}h0"
            for place, step in enumerate(found)
            if step.iteration.score is not None and step.new_best is (kind == "kept")
        ]
        if dots:
            yield element("path", class_=f"dot {kind}", d="".join(dots), **_stroke(width))
    failed = [f"M{scale.x(place)} {HEIGHT - 6}v-8" for place, step in enumerate(found) if step.iteration.score is None]
    if failed:
        yield element("path", class_="failed", d="".join(failed), **_stroke(2))


def _stroke(width: float, dashes: str | None = None) -> dict[str, str | float | None]:
    """What a line needs where no style reaches it."""
    return {
        "fill": "none",
        "stroke": "currentColor",
        "stroke_width": width,
        "stroke_dasharray": dashes,
        "stroke_linecap": None if dashes else "round",
        "vector_effect": "non-scaling-stroke",
    }
