"""Charts of a run as SVG: no script, no fonts, no colours of their own but classes that the page's style sheet knows.

Whatever a chart shows in words is escaped here; a chart that has nothing to show is empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from clients.reports.facts import Iteration, RunFacts, best_iteration, decision_on, first_success, steps
from clients.reports.formatting import score_text
from clients.reports.optimizer_notes import measured_ancestors
from clients.reports.pareto_front import front_objectives, front_of
from clients.reports.text.terminal_text import one_line

WIDTH: Final = 760
HEIGHT: Final = 260
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 16, 34
SIGMAS: Final = 1.96
"""95 % of a normal distribution."""
MOST_NODES: Final = 400
COLUMN: Final = 90
"""Of the lineage: pixels between two rounds."""
STRAIGHT, MOST_BENT = 12.0, 56.0
CELL: Final = 12
PASSED: Final = 0.5


@dataclass(frozen=True, slots=True)
class Axis:
    """From values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, wanted: int = 5) -> list[float]:
        """Round numbers between the ends."""
        span = self.high - self.low
        if span <= 0 or not math.isfinite(span):
            return [self.low]
        step = 10 ** math.floor(math.log10(span / wanted))
        step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= wanted)
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


def score_chart(facts: RunFacts) -> str:
    """Every trial's score over the iterations, with its interval over samples, and the best so far as a line."""
    scored = [one for one in facts.iterations if one.score is not None]
    if not scored:
        return ""
    spans = {one.number: interval(one) for one in scored}
    values = [value for span in spans.values() for value in span]
    x = Axis(0, max(one.number for one in facts.iterations) or 1, LEFT, WIDTH - RIGHT)
    y = _vertical(values)
    marks = [_grid(x, y, "iteration", "score")]
    marks.append(_best_line(facts, x, y))
    marks += [_trial_mark(facts, one, spans[one.number], x, y) for one in scored]
    marks += [
        f'<text class="failed" x="{x.at(one.number)}" y="{HEIGHT - BOTTOM - 4}">×{_title(_told(facts, one))}</text>'
        for one in facts.iterations
        if one.score is None
    ]
    return _svg(marks, HEIGHT, f"Score of {len(scored)} trials; the best is {score_text(_best_score(facts))}")


def interval(iteration: Iteration) -> tuple[float, float]:
    """The score's 95 % interval over its samples, where the score is their mean; else the score itself."""
    assert iteration.score is not None
    means = [mean for mean in iteration.sample_means or () if mean is not None]
    if len(means) < 2 or abs(math.fsum(means) / len(means) - iteration.score) > 1e-9:
        return iteration.score, iteration.score
    variance = math.fsum((mean - iteration.score) ** 2 for mean in means) / (len(means) - 1)
    half = SIGMAS * math.sqrt(variance / len(means))
    return iteration.score - half, iteration.score + half


def lineage_chart(facts: RunFacts) -> str:
    """Who came from whom: a column a round, an arrow from every parent. What was measured in part only is passed over."""
    shown = facts.iterations[:MOST_NODES]
    if len(shown) < 2:
        return ""
    rounds: dict[int, list[Iteration]] = {}
    for one in shown:
        rounds.setdefault(one.round, []).append(one)
    columns = {number: place for place, number in enumerate(sorted(rounds))}
    tallest = max(len(column) for column in rounds.values())
    height, width = max(120, 40 * tallest + 70), max(WIDTH, COLUMN * len(columns) + 30)
    place = {
        one.candidate_id: (45 + COLUMN * columns[number], round(20 + (height - 20) * (row + 1) / (len(column) + 1), 1))
        for number, column in rounds.items()
        for row, one in enumerate(column)
    }
    ancestors = measured_ancestors(facts)
    arrows = [
        _arrow(place[parent], place[one.candidate_id])
        for one in shown
        for parent in ancestors[one.candidate_id]
        if parent in place
    ]
    nodes = [_node(facts, one, *place[one.candidate_id]) for one in shown]
    return _svg([*arrows, *nodes], height, f"Lineage of {len(shown)} candidates", width)


def pareto_chart(facts: RunFacts) -> str:
    """Gains over the baseline in the first two objectives, where a run has several; the front is filled."""
    front, names = front_of(facts), front_objectives(facts)
    if len(names) < 2:
        return ""
    first, second = names[:2]
    points = [(m.gains.get(first, 0.0), m.gains.get(second, 0.0), m.candidate_id) for m in front]
    x = _spread([point[0] for point in points], LEFT, WIDTH - RIGHT)
    y = _spread([point[1] for point in points], HEIGHT - BOTTOM, TOP)
    marks = [_grid(x, y, f"gain in {first}", f"gain in {second}")]
    marks += [
        f'<circle class="best" cx="{x.at(a)}" cy="{y.at(b)}" r="5">{_title(f"{name}: {a:+.4g}, {b:+.4g}")}</circle>'
        for a, b, name in points
    ]
    return _svg(marks, HEIGHT, f"Pareto front of {len(points)} candidates")


def regression_matrix(facts: RunFacts) -> str:
    """One square a sample: fixed, broken, passed in both or in neither, by the baseline and the best."""
    turns = turns_of(facts)
    if not turns:
        return ""
    columns = (WIDTH - 20) // (CELL + 2)
    squares = [
        f'<rect class="{turn}" x="{10 + index % columns * (CELL + 2)}" y="{10 + index // columns * (CELL + 2)}" '
        f'width="{CELL}" height="{CELL}">{_title(f"sample {index + 1}: {turn}")}</rect>'
        for index, turn in enumerate(turns)
    ]
    counts = ", ".join(f"{turns.count(turn)} {turn}" for turn in ("fixed", "broken", "both", "neither"))
    return _svg(squares, 20 + math.ceil(len(turns) / columns) * (CELL + 2), f"Samples: {counts}")


def turns_of(facts: RunFacts) -> list[str]:
    """What became of each sample between baseline and best, where both were answered on the same ones."""
    baseline, best = first_success(facts), best_iteration(facts)
    if baseline is None or best is None or baseline is best or not baseline.sample_means or not best.sample_means:
        return []
    pairs = zip(baseline.sample_means, best.sample_means, strict=False)
    return [_turn(one, other) for one, other in pairs if one is not None and other is not None]


def _turn(before: float, after: float) -> str:
    match before >= PASSED, after >= PASSED:
        case True, True:
            return "both"
        case True, False:
            return "broken"
        case False, True:
            return "fixed"
    return "neither"


def spend_chart(facts: RunFacts) -> str:
    """What was paid after each round, with the budget as a line where there is one."""
    costs = [(record.round, record.spend.cost) for record in facts.rounds]
    if not costs or not costs[-1][1]:
        return ""
    budget = facts.limits.budget.cost
    x = Axis(0, costs[-1][0] or 1, LEFT, WIDTH - RIGHT)
    y = Axis(0, max(costs[-1][1], budget) * 1.05, HEIGHT - BOTTOM, TOP)
    marks = [_grid(x, y, "round", "cost"), _path("spend", [(x.at(number), y.at(cost)) for number, cost in costs])]
    if budget:
        marks.append(f'<line class="budget" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y.at(budget)}" y2="{y.at(budget)}"/>')
    return _svg(marks, HEIGHT, f"Paid {costs[-1][1]:.4g}" + (f" of {budget:g}" if budget else ""))


def _vertical(values: Sequence[float]) -> Axis:
    return _spread(values, HEIGHT - BOTTOM, TOP)


def _spread(values: Sequence[float], start: float, end: float) -> Axis:
    low, high = min(values), max(values)
    room = (high - low) * 0.08 or abs(high) * 0.1 or 0.1
    return Axis(low - room, high + room, start, end)


def _grid(x: Axis, y: Axis, across: str, up: str) -> str:
    lines = [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y.at(tick)}" y2="{y.at(tick)}"/>'
        f'<text class="tick end" x="{LEFT - 6}" y="{y.at(tick) + 4}">{tick:.4g}</text>'
        for tick in y.ticks()
    ]
    lines += [
        f'<text class="tick middle" x="{x.at(tick)}" y="{HEIGHT - BOTTOM + 16}">{tick:.4g}</text>'
        for tick in x.ticks(10)
        if across not in ("iteration", "round") or float(tick).is_integer()
    ]
    lines.append(f'<text class="axis middle" x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 4}">{_words(across)}</text>')
    return "".join([*lines, f'<text class="axis" x="4" y="12">{_words(up)}</text>'])


def _best_line(facts: RunFacts, x: Axis, y: Axis) -> str:
    points: list[tuple[float, float]] = []
    for step in steps(facts):
        if step.best is None or step.best.score is None:
            continue
        if points:
            points.append((x.at(step.iteration.number), points[-1][1]))
        points.append((x.at(step.iteration.number), y.at(step.best.score)))
    return _path("best-line", points)


def _trial_mark(facts: RunFacts, one: Iteration, span: tuple[float, float], x: Axis, y: Axis) -> str:
    assert one.score is not None
    across, (low, high) = x.at(one.number), span
    bar = f'<line class="interval" x1="{across}" x2="{across}" y1="{y.at(low)}" y2="{y.at(high)}"/>' if high > low else ""
    kind = "best" if one is best_iteration(facts) else "trial"
    return f'{bar}<circle class="{kind}" cx="{across}" cy="{y.at(one.score)}" r="4">{_title(_told(facts, one))}</circle>'


def _node(facts: RunFacts, one: Iteration, x: float, y: float) -> str:
    kind = "best" if one is best_iteration(facts) else "failed" if one.score is None else "trial"
    text = "failed" if one.score is None else score_text(one.score)
    return (
        f'<g><circle class="node {kind}" cx="{x}" cy="{y}" r="9">{_title(_told(facts, one))}</circle>'
        f'<text class="tick middle" x="{x}" y="{y + 22}">{text}</text></g>'
    )


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    """A curve; where it would run through the candidates between, it is bent over them."""
    half, bend = (start[0] + end[0]) / 2, _bend(start, end)
    return f'<path class="edge" d="M{start[0]},{start[1]} C{half},{start[1] - bend} {half},{end[1] - bend} {end[0]},{end[1]}"/>'


def _bend(start: tuple[float, float], end: tuple[float, float]) -> float:
    columns = round((end[0] - start[0]) / COLUMN)
    return min(14.0 * columns, MOST_BENT) if columns > 1 and abs(start[1] - end[1]) < STRAIGHT else 0.0


def _path(kind: str, points: Iterable[tuple[float, float]]) -> str:
    return f'<polyline class="{kind}" points="{" ".join(f"{x},{y}" for x, y in points)}"/>'


def _told(facts: RunFacts, one: Iteration) -> str:
    decision = decision_on(facts, one)
    score = one.failure_reason or "failed" if one.score is None else score_text(one.score)
    verdict = f", {decision.verdict.value.replace('_', ' ')}" if decision and decision.verdict else ""
    return f"iteration {one.number}, {one.candidate_id}: {score}{verdict}"


def _best_score(facts: RunFacts) -> float:
    best = best_iteration(facts)
    return best.score if best is not None and best.score is not None else 0.0


def _title(text: str) -> str:
    return f"<title>{_words(text)}</title>"


def _words(text: str) -> str:
    return escape(one_line(text))


def _svg(marks: Sequence[str], height: float, label: str, width: float = WIDTH) -> str:
    head = f'<svg role="img" viewBox="0 0 {width:g} {height:g}" aria-label="{escape(one_line(label), quote=True)}">'
    return f"{head}{''.join(marks)}</svg>"
