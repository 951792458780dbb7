"""What a spec may not ask for whose samples are answered in batches."""

from __future__ import annotations

from collections.abc import Iterator

from workflows.model.spec.extensions.scorer_options import placed_scorers
from workflows.model.spec.request import OptimizationRequest

_TIMES = ("latency_ms", "ttft_ms")
_NO_TIMES = "nobody measures how long an answer of a batch took; take it out, or set execution.mode: direct"


def batch_problems(request: OptimizationRequest) -> Iterator[str]:
    """Why the target cannot be asked in batches, and what is wanted that no answer of a batch has."""
    if request.execution.mode == "direct":
        return
    yield from request.target.batch_problems()
    for place, scorer in placed_scorers(request.scorers):
        if scorer.needs_latency:
            yield f"{place}: {_NO_TIMES}"
    judgement = request.judgement
    measured = [(f"judgement.constraints[{place}]", one.measure) for place, one in enumerate(judgement.constraints)]
    measured += [(f"judgement.objectives[{place}]", one.measure) for place, one in enumerate(judgement.objectives)]
    for where, measure in measured:
        if measure in _TIMES:
            yield f"{where}: {_NO_TIMES}"
