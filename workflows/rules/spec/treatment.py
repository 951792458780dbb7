"""What can be wrong with the factors that an optimizer may change, and which of them its proposer can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workflows.model.spec.extensions.proposers import ModelProposer, Proposer, StepProposer
from workflows.model.spec.factors import FrozenFactor, TextFactor
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.proposals.seeded_steps import can_step
from workflows.rules.spec.prompt_factors import is_of_a_prompt


def changed_by(proposer: Proposer | None, request: OptimizationRequest) -> Sequence[str]:
    """The treatment, as far as this proposer can change it."""
    factors = request.configuration
    named = [name for name in request.optimizer.factors or request.changeable if name in factors]
    match proposer:
        case ModelProposer():
            return [name for name in named if isinstance(factors[name], TextFactor)]
        case StepProposer():
            return [name for name in named if can_step(factors[name])]
    return named


def rewriting_problems(proposer: Proposer, request: OptimizationRequest) -> Iterator[str]:
    """A treatment that does not exist, or that this proposer cannot change."""
    yield from treatment_problems(request, may_be_frozen=proposer.kind == "noop")
    factors = request.configuration
    treated = [factors[name] for name in request.optimizer.factors or request.changeable if name in factors]
    if isinstance(proposer, ModelProposer) and treated and not any(isinstance(factor, TextFactor) for factor in treated):
        yield "optimizer.proposer: kind model rewrites text, but no treated factor is text; use kind step or python"
    if isinstance(proposer, StepProposer) and treated and not any(can_step(factor) for factor in treated):
        yield (
            "optimizer.proposer: kind step moves numbers, choices, orders and flags, but no treated factor is one with "
            "more than one value; widen one, or use kind model or python"
        )


def treatment_problems(request: OptimizationRequest, *, may_be_frozen: bool = False) -> Iterator[str]:
    """Factors that do not exist, or that may not change."""
    for name in request.optimizer.factors or []:
        if name not in request.configuration:
            yield f"optimizer.factors: {name!r} is no factor; known are {', '.join(request.configuration)}"
        elif isinstance(request.configuration[name], FrozenFactor):
            own = "write it as {value: …, change: text} or change: structured"
            fix = "set accepts_overrides in the prompt" if is_of_a_prompt(name) else own
            yield f"optimizer.factors: {name!r} is frozen; {fix}"
    if not request.changeable and not may_be_frozen:
        yield "configuration: every factor is frozen; let at least one change ({value: …, change: text})"
