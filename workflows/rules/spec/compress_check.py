"""What can be wrong with a spec that compresses."""

from __future__ import annotations

from collections.abc import Iterator

from workflows.model.spec.execution import CompressOptimizer
from workflows.model.spec.factors import FrozenFactor, TextFactor
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.proposals.text_cuts import may_shrink
from workflows.rules.spec.prompt_factors import is_of_a_prompt


def compression_problems(request: OptimizationRequest, optimizer: CompressOptimizer) -> Iterator[str]:
    """Sections that are none, or that cannot become shorter."""
    factors = request.configuration
    for name in optimizer.factors or []:
        if name not in factors:
            yield f"optimizer.factors: {name!r} is no factor; known are {', '.join(factors)}"
        elif isinstance(factors[name], FrozenFactor):
            own = "write it as {value: …, change: text}"
            fix = "set accepts_overrides in the prompt" if is_of_a_prompt(name) else own
            yield f"optimizer.factors: {name!r} is frozen; {fix}"
        elif not may_shrink(factors[name]):
            yield f"optimizer.factors: {name!r} is neither text nor a list, so it cannot become shorter; drop it"
    treated = [factors[name] for name in optimizer.factors or factors if name in factors and may_shrink(factors[name])]
    if not treated and not optimizer.factors:
        yield "configuration: nothing can become shorter; let at least one text change ({value: …, change: text})"
    if treated and not optimizer.strategies and not any(isinstance(factor, TextFactor) for factor in treated):
        yield "optimizer.proposer: rewrites text, but no treated factor is text; give strategies that drop examples"
    if request.judgement.accept != "shorter":
        yield (
            f"judgement.accept: is {request.judgement.accept!r}, but compress keeps what is shorter; "
            "leave it out, and say with judgement.rule what a shorter prompt must satisfy"
        )
