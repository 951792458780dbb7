"""The example of the design document, character by character: what it prints, Ratchet prints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from clients.reports.facts import Iteration, IterationStatus, RunFacts, Statistics
from clients.reports.history.files import history_text
from clients.reports.text.boxes import Verbosity, box
from clients.reports.text.progress_lines import progress_lines
from ratchet._canonical import content_hash
from ratchet.optimizer import StopReason
from workflows.model.run.contract import Confirmation, OptimizationResult
from workflows.model.run.rounds import Counts, RoundRecord, RunStatus, Spend
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
                decided_at=STARTED + timedelta(seconds=30 * number + 21),
            )
        )
    result = None
    if reason is not None:
        result = OptimizationResult(
            optimization_id="run-1",
            status=status,
            stop_reason=reason,
            message=message,
            best_score=best.score if best else None,
            best_candidate_id=best.candidate_id if best else None,
            confirmation=confirmation,
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
    return facts(scores, values={7: {"systemPrompt": BETTER}})


def test_the_minimal_box_of_the_document() -> None:
    assert (
        box(the_example(), Verbosity.MINIMAL)
        == """\
╔══════════════════════════════════════════════════════════════════╗
║  OPTIMIZE: shopping-assistant / optimize-system-prompt           ║
╠══════════════════════════════════════════════════════════════════╣
║  Treatment factor: systemPrompt                                  ║
║  Best value:                                                     ║
║    You are a knowledgeable shopping assistant. When helping      ║
║    users:                                                        ║
║    1. Consider their stated budget                               ║
║    2. Prioritize highly-rated products                           ║
║    3. Mention key specifications relevant to their query         ║
╚══════════════════════════════════════════════════════════════════╝"""
    )


def test_the_summary_box_of_the_document() -> None:
    assert (
        box(the_example(), Verbosity.SUMMARY)
        == """\
╔══════════════════════════════════════════════════════════════════╗
║  OPTIMIZE: shopping-assistant / optimize-system-prompt           ║
╠══════════════════════════════════════════════════════════════════╣
║  Treatment factor: systemPrompt                                  ║
║  Fixed factors:    model=gpt-4, temperature=0.7                  ║
║  Objective:        MAXIMIZE success rate                         ║
╠══════════════════════════════════════════════════════════════════╣
║  Iterations:       12                                            ║
║  Best iteration:   7                                             ║
║  Score:            0.85 → 0.95 (+11.76%)                         ║
║  Termination:      No improvement in last 5 iterations           ║
╠══════════════════════════════════════════════════════════════════╣
║  Best value:                                                     ║
║    You are a knowledgeable shopping assistant. When helping      ║
║    users:                                                        ║
║    1. Consider their stated budget                               ║
║    2. Prioritize highly-rated products                           ║
║    3. Mention key specifications relevant to their query         ║
╚══════════════════════════════════════════════════════════════════╝"""
    )


def test_the_progress_lines_of_the_document() -> None:
    scores = [0.85, 0.88, 0.86, 0.90, 0.89, 0.91, 0.93, 0.95, 0.94, 0.92, 0.90, 0.91, 0.92]
    lines = progress_lines(facts(scores))

    assert lines[:6] == [
        "OPTIMIZE [shopping-assistant] Starting: treatmentFactor=systemPrompt, objective=MAXIMIZE",
        "OPTIMIZE [shopping-assistant] Iteration 0: score=0.85 (best=0.85)",
        "OPTIMIZE [shopping-assistant] Iteration 1: score=0.88 (best=0.88) ↑ NEW BEST",
        "OPTIMIZE [shopping-assistant] Iteration 2: score=0.86 (best=0.88)",
        "OPTIMIZE [shopping-assistant] Iteration 3: score=0.90 (best=0.90) ↑ NEW BEST",
        "OPTIMIZE [shopping-assistant] Iteration 4: score=0.89 (best=0.90)",
    ]
    assert lines[-2:] == [
        "OPTIMIZE [shopping-assistant] Iteration 12: score=0.92 (best=0.95)",
        "OPTIMIZE [shopping-assistant] Terminated: No improvement in last 5 iterations",
    ]


def test_the_yaml_of_the_document() -> None:
    text = history_text(the_example())
    document = yaml.safe_load(text)

    expected = {
        "useCaseId": "shopping-assistant",
        "experimentId": "optimize-system-prompt",
        "treatmentFactorName": "systemPrompt",
        "treatmentFactorType": "String",
        "fixedFactors": {"model": "gpt-4", "temperature": 0.7},
        "objective": "MAXIMIZE",
        "scorerDescription": "Success rate (higher is better)",
        "mutatorDescription": "LLM-based string mutator (max length: 2000)",
        "terminationPolicyDescription": "Max 20 iterations OR No improvement for 5 iterations",
        "startTime": "2026-01-16T10:30:00Z",
        "endTime": "2026-01-16T10:45:30Z",
        "totalDurationMs": 930000,
        "scoreImprovement": 0.10,
        "scoreImprovementPercent": 11.76,
        "totalIterations": 12,
    }
    assert {name: document[name] for name in expected} == expected
    first, best = document["iterations"][0], document["bestIteration"]
    suit = {"model": "gpt-4", "temperature": 0.7, "systemPrompt": INITIAL}
    assert first["factorSuit"] == suit and list(first["factorSuit"]) == list(suit)
    assert first["iterationNumber"] == 0 and first["score"] == 0.85 and first["status"] == "SUCCESS"
    assert first["statistics"].items() >= {"sampleCount": 20, "successRate": 0.85, "totalTokens": 9000}.items()
    assert best["iterationNumber"] == 7 and best["score"] == 0.95
    assert best["factorSuit"]["systemPrompt"] == BETTER
    assert document["terminationReason"].items() >= {"cause": "NO_IMPROVEMENT", "message": NO_IMPROVEMENT}.items()
    assert 'useCaseId: "shopping-assistant"\n' in text
    assert "objective: MAXIMIZE\n" in text
    assert "    status: SUCCESS\n" in text
    assert (
        "    systemPrompt: |-\n"
        "      You are a knowledgeable shopping assistant. When helping users:\n"
        "      1. Consider their stated budget\n" in text
    )
