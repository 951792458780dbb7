"""One step of a user's optimizer: it begins or observes, says whether it goes on, and proposes. What it returns is read as what
it is, an answer of code that may have mistakes.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ratchet._formats.canonical import NotCanonical, canonical_json, normalize
from ratchet.optimizer import CandidateProposal, OptimizerState, StopDecision, TrialFacts, TrialHistory
from workflows.model.activities.computation import StoredTrial
from workflows.model.activities.optimizer_steps import LARGEST_PROPOSALS, LARGEST_STATE, CustomStepInput, CustomStepResult
from workflows.model.failures import described, shorten

Model = TypeVar("Model", bound=BaseModel)

METHODS = ("initialize", "propose", "observe", "should_stop")

Call = Callable[..., Awaitable[Any]]
"""Calls other people's code: `await call(function, *arguments)`."""


class OwnOptimizerFailed(Exception):
    """An optimizer that raised, or returned what cannot be used."""

    def __init__(self, method: str, told: str, *, hopeless: bool) -> None:
        super().__init__(shorten(f"failed in {method}: {told}"))
        self.hopeless = hopeless
        """It would do the same again."""


async def take_step(
    make: Callable[..., Any], step: CustomStepInput, history: Sequence[TrialFacts], call: Call
) -> CustomStepResult:
    """One step, with an optimizer that is made for it. `history` and what it observes come with all that is stored of them."""
    asked = _Asked(await _called("__init__", call, make, **step.optimizer.options), call)
    state = step.state
    if state is None:
        baseline = next((trial.configuration for trial in history if trial.configuration is not None), {})
        state = _state("initialize", await asked("initialize", step.context.model_copy(update={"baseline": baseline})))
    if step.observed is not None:
        state = _state("observe", await asked("observe", state, list(step.observed)))
    trials = TrialHistory.model_construct(trials=tuple(history))
    decision = _decision(await asked("should_stop", state.model_copy(deep=True), trials))
    if decision.should_stop:
        return CustomStepResult(state=state, decision=decision)
    proposed = await asked("propose", state.model_copy(deep=True), trials, step.max_candidates)
    return CustomStepResult(state=state, decision=decision, proposals=_proposals(proposed, step.max_candidates))


class _Asked:
    """The optimizer's methods, by name."""

    def __init__(self, optimizer: Any, call: Call) -> None:
        self._optimizer, self._call = optimizer, call

    async def __call__(self, method: str, *arguments: Any) -> Any:
        return await _called(method, self._call, getattr(self._optimizer, method), *arguments)


async def _called(method: str, call: Call, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    try:
        return await call(function, *arguments, **options)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        raise OwnOptimizerFailed(method, described(error), hopeless=False) from error


def with_what_is_stored(trials: Sequence[TrialFacts], stored: Sequence[StoredTrial]) -> list[TrialFacts]:
    """Trials with their configurations and their scores by sample."""
    known = {(trial.candidate_id, trial.part): trial for trial in stored}
    return [_completed(trial, known.get((trial.candidate_id, trial.part))) for trial in trials]


def _completed(trial: TrialFacts, stored: StoredTrial | None) -> TrialFacts:
    if stored is None:
        return trial
    return trial.model_copy(update={"configuration": stored.configuration, "sample_scores": stored.sample_means})


def _state(method: str, returned: object) -> OptimizerState:
    state = _read(OptimizerState, method, returned, "an OptimizerState")
    try:
        written = json.dumps(state.model_dump(mode="json", warnings=False), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        told = f"its state is not JSON: {described(error)}; keep numbers, texts, lists and mappings with text keys in it"
        raise OwnOptimizerFailed(method, told, hopeless=True) from error
    size = len(written.encode())
    if size > LARGEST_STATE:
        told = (
            f"its state is {size:,} bytes of JSON; at most {LARGEST_STATE:,} fit. Keep candidate ids and numbers: "
            "configurations and scores are in the history that every step is given"
        )
        raise OwnOptimizerFailed(method, told, hopeless=True)
    return OptimizerState.model_validate_json(written)


def _decision(returned: object) -> StopDecision:
    if isinstance(returned, bool):
        return StopDecision(should_stop=returned)
    return _read(StopDecision, "should_stop", returned, "a StopDecision or a bool")


def _proposals(returned: object, most: int) -> tuple[CandidateProposal, ...]:
    if isinstance(returned, str | Mapping) or not isinstance(returned, Sequence):
        told = f"it returned a {type(returned).__name__}; return a list of CandidateProposal"
        raise OwnOptimizerFailed("propose", told, hopeless=True)
    if len(returned) > most:
        told = f"it returned {len(returned)} proposals; at most {most} are asked for (optimizer.candidates_per_round)"
        raise OwnOptimizerFailed("propose", told, hopeless=True)
    proposals = tuple(_proposal(place, given) for place, given in enumerate(returned))
    size = sum(len(canonical_json(proposal.model_dump(mode="json")).encode()) for proposal in proposals)
    if size > LARGEST_PROPOSALS:
        told = f"its proposals are {size:,} bytes of JSON; at most {LARGEST_PROPOSALS:,} fit, propose fewer at once"
        raise OwnOptimizerFailed("propose", told, hopeless=True)
    return proposals


def _proposal(place: int, given: object) -> CandidateProposal:
    proposal = _read(CandidateProposal, "propose", given, f"a CandidateProposal in place {place}")
    try:
        update = {"configuration": normalize(proposal.configuration), "extra": normalize(proposal.extra)}
    except NotCanonical as error:
        told = f"proposal {place} is not JSON: {error}"
        raise OwnOptimizerFailed("propose", told, hopeless=True) from error
    return proposal.model_copy(update=update)


def _read(kind: type[Model], method: str, returned: object, wanted: str) -> Model:
    if isinstance(returned, kind):
        return returned
    try:
        if isinstance(returned, Mapping):
            return kind.model_validate(dict(returned))
    except ValidationError as error:
        raise OwnOptimizerFailed(method, f"it returned no {wanted.split()[1]}: {described(error)}", hopeless=True) from error
    raise OwnOptimizerFailed(method, f"it returned a {type(returned).__name__}; return {wanted}", hopeless=True)
