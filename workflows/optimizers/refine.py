"""`refine`: change the treatment factors of the best (or the last) candidate, measure, go on from the better one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from random import Random
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from ratchet._formats.canonical import content_hash, derive_seed
from ratchet.optimizer import CandidateProposal, OptimizerState, Part, RunContext, StopDecision, TrialFacts, TrialHistory
from workflows.model.spec.extensions.optimizer_options import OptimizerSpec
from workflows.model.spec.extensions.proposers import (
    ActivityProposer,
    AskedProposer,
    ModelProposer,
    NoOpProposer,
    Proposer,
    PythonProposer,
    StepProposer,
)
from workflows.model.spec.factors import Configuration
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import Split
from workflows.optimizers.frame import Frame, Shown
from workflows.optimizers.states import selection
from workflows.optimizers.text_rewrites import described, may_change, recent_iterations, rewritable, rewritten
from workflows.rules.proposals.seeded_steps import can_step, step
from workflows.rules.spec.treatment import changed_by, rewriting_problems

STEP_DRAWS = 24
"""How often a step is drawn again when it leads to a configuration that was tried already."""


class RefineOptimizer(OptimizerSpec):
    """Changes the treatment factors of the best (or last) candidate, round after round."""

    most_lost_rounds = 1  # there is one thing to ask for: where that fails, nothing is left

    name: Literal["refine"]
    proposer: Proposer
    """Where new values come from."""
    parent: Literal["best", "last"] = "best"
    """Which candidate the next one starts from."""
    factors: list[str] | None = None
    """The treatment. Default: every factor that may change and that the proposer can change."""
    candidates_per_round: Annotated[int, Field(ge=1, le=100)] = 1
    """How many candidates a round tries side by side."""
    examples_from: Literal["search", "train"] = "search"
    """Which of the parent's samples a proposer is shown: those that candidates are scored on, or training samples, which no
    candidate is scored on, so that texts are not fitted to the score. For `train` every new parent is measured on them once,
    which costs as many calls as there are."""
    shorter_wins_ties: bool = False
    """Whether a candidate with the best's own score and shorter texts becomes the best. Default: equal scores keep the
    earlier one."""

    @property
    def prefers_shorter(self) -> bool:
        return self.shorter_wins_ties

    @property
    def learns_from_train(self) -> bool:
        return self.examples_from == "train"

    def problems(self, request: OptimizationRequest) -> Iterator[str]:
        if request.dataset.lacks("train", "validation"):
            yield from self._no_examples({})
        yield from rewriting_problems(self.proposer, request)

    def sample_problems(self, request: OptimizationRequest, sizes: Mapping[Split, int]) -> Iterator[str]:
        if not request.dataset.lacks("train", "validation"):
            yield from self._no_examples(sizes)

    def _no_examples(self, sizes: Mapping[Split, int]) -> Iterator[str]:
        if self.examples_from == "train" and not (sizes.get(Split.TRAIN) and sizes.get(Split.VALIDATION)):
            yield (
                "optimizer.examples_from: is train, but there are no training samples beside those that candidates are scored "
                "on; give dataset.splits shares for train and validation, or drop examples_from"
            )

    def describe(self, longest: int | None) -> str:
        match self.proposer:
            case NoOpProposer():
                return "No-op (value unchanged)"
            case StepProposer():
                return "Seeded step over structured factors"
            case proposer:
                return described(proposer, longest)

    def treatment(self, request: OptimizationRequest) -> Sequence[str]:
        return changed_by(self.proposer, request)


class Refine:
    """Mutates, measures, keeps the better one."""

    def __init__(self, options: RefineOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame

    def initialize(self, context: RunContext) -> OptimizerState:
        return OptimizerState(
            best_candidate_id=context.baseline_candidate_id,
            best_score=context.baseline_score,
            algorithm_data={"last_candidate_id": context.baseline_candidate_id},
        )

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        parent = self._parent(state)
        configuration = await self._frame.configuration(parent)
        wanted = min(max_candidates, self._options.candidates_per_round)
        match self._options.proposer:
            case NoOpProposer():
                return [_unchanged(configuration, parent) for _ in range(wanted)]
            case StepProposer():
                return self._steps(state, configuration, parent, history, wanted)
            case ModelProposer() | PythonProposer() | ActivityProposer() as proposer:
                if self._options.examples_from == "train" and state.algorithm_data.get("learned_from") != parent:
                    return [_learning(configuration, parent)]
                asked = [self._rewritten(proposer, configuration, parent, history, index) for index in range(wanted)]
                return await all_of(asked)

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        parts = [trial.candidate_id for trial in trials if trial.part is not None]
        learned: dict[str, JsonValue] = {"learned_from": parts[-1]} if parts else {}
        trials = [trial for trial in trials if trial.part is None]
        best_id, best_score = state.best_candidate_id, state.best_score
        last = state.algorithm_data["last_candidate_id"]
        for trial in trials:
            if trial.status != "completed" or trial.score is None:
                continue
            last = trial.candidate_id
            if trial.kept:
                best_id, best_score = trial.candidate_id, trial.score
        parent = self._options.parent
        return OptimizerState(
            generation=state.generation + (1 if trials or not learned else 0),
            best_candidate_id=best_id,
            best_score=best_score,
            algorithm_data={**state.algorithm_data, **learned, "last_candidate_id": last},
            notes=selection(parent, [str(last if parent == "last" else best_id)]),
        )

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        return StopDecision(should_stop=False)

    def _parent(self, state: OptimizerState) -> str:
        if self._options.parent == "last":
            return str(state.algorithm_data["last_candidate_id"])
        return state.best_candidate_id or self._frame.context.baseline_candidate_id

    def _treatment(self) -> tuple[str, ...]:
        """The factors this proposer can change, of those the spec lets it."""
        factors, proposer = self._frame.factors, self._options.proposer
        if isinstance(proposer, AskedProposer):
            return rewritable(factors, self._options.factors, proposer)
        named = may_change(factors, self._options.factors)
        return tuple(name for name in named if proposer.kind != "step" or can_step(factors[name]))

    async def _rewritten(
        self,
        proposer: AskedProposer,
        configuration: Configuration,
        parent: str,
        history: TrialHistory,
        index: int,
    ) -> CandidateProposal:
        treatment = self._treatment()
        train = self._options.examples_from == "train"
        answer = await self._frame.new_values(
            proposer,
            parent=parent,
            factors=treatment,
            index=index,
            feedback=recent_iterations(history),
            shown=(Shown(parent, split="train", limit=None),) if train else (),
        )
        return rewritten(answer, configuration, parent, treatment, {"origin": "mutation", "operators": [proposer.kind]})

    def _steps(
        self, state: OptimizerState, configuration: Configuration, parent: str, history: TrialHistory, wanted: int
    ) -> list[CandidateProposal]:
        tried = {trial.config_hash for trial in history.trials}
        proposals = []
        for index in range(wanted):
            random = Random(derive_seed(self._frame.context.seed, "step", state.generation, index))
            changed, name = self._one_step(configuration, random)
            for _ in range(STEP_DRAWS):
                if content_hash(changed) not in tried:
                    break
                changed, name = self._one_step(configuration, random)
            tried.add(content_hash(changed))
            extra = {"origin": "mutation", "operators": ["step"], "components": [name]}
            proposals.append(CandidateProposal(configuration=changed, parent_candidate_ids=(parent,), extra=extra))
        return proposals

    def _one_step(self, configuration: Configuration, random: Random) -> tuple[Configuration, str]:
        name = random.choice(self._treatment())
        return {**configuration, name: step(configuration[name], self._frame.factors[name], random)}, name


async def all_of(asked: Sequence[Awaitable[CandidateProposal]]) -> list[CandidateProposal]:
    """Every answer. A failure waits for the others, which are being paid for, so that their cost is booked."""
    answers = await asyncio.gather(*asked, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]


def _learning(configuration: Configuration, parent: str) -> CandidateProposal:
    """The parent on the training samples, which its proposer is shown."""
    return CandidateProposal(configuration=configuration, parent_candidate_ids=(parent,), part=Part(split="train"))


def _unchanged(configuration: Configuration, parent: str) -> CandidateProposal:
    return CandidateProposal(
        configuration=configuration, parent_candidate_ids=(parent,), resample=True, extra={"origin": "resample"}
    )
