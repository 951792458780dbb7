"""One line per iteration, for whoever watches a long run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from clients.reports.facts import IterationStep, RunFacts, decision_on, steps, treatment
from clients.reports.formatting import telling_apart
from clients.reports.text.terminal_text import ellipsized, one_line
from workflows.model.failures import without_traceback

LONGEST_REASON = 200
OF_THE_SEARCH = "(these are scores of the search; what holds is confirmed at the end)"
"""Said once before the first of them."""


def starting_line(facts: RunFacts) -> str:
    """The first line: what is optimized, and which way."""
    factors = treatment(facts)
    label = "treatmentFactor" if len(factors) == 1 else "treatmentFactors"
    objective = facts.direction.value.upper()
    return f"{_prefix(facts)} Starting: {label}={','.join(factors) or 'none'}, objective={objective}"


def iteration_text(step: IterationStep) -> str:
    """An iteration without the run's name; the baseline is never marked as a new best."""
    number, best = step.iteration.number, step.best.score if step.best else None
    if step.iteration.score is None:
        stands = telling_apart(best)[0] if best is not None else "none"
        reason = ellipsized(
            one_line(without_traceback(step.iteration.failure_reason or "no reason was recorded")), LONGEST_REASON
        )
        return f"Iteration {number}: {step.iteration.status.value} (best={stands}): {reason}"
    if best is None:
        return f"Iteration {number}: score={telling_apart(step.iteration.score)[0]} (best=none)"
    score, stands = telling_apart(step.iteration.score, best)
    mark = " ↑ NEW BEST" if step.new_best and number else ""
    return f"Iteration {number}: score={score} (best={stands}){mark}"


def terminated_line(facts: RunFacts) -> str:
    """The last line: why the run ended. There is none while it goes on."""
    return f"{_prefix(facts)} Terminated: {one_line(without_traceback(termination(facts)))}"


def termination(facts: RunFacts) -> str:
    """Why the run ended, in words."""
    if facts.result is None:
        return facts.message or f"not yet ({facts.status})"
    return facts.result.message or facts.result.stop_reason.value.replace("_", " ")


def progress_lines(facts: RunFacts, *, shown: int | None = None) -> list[str]:
    """All lines of a run so far; with `shown`, those that follow after so many iterations were shown.

    Iterations keep their numbers, so a display that remembers how many it has shown never repeats or misses one.
    """
    lines = [starting_line(facts)] if shown is None else []
    new = (step for step in _to_tell(facts) if step.iteration.number >= (shown or 0))
    lines += [f"{_prefix(facts)} {iteration_text(step)}" for step in new]
    return [*lines, terminated_line(facts)] if facts.is_over else lines


def told(facts: RunFacts) -> int:
    """How many iterations have a line by now."""
    return sum(1 for _ in _to_tell(facts))


def decision_texts(facts: RunFacts, told_rounds: int = 0) -> list[str]:
    """What the rounds after the first few decided about each candidate, and why, by the number of its iteration."""
    numbers = {iteration.candidate_id: iteration.number for iteration in facts.iterations}
    decisions = (decision for record in facts.rounds[told_rounds:] if record.round for decision in record.decisions)
    return [
        f"{numbers.get(decision.candidate_id, decision.candidate_id)}: {one_line(decision.explanation)}"
        for decision in decisions
        if decision.explanation
    ]


def _to_tell(facts: RunFacts) -> Iterator[IterationStep]:
    """A round is told once it is decided: what is printed stays, and a mere score might not become the best."""

    def is_settled(step: IterationStep) -> bool:
        return facts.is_over or not step.iteration.round or decision_on(facts, step.iteration) is not None

    return takewhile(is_settled, steps(facts))


def _prefix(facts: RunFacts) -> str:
    return f"OPTIMIZE [{one_line(facts.use_case)}]"
