"""What queries answer, from the run's books: bounded, plain JSON."""

from __future__ import annotations

from datetime import datetime

from ratchet._text.markdown_tables import table
from workflows.model.run.query_answers import Graph, Newest, Progress, StopRule
from workflows.rules.decisions.stop_rules import rules
from workflows.rules.decisions.time_left import seconds_left
from workflows.run.state import RunState


def progress(state: RunState, now: datetime) -> Progress:
    """The run at a glance."""
    facts = state.facts(now)
    elapsed = facts.elapsed.total_seconds()
    finished = len(state.history)
    budget = state.limits.budget
    return Progress(
        optimization_id=state.run_id,
        name=state.request.name,
        status=state.status,
        phase=state.phase,
        round=state.round,
        counts=state.counts,
        best_candidate_id=state.best.candidate_id if state.best else None,
        best_score=state.best.score if state.best else None,
        baseline_score=state.baseline.score if state.baseline else None,
        direction=state.request.objective.direction.value,
        spend=state.spending.spend,
        budget={
            "cost": budget.cost,
            "tokens": budget.tokens,
            "samples": budget.samples,
            "trials": budget.trials,
            "wall_time": budget.wall_time.total_seconds(),
        },
        elapsed_seconds=elapsed,
        trials_per_hour=finished * 3600 / elapsed if elapsed else 0.0,
        seconds_left=seconds_left(state.limits.stop, budget, state.spending.spend, state.round, elapsed),
        stop_rules=tuple(StopRule(rule=rule.name, nearness=rule.nearness) for rule in rules(state.limits, facts)),
        plan=state.plan.words if state.plan else "",
        executions=state.executions,
        versions=state.prepared.versions if state.prepared else {},
    )


def trials(state: RunState) -> Newest:
    """The newest trials in full."""
    items = [result.model_dump(mode="json") for result in state.recent_trials]
    return Newest(total=len(state.history), shown=len(items), items=tuple(items))


def history(state: RunState) -> Newest:
    """The newest rounds."""
    items = [record.model_dump(mode="json", exclude={"rejections"}) for record in state.recent_rounds]
    return Newest(total=state.round + 1 if state.baseline else 0, shown=len(items), items=tuple(items))


def rejections(state: RunState) -> Newest:
    """The newest rejections."""
    items = [rejection.model_dump(mode="json") for rejection in state.recent_rejections]
    return Newest(total=state.counts.rejected, shown=len(items), items=tuple(items))


def graph(state: RunState) -> Graph:
    """Lineage of the newest trials, every parent an edge. Candidates that were only measured in part are nodes, too."""
    newest = state.history[-len(state.recent_trials) :] if state.recent_trials else []
    in_full = {trial.candidate_id for trial in state.history}
    in_part = {trial.candidate_id: trial for trial in state.recent_parts if trial.candidate_id not in in_full}
    best = state.best.candidate_id if state.best else None
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
    return Graph(nodes=tuple(nodes), edges=tuple(edges), total=len(state.history))


def details(state: RunState, now: datetime) -> str:
    """The run as a small Markdown table, for the Temporal UI."""
    best = f"{state.best.score:.4f} ({state.best.candidate_id})" if state.best else "none yet"
    baseline = f"{state.baseline.score:.4f}" if state.baseline and state.baseline.score is not None else "not measured yet"
    nearest = sorted(rules(state.limits, state.facts(now)), key=lambda rule: -rule.nearness)[:3]
    stop = ", ".join(f"{rule.name} {rule.nearness:.0%}" for rule in nearest) or "none"
    spend = state.spending.spend
    rows = [
        ("Status", f"{state.status}: {state.phase}"),
        ("Round", str(state.round)),
        ("Best in the search", best),
        ("Baseline", baseline),
        (
            "Spend",
            f"{spend.cost:.4f}, {spend.tokens:,} tokens, {spend.samples:,} samples",
        ),
        ("Stop rules", stop),
    ]
    return table(("", ""), rows)
