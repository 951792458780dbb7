"""What queries answer, from the run's books: bounded, plain JSON."""

from __future__ import annotations

from datetime import datetime

from ratchet._markdown import table
from workflows.model.run.contract import Graph, Newest, Progress, StopRule
from workflows.rules.decisions.stop_rules import rules
from workflows.run.state import RunBook


def progress(book: RunBook, now: datetime) -> Progress:
    """The run at a glance."""
    facts = book.facts(now)
    elapsed = facts.elapsed.total_seconds()
    finished = len(book.history)
    budget = book.limits.budget
    return Progress(
        optimization_id=book.run_id,
        name=book.request.name,
        status=book.status,
        phase=book.phase,
        round=book.round,
        counts=book.counts,
        best_candidate_id=book.best.candidate_id if book.best else None,
        best_score=book.best.score if book.best else None,
        baseline_score=book.baseline.score if book.baseline else None,
        direction=book.request.objective.direction.value,
        spend=book.accounts.spend,
        budget={
            "cost": budget.cost,
            "tokens": budget.tokens,
            "samples": budget.samples,
            "trials": budget.trials,
            "wall_time": budget.wall_time.total_seconds(),
        },
        elapsed_seconds=elapsed,
        trials_per_hour=finished * 3600 / elapsed if elapsed else 0.0,
        seconds_left=_seconds_left(book, elapsed),
        stop_rules=tuple(StopRule(rule=rule.name, nearness=rule.nearness) for rule in rules(book.limits, facts)),
        plan=book.plan.words if book.plan else "",
        executions=book.executions,
        versions=book.prepared.versions if book.prepared else {},
    )


def _seconds_left(book: RunBook, elapsed: float) -> float | None:
    bounds = []
    if book.limits.stop.max_rounds and book.round:
        bounds.append(elapsed / (book.round + 1) * (book.limits.stop.max_rounds - book.round))
    if book.limits.budget.wall_time:
        bounds.append(book.limits.budget.wall_time.total_seconds() - elapsed)
    return max(min(bounds), 0.0) if bounds else None


def trials(book: RunBook) -> Newest:
    """The newest trials in full."""
    items = [result.model_dump(mode="json") for result in book.recent_trials]
    return Newest(total=len(book.history), shown=len(items), items=tuple(items))


def history(book: RunBook) -> Newest:
    """The newest rounds."""
    items = [record.model_dump(mode="json", exclude={"rejections"}) for record in book.recent_rounds]
    return Newest(total=book.round + 1 if book.baseline else 0, shown=len(items), items=tuple(items))


def rejections(book: RunBook) -> Newest:
    """The newest rejections."""
    items = [rejection.model_dump(mode="json") for rejection in book.recent_rejections]
    return Newest(total=book.counts.rejected, shown=len(items), items=tuple(items))


def graph(book: RunBook) -> Graph:
    """Lineage of the newest trials, every parent an edge. Candidates that were only measured in part are nodes, too."""
    newest = book.history[-len(book.recent_trials) :] if book.recent_trials else []
    in_full = {trial.candidate_id for trial in book.history}
    in_part = {trial.candidate_id: trial for trial in book.recent_parts if trial.candidate_id not in in_full}
    best = book.best.candidate_id if book.best else None
    nodes = [
        {
            "id": trial.candidate_id,
            "round": trial.round,
            "score": trial.score,
            "status": trial.status,
            "best": trial.candidate_id == best,
        }
        for trial in newest
    ]
    nodes += [
        {"id": name, "round": trial.round, "score": None, "status": "measured in part", "best": False}
        for name, trial in in_part.items()
    ]
    shown = [*newest, *in_part.values()]
    edges = [{"from": parent, "to": trial.candidate_id} for trial in shown for parent in trial.parent_candidate_ids]
    return Graph(nodes=tuple(nodes), edges=tuple(edges), total=len(book.history))


def details(book: RunBook, now: datetime) -> str:
    """The run as a small Markdown table, for the Temporal UI."""
    best = f"{book.best.score:.4f} ({book.best.candidate_id})" if book.best else "none yet"
    baseline = f"{book.baseline.score:.4f}" if book.baseline and book.baseline.score is not None else "not measured yet"
    nearest = sorted(rules(book.limits, book.facts(now)), key=lambda rule: -rule.nearness)[:3]
    stop = ", ".join(f"{rule.name} {rule.nearness:.0%}" for rule in nearest) or "none"
    spend = book.accounts.spend
    rows = [
        ("Status", f"{book.status}: {book.phase}"),
        ("Round", str(book.round)),
        ("Best", best),
        ("Baseline", baseline),
        (
            "Spend",
            f"{spend.cost:.4f}, {spend.tokens:,} tokens, {spend.samples:,} samples",
        ),
        ("Stop rules", stop),
    ]
    return table(("", ""), rows)
