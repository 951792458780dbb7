"""Numbers and words as people read them: scores, percentages, durations, the objective, the causes of an end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ratchet.optimizer import StopReason

if TYPE_CHECKING:
    from workflows.model.spec.objective import Component, Objective
    from workflows.model.spec.request import OptimizationRequest

DECIMALS: Final = 4
MOST_DECIMALS: Final = 17

CAUSES: Final[dict[StopReason, str]] = {
    StopReason.TARGET_REACHED: "SCORE_THRESHOLD_REACHED",
    StopReason.CONVERGENCE: "COMPLETED",
    StopReason.NO_IMPROVEMENT: "NO_IMPROVEMENT",
    StopReason.ALGORITHM_SPECIFIC: "COMPLETED",
    StopReason.MAX_ROUNDS: "MAX_ITERATIONS",
    StopReason.TIME_BUDGET: "TIME_BUDGET_EXHAUSTED",
    StopReason.TOKEN_BUDGET: "TOKEN_BUDGET_EXHAUSTED",
    StopReason.COST_BUDGET: "COST_BUDGET_EXHAUSTED",
    StopReason.SAMPLE_BUDGET: "COST_BUDGET_EXHAUSTED",  # samples and trials are what is paid for
    StopReason.BASELINE_FAILED: "EXECUTION_FAILURE",
    StopReason.FIRST_LOOK: "SCORING_FAILURE",
    StopReason.PROPOSAL_FAILURE: "MUTATION_FAILURE",
    StopReason.SCORING_FAILURE: "SCORING_FAILURE",
    StopReason.EXECUTION_FAILURE: "EXECUTION_FAILURE",
    StopReason.TOO_MANY_FAILURES: "EXECUTION_FAILURE",
    StopReason.STOPPED_EARLY: "STOPPED_EARLY",
    StopReason.CANCELLED: "CANCELLED",
    StopReason.COMPLETED: "COMPLETED",
}
"""Why the run ended, in the exported history's words; Ratchet's own reason is written beside it."""

FROM_OUTSIDE: Final = {"failed": "EXECUTION_FAILURE", "cancelled": "CANCELLED", "terminated": "CANCELLED"}
"""The same for runs that were ended from outside, by their status."""


def score_text(score: float, decimals: int = DECIMALS) -> str:
    """Two to four decimals; what is smaller than 0.01 keeps three significant digits instead."""
    if score and not 0.01 <= abs(score) < 1e9:
        return f"{score:.{decimals - 1}g}"
    whole, _, fraction = f"{score:.{decimals}f}".partition(".")
    text = f"{whole}.{fraction.rstrip('0').ljust(2, '0')}"
    return "0.00" if text == "-0.00" else text


def telling_apart(*scores: float) -> list[str]:
    """The scores as text, with as many decimals as it takes for different scores to look different."""
    for decimals in range(DECIMALS, MOST_DECIMALS):
        texts = [score_text(score, decimals) for score in scores]
        if len(set(texts)) == len(set(scores)):
            return texts
    return [repr(score) for score in scores]


def counted(count: int, noun: str) -> str:
    """`1 trial`, `1,200 trials`"""
    return f"{count:,} {noun if count == 1 else noun + 's'}"


def tokens_text(tokens: int, cached: int) -> str:
    """`12,400 tokens (3,000 from a cache)`"""
    return f"{tokens:,} tokens{cached_text(cached)}"


def cached_text(cached: int) -> str:
    """Tell the tokens that came from a provider's cache, behind all tokens; nothing where none did."""
    return f" ({cached:,} from a cache)" if cached else ""


def signed(difference: float, decimals: int = DECIMALS) -> str:
    """A score's difference, always with its sign."""
    text = score_text(difference, decimals)
    return text if text.startswith("-") else f"+{text}"


def percent_text(percent: float) -> str:
    """`+11.76%`"""
    text = f"{percent:+.2f}%"
    return "+0.00%" if text == "-0.00%" else text


def change_text(before: float, after: float) -> str:
    """`+11.76%`; from 0, of which nothing is a percentage, `+0.12`."""
    if not before:
        return signed(after)
    return percent_text((after - before) / abs(before) * 100)


def duration_text(seconds: float) -> str:
    """`45s`, `12m 3s`, `2h 5m`, `3d 4h`"""
    whole = max(round(seconds), 0)
    units = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s")]
    first = next((place for place, (amount, _) in enumerate(units) if amount), 3)
    shown = units[first : first + 2]
    return " ".join(f"{amount}{unit}" for amount, unit in shown if amount or unit == units[first][1])


def objective_text(request: OptimizationRequest) -> str:
    """`MAXIMIZE success rate`"""
    objective = request.objective
    direction = objective.direction.value.upper()
    if objective.kind == "python":
        return f"{direction} {objective.ref}"
    if objective.kind == "weighted":
        parts = " + ".join(f"{part.weight * 100:.0f}% {_part_text(part, request)}" for part in objective.components)
        return f"{direction} {parts}"
    return f"{direction} {_part_text(objective, request)}"


def _part_text(part: Objective | Component, request: OptimizationRequest) -> str:
    """The kind in words, with the score's name where it says something."""
    # Here, so that a list of runs need not load the whole spec to write down its scores.
    from workflows.model.spec.objective import OVER_LABELS
    from workflows.rules.scoring.objective_score import label_measure

    metric = part.metric or request.metric
    if part.kind == "mean":
        return f"mean {metric}"
    words = label_measure(part) if part.kind in OVER_LABELS else part.kind.replace("_", " ")
    words = words[:1].lower() + words[1:]
    return words if len(request.scorers) == 1 else f"{words} of {metric}"
