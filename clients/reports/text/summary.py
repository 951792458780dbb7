"""Where a run stands, in a few lines: from its live progress while it runs, from the store when it is over."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel

from clients.reports.comparisons.score_differences import VERDICTS, plan_text
from clients.reports.facts import (
    RunFacts,
    best_iteration,
    confirmed_trials,
    decision_on,
    errors_met,
    least_coverage,
    plan_of,
)
from clients.reports.formatting import cached_text, change_text, counted, duration_text, score_text, telling_apart, tokens_text
from clients.reports.headline import Headline, headline_of
from clients.reports.release_outcome import release_text
from clients.reports.removal_notes import hold_text, removal_text
from clients.reports.text.progress_lines import termination
from clients.reports.text.terminal_text import one_line
from workflows.model.failures import without_traceback
from workflows.model.run.rounds import Counts, Spend
from workflows.rules.decisions.time_left import seconds_left
from workflows.rules.scoring.error_counts import told

FACTORS = 8
"""Of how many factors the importance is shown."""


def status_text(facts: RunFacts, now: datetime) -> str:
    """A run as the store knows it."""
    plan, found = plan_of(facts), headline_of(facts)
    budget = facts.limits.budget
    limits = {"cost": budget.cost, "tokens": budget.tokens, "samples": budget.samples, "trials": budget.trials}
    return _rows(
        {
            "Run": facts.run_id,
            "Status": facts.status,
            "Ended": without_traceback(termination(facts)) if facts.is_over else "",
            "Round": str(facts.round),
            "Result": found.words,
            **dict(found.beside),
            "Verdict": _search_verdict(facts),
            "Trials": _trials(facts.counts),
            "Can find": plan.words if plan else "",
            "Look": first_look_text(facts),
            "Spend": _spend(facts.spend, limits, facts.cached_tokens),
            "Prices": facts.versions.get("prices", ""),
            "Adjusted": adjusted_text(facts),
            "Release": release_text(facts),
            "Errors": errors_text(facts),
            "Reused": reused_text(facts),
            "Lost": lost_text(facts),
            "Removed": removal_text(facts.removals),
            "Held": hold_text(facts.legal_holds),
            "Exceeded": exceeded_text(facts),
            "Time": time_text(facts, now),
        }
    )


def time_text(facts: RunFacts, now: datetime) -> str:
    """How long the run took so far, as its time budget counts it, how long it stood still, and the most that is left."""
    still, took, limits = facts.stood_still_seconds, facts.elapsed_seconds(now), facts.limits
    allowed = limits.budget.wall_time
    of = f" of {duration_text(allowed.total_seconds())}" if allowed else ""
    left = None
    if facts.status == "running":
        left = seconds_left(limits.stop, limits.budget, facts.spend, facts.round, took)
    parts = [
        f"{duration_text(took)}{of}",
        f"stood still for {duration_text(still)}" if still >= 1 else "",
        f"at most {duration_text(left)} left" if left is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _search_verdict(facts: RunFacts) -> str:
    """What its round decided of the best so far, while nothing is confirmed."""
    best = best_iteration(facts) if not facts.is_over else None
    decision = decision_on(facts, best) if best is not None else None
    if decision is None or decision.verdict is None or decision.reference is None:
        return ""
    return f"{VERDICTS[decision.verdict]}, in the search against {decision.reference}"


def _trials(counts: Counts) -> str:
    told = [f"{counts.completed} completed"]
    told += [
        f"{count} {name}"
        for name, count in (("failed", counts.failed), ("stopped", counts.stopped), ("running", counts.running))
        if count
    ]
    return f"{', '.join(told)}; {counts.proposed} proposed, {counts.rejected} rejected"


def errors_text(facts: RunFacts) -> str:
    """What went wrong, and the share of answers in the iteration that has the fewest; nothing if all is well."""
    errors, coverage = errors_met(facts), least_coverage(facts)
    least = "" if coverage is None or coverage >= 1.0 else f"; coverage {coverage:.1%} at least"
    return told(errors) + least if errors else ""


def score_line(found: Headline) -> str:
    """`0.85 → 0.95 (+11.76%)` where that is confirmed; the score of the baseline where it stays."""
    if found.score is None or found.baseline_score is None:
        return ""
    before, after = telling_apart(found.baseline_score, found.score)
    return f"{before} → {after} ({change_text(found.baseline_score, found.score)})" if found.holds else after


def score_interval(facts: RunFacts) -> str:
    """How sure the best score is, where that is known: `95% CI 0.71…0.93`."""
    best = best_iteration(facts)
    if best is None or best.low is None or best.high is None or confirmed_trials(facts):
        return ""
    return f"95% CI {'…'.join(telling_apart(best.low, best.high))}"


def means_text(facts: RunFacts) -> str:
    """What baseline and winner scored in the confirmation, each with its interval: `0.42 [0.31, 0.54] → …, 95% CI`."""
    sure = [(one.low, one.score, one.high) for one in confirmed_trials(facts) if one.low is not None]
    texts = [telling_apart(*(end for end in each if end is not None)) for each in sure]
    return " → ".join(f"{mean} [{low}, {high}]" for low, mean, high in texts) + ", 95% CI" if texts else ""


def can_find(facts: RunFacts) -> str:
    """The smallest gain that the run could find, and how surely."""
    found = plan_of(facts)
    return "" if found is None else plan_text(found, facts.request.judgement)


def first_look_text(facts: RunFacts) -> str:
    """What is probably wrong, as the baseline's answers told it."""
    return "" if facts.first_look is None else " ".join(facts.first_look.warnings)


def reused_text(facts: RunFacts) -> str:
    """What other runs had paid for already."""
    source = facts.request.optimizer.answers_of
    told = f"{facts.reused:,} of {facts.answers:,} answers" if facts.reused or source is not None else ""
    told = told if source is None else f"{told}, rescored from {source}"
    if not facts.sources_removed:
        return told
    sources = counted(facts.sources_removed, "earlier run")
    missed = f"what {sources} had answered was removed by a policy, and asked and paid again"
    return f"{told}; {missed}" if told else missed


def adjusted_text(facts: RunFacts) -> str:
    """What people changed of stop rules and budget while the run went on: `max_rounds 20 → 30, wall_time none → 2h`."""
    if facts.adjusted is None:
        return ""
    asked: list[tuple[BaseModel, BaseModel]] = [
        (facts.request.stop, facts.adjusted.stop),
        (facts.request.budget, facts.adjusted.budget),
    ]
    changed = [
        f"{name} {_limit_text(getattr(before, name))} → {_limit_text(getattr(after, name))}"
        for before, after in asked
        for name in type(before).model_fields
        if getattr(before, name) != getattr(after, name)
    ]
    return ", ".join(changed)


def _limit_text(limit: Any) -> str:
    if not limit:
        return "none"
    return duration_text(limit.total_seconds()) if isinstance(limit, timedelta) else f"{limit:,}"


def lost_text(facts: RunFacts) -> str:
    """What counts against the budget without an answer to show for it."""
    lost = facts.lost
    parts = []
    if lost.samples and not lost.tokens and not lost.cost:
        parts.append(f"{lost.samples:,} calls without an answer may have been paid for; nobody knows what they took")
    elif lost.samples or lost.tokens or lost.cost:
        at_most = ", ".join([f"{lost.tokens:,} tokens", *([f"cost {score_text(lost.cost)}"] if lost.cost else [])])
        parts.append(f"{lost.samples:,} calls without an answer may have been paid for, with at most {at_most}")
    return "; ".join(parts)


def exceeded_text(facts: RunFacts) -> str:
    """How many calls took more than they were said to take at most."""
    calls = facts.lost.exceeded
    return f"{counted(calls, 'call')} took more than was set aside; raise target.at_most or max_tokens" if calls else ""


def importance_text(facts: RunFacts) -> str:
    """Which of the searched factors mattered, the most important first; nothing where that is not known."""
    found = facts.result.importances if facts.result is not None else None
    shown = [f"{one.factor} {one.share:.0%}" for one in found.factors[:FACTORS]] if found else []
    left = len(found.factors) - len(shown) if found else 0
    return ", ".join(shown) + (f" and {left} more" if left else "")


def spent_text(facts: RunFacts) -> str:
    """What the run took: `0.42, 120,000 tokens (60,000 from a cache), 240 calls, 4 trials`."""
    spend = facts.spend
    return (
        f"{spend.cost:.4g}, {tokens_text(spend.tokens, facts.cached_tokens)}, "
        f"{counted(spend.samples, 'call')}, {counted(spend.trials, 'trial')}"
    )


def _spend(spend: Spend, budget: Mapping[str, float], cached_tokens: int) -> str:
    def told(name: str, amount: str, limit: str) -> str:
        return f"{amount} of {limit} {name}" if budget.get(name) else f"{amount} {name}"

    return ", ".join(
        [
            told("samples", f"{spend.samples:,}", f"{budget.get('samples', 0):,.0f}"),
            told("tokens", f"{spend.tokens:,}", f"{budget.get('tokens', 0):,.0f}") + cached_text(cached_tokens),
            told("cost", score_text(spend.cost), score_text(budget.get("cost", 0.0))),
        ]
    )


def _rows(values: Mapping[str, str]) -> str:
    wide = max(10, *(len(name) + 2 for name, value in values.items() if value))
    return "\n".join(f"{name + ':':<{wide}}{one_line(value)}" for name, value in values.items() if value)
