"""Small things to test with: requests, results, proposals and books, each a line long where it is used."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ratchet.optimizer import CandidateProposal, TrialStatus
from workflows.model.run.candidates import Candidate
from workflows.model.run.contract import Prepared
from workflows.model.spec.factors import Factor
from workflows.model.spec.request import OptimizationRequest
from workflows.model.suite import MeasuredSample
from workflows.model.trial import Split, TrialResult, TrialSummary
from workflows.run.round_records import round_record
from workflows.run.state import RunState

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

SPEC: dict[str, Any] = {
    "name": "triage",
    "configuration": {
        "prompt": {"value": "Answer {{input.q}}", "change": "text", "max_length": 200},
        "temperature": {"value": 0.5, "change": "structured", "type": "number", "min": 0, "max": 1},
        "model": "small",
    },
    "target": {"kind": "chat", "messages": [{"role": "user", "content": "{{factors.prompt}}"}]},
    "dataset": [{"input": {"q": "1 + 1"}, "expected": "2"}],
    "objective": "exact",
    "optimizer": {"proposer": {"kind": "step"}},
}


def spec(**changes: Any) -> dict[str, Any]:
    """The spec above with some of its keys replaced."""
    return {**SPEC, **changes}


def request(**changes: Any) -> OptimizationRequest:
    """A well-formed request."""
    return OptimizationRequest.model_validate(spec(**changes))


def factor(**definition: Any) -> Factor:
    """One factor, as a spec defines it."""
    return request(configuration={"it": definition}).configuration["it"]


def state(samples: int = 10, run_id: str = "triage-1", **changes: Any) -> RunState:
    """A book whose run is prepared; the baseline is still to be measured."""
    made = RunState(run_id, request(**changes), NOW)
    made.prepared = Prepared(dataset_id="d" * 64, evaluation_suite_id="e" * 64, search_split=Split.ALL, search_samples=samples)
    return made


def measured_state(score: float = 0.5, samples: int = 10, **changes: Any) -> RunState:
    """A book whose baseline has been measured."""
    made = state(samples, **changes)
    candidate = made.baseline_candidate("0" * 64)
    made.record_baseline(candidate, result(candidate, score))
    round_record(made, [candidate], [], made.history, NOW)
    return made


def result(
    candidate: Candidate,
    score: float | None = 0.5,
    status: TrialStatus = "completed",
    *,
    samples: int = 10,
    tokens: int = 100,
    cost: float = 0.1,
    error: str | None = None,
) -> TrialResult:
    """What a trial of the candidate gave."""
    return TrialResult(
        optimization_id="triage-1",
        candidate_id=candidate.candidate_id,
        mask_id=candidate.config_hash,
        experiment_id=f"triage-1/{candidate.candidate_id}",
        status=status,
        objective_score=score,
        summary=TrialSummary(total=samples, passed=samples // 2, pass_rate=0.5, total_cost=cost, total_tokens=tokens),
        coverage=1.0,
        error=error,
        paid_samples=samples,
        paid_tokens=tokens,
        paid_cost=cost,
        duration_ms=1234,
    )


def proposal(temperature: float = 0.5, prompt: str = "Answer {{input.q}}", **fields: Any) -> CandidateProposal:
    """A proposal for the spec above."""
    configuration = {"prompt": prompt, "temperature": temperature, "model": "small"}
    return CandidateProposal(**{"configuration": configuration, **fields})


def play(run: RunState, *scores: float | None) -> None:
    """One round after the other with one candidate each; None is a failed trial."""
    for score in scores:
        candidates, rejections = run.admit([proposal(prompt=f"{run.round} {{{{input.q}}}}")])
        results = [result(c, score, "completed" if score is not None else "failed") for c in candidates]
        facts = run.record_round(candidates, results)
        round_record(run, candidates, rejections, facts, NOW + timedelta(minutes=run.round))


def sample(
    position: int,
    score: float | None = 1.0,
    *,
    replicate: int = 0,
    weight: float = 1.0,
    tokens: int = 10,
    passed: bool | None = None,
    scores: Mapping[str, float] | None = None,
) -> MeasuredSample:
    """One answer and its scores; a score of None is the candidate's failure."""
    given = dict(scores) if scores is not None else ({} if score is None else {"exact": score})
    return MeasuredSample(
        position=position,
        weight=weight,
        replicate=replicate,
        status="failed" if score is None else "answered",
        scores=given,
        passed=(score is not None and score >= 0.5) if passed is None else passed,
        tokens=tokens,
        cost=0.01,
        latency_ms=100.0,
        ttft_ms=None,
        per_score_passed={name: value >= 0.5 for name, value in given.items()},
    )
