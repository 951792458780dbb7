"""What can be wrong with a spec that merges, before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator

from workflows.model.spec.factors import TextFactor
from workflows.model.spec.optimizers.gepa import GepaOptimizer
from workflows.model.spec.request import OptimizationRequest


def merging_problems(request: OptimizationRequest, optimizer: GepaOptimizer) -> Iterator[str]:
    """Name everything that is wrong, with its field and the fix."""
    if not optimizer.merges:
        return
    treated = optimizer.factors or request.changeable
    texts = [name for name in treated if isinstance(request.configuration.get(name), TextFactor)]
    if len(texts) < 2:
        yield f"optimizer.merges: merging takes texts from two candidates, but {len(texts)} may change; drop merges"
