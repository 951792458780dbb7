"""The example of the design document as a run, and runs like it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from clients.reports.facts import Iteration, IterationStatus, RunFacts, Statistics
from ratchet._formats.canonical import content_hash
from ratchet.optimizer import StopReason
from workflows.model.run.decisions import Decision
from workflows.model.run.rounds import Counts, RoundRecord, RunStatus, Spend
from workflows.model.run.run_result import Confirmation, OptimizationResult, Unproven
from workflows.model.spec.judgement import Evidence, Judged, Verdict
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.scoring.objective_score import is_better

INITIAL = "You are a helpful shopping assistant."
BETTER = """\
You are a knowledgeable shopping assistant. When helping users:
1. Consider their stated budget
2. Prioritize highly-rated products
3. Mention key specifications relevant to their query"""
STARTED = datetime(2026, 1, 16, 10, 30, tzinfo=UTC)
FINISHED = datetime(2026, 1, 16, 10, 45, 30, tzinfo=UTC)
NO_IMPROVEMENT = "No improvement in last 5 iterations"


def request(**changes: Any) -> OptimizationRequest:
    """The example's spec, or one that differs from it."""
    spec: dict[str, Any] = {
        "name": "shopping-assistant",
        "experiment": "optimize-system-prompt",
        "configuration": {
            "model": "gpt-4",
            "temperature": 0.7,
            "systemPrompt": {"value": INITIAL, "change": "text", "max_length": 2000},
        },
        "target": {"kind": "python", "ref": "shop.eval:target"},
        "dataset": {"items": [{"input": "wireless headphones", "expected": "ok"}]},
        "objective": {"kind": "success_rate"},
        "optimizer": {"name": "refine", "proposer": {"kind": "model", "model": "gpt-5"}},
        "stop": {"max_rounds": 19, "no_improvement": 5},
    }
    return OptimizationRequest.model_validate({**spec, **changes})


def facts(
    scores: Sequence[float | None],
    *,
    spec: OptimizationRequest | None = None,
    values: dict[int, dict[str, Any]] | None = None,
    reason: StopReason | None = StopReason.NO_IMPROVEMENT,
    message: str = NO_IMPROVEMENT,
    status: RunStatus = "completed",
    confirmation: Confirmation | None = None,
    **changes: Any,
) -> RunFacts:
    """A run with these scores, one iteration a round; None is a failed trial, `values` what some iterations changed."""
    spec = spec or request()
    iterations, records = [], []
    best: Iteration | None = None
    for number, score in enumerate(scores):
        configuration = {**spec.baseline, **((values or {}).get(number, {}))}
        iteration = Iteration(
            number=number,
            round=number,
            candidate_id=f"r{number}-{content_hash(configuration)[:8]}",
            config_hash=content_hash(configuration),
            configuration=configuration,
            parents=(f"r{number - 1}",) if number else (),
            statistics=Statistics(sample_count=20, success_rate=score or 0.0, total_tokens=9000, mean_latency_ms=1200.0),
            score=score,
            status=IterationStatus.SUCCESS if score is not None else IterationStatus.EXECUTION_FAILED,
            failure_reason=None if score is not None else "the target raised ValueError: no such model",
            started_at=STARTED + timedelta(seconds=30 * number),
            ended_at=STARTED + timedelta(seconds=30 * number + 20),
            sample_means=(1.0, 0.0, None, 0.5),
        )
        iterations.append(iteration)
        assert best is None or best.score is not None
        new_best = score is not None and (best is None or is_better(score, best.score or 0.0, spec.objective.direction))
        best = iteration if new_best else best
        records.append(
            RoundRecord(
                run_id="run-1",
                round=number,
                candidate_ids=(iteration.candidate_id,),
                best_score=score,
                best_candidate_id=iteration.candidate_id if score is not None else None,
                best_so_far=best.score if best else None,
                best_so_far_id=best.candidate_id if best else None,
                decisions=(Decision(candidate_id=iteration.candidate_id, kept=new_best),),
                decided_at=STARTED + timedelta(seconds=30 * number + 21),
            )
        )
    result = None
    if reason is not None:
        stays = confirmation is not None and confirmation.winner_score is not None and not confirmation.holds
        baseline, winner = iterations[0] if iterations else None, best
        best = baseline if stays else best
        result = OptimizationResult(
            optimization_id="run-1",
            status=status,
            stop_reason=reason,
            message=message,
            best_score=best.score if best else None,
            best_candidate_id=best.candidate_id if best else None,
            confirmation=confirmation,
            unproven=Unproven(
                candidate_id=winner.candidate_id,
                config_hash=winner.config_hash,
                configuration=winner.configuration,
                score=winner.score or 0.0,
                changes={},
                why="not confirmed",
            )
            if stays and winner is not None
            else None,
        )
    given: dict[str, Any] = {
        "run_id": "run-1",
        "use_case": "shopping-assistant",
        "experiment": "optimize-system-prompt",
        "status": status,
        "request": spec,
        "result": result,
        "iterations": tuple(iterations),
        "rounds": tuple(records),
        "counts": Counts(proposed=len(scores), completed=sum(score is not None for score in scores)),
        "spend": Spend(samples=20 * len(scores), trials=len(scores), tokens=9000 * len(scores), cost=0.125),
        "started_at": STARTED,
        "finished_at": FINISHED if reason is not None else None,
    }
    return RunFacts.model_validate({**given, **changes})


def the_example() -> RunFacts:
    scores = [0.85, 0.88, 0.86, 0.90, 0.89, 0.91, 0.93, 0.95, 0.94, 0.92, 0.90, 0.92]
    return facts(scores, values={7: {"systemPrompt": BETTER}}, confirmation=confirmed(0.85, 0.95))


def confirmed(
    baseline: float = 0.81, winner: float = 0.93, verdict: Verdict = Verdict.BETTER, *, p: float = 0.01, **changes: Any
) -> Confirmation:
    """A confirmation of a run that maximizes, over 40 samples, with an interval of 0.09 on both sides."""
    gain = round(winner - baseline, 10)
    evidence = Evidence(reference="r0", effect=gain, low=gain - 0.09, high=gain + 0.09, n=40)
    judged = Judged(verdict=verdict, accepted=verdict is Verdict.BETTER, adjusted_p=p, evidence=evidence)
    known = {"holds": judged.accepted, "baseline_score": baseline, "winner_score": winner, "judged": judged}
    return Confirmation(**{**known, **changes})


def first_block(text: str) -> str:
    """The block of a box that follows the heading: what the run comes to, on one line."""
    rows = text.split("╠")[1].splitlines()[1:]
    return " ".join(" ".join(row.strip("║").split()) for row in rows)


def box_rows(text: str, label: str) -> list[str]:
    """The rows of a box that begin with a label, and those below that continue it, without the frame."""
    rows = [line.strip("║").strip() for line in text.splitlines()]
    first = next(number for number, row in enumerate(rows) if row.startswith(label))
    raw = text.splitlines()
    last = first + 1
    while raw[last].startswith("║" + " " * 20):
        last += 1
    return rows[first:last]
