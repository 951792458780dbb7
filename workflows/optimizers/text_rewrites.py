"""What optimizers that have factors rewritten share: which ones, what an answer changes, and what to do when some fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

from pydantic import JsonValue

from ratchet.optimizer import CandidateProposal, TrialHistory
from workflows.model.run.contract import Proposed
from workflows.model.spec.extensions.proposers import ActivityProposer, AskedProposer, ModelProposer
from workflows.model.spec.factors import Configuration, Factor, FrozenFactor, TextFactor
from workflows.optimizers.frame import ProposalFailed

T = TypeVar("T")

ITERATIONS_SHOWN = 3
"""How many of the last iterations a proposer reads about."""


def may_change(factors: Mapping[str, Factor], named: Sequence[str] | None) -> list[str]:
    """The factors a spec lets an optimizer change."""
    return list(named or [name for name, factor in factors.items() if not isinstance(factor, FrozenFactor)])


def rewritable(factors: Mapping[str, Factor], named: Sequence[str] | None, proposer: AskedProposer) -> tuple[str, ...]:
    """Those of them that a proposer can write: a model only texts."""
    wanted = may_change(factors, named)
    if isinstance(proposer, ModelProposer):
        return tuple(name for name in wanted if isinstance(factors[name], TextFactor))
    return tuple(wanted)


def described(proposer: AskedProposer, longest: int | None) -> str:
    """Say in words who rewrites."""
    if isinstance(proposer, ModelProposer):
        return f"LLM-based string mutator (max length: {longest})"
    if isinstance(proposer, ActivityProposer):
        return f"Activity: {proposer.activity} on {proposer.task_queue}"
    return proposer.description or f"Python: {proposer.ref}"


def rewritten(
    answer: Proposed, configuration: Configuration, parent: str, treatment: Sequence[str], extra: Mapping[str, JsonValue]
) -> CandidateProposal:
    """The answer as a proposal. All but the treatment stays as it is; what is no factor is left for validation to refuse."""
    untreated = sorted(name for name in answer.values if name in configuration and name not in treatment)
    changes = {name: value for name, value in answer.values.items() if name not in untreated}
    told: dict[str, JsonValue] = {**extra, "components": [*sorted(changes)]}
    if untreated:
        told["ignored"] = [*untreated]
    return CandidateProposal(
        configuration={**configuration, **changes}, parent_candidate_ids=(parent,), rationale=answer.rationale, extra=told
    )


async def those_that_came(asked: Sequence[Awaitable[T]]) -> list[T]:
    """Every answer that came. All are waited for, since they are being paid for; only if none came, that is a failure."""
    answers = await asyncio.gather(*asked, return_exceptions=True)
    came = [answer for answer in answers if not isinstance(answer, BaseException)]
    failures = [answer for answer in answers if isinstance(answer, BaseException)]
    for failure in failures:
        if not came or not isinstance(failure, ProposalFailed):
            raise failure
    return came


def recent_iterations(history: TrialHistory) -> str:
    """The last iterations in words, one line each."""
    first = max(len(history.trials) - ITERATIONS_SHOWN, 0)
    return "".join(
        f"Iteration {first + offset}: score={trial.score:.3f}, successRate={(trial.success_rate or 0.0) * 100:.2f}%\n"
        if trial.score is not None
        else f"Iteration {first + offset}: {trial.status}\n"
        for offset, trial in enumerate(history.trials[first:])
    )
