"""`rescore`: no search. Proposes the candidates of an earlier run once more, whose answers are all that is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from ratchet.optimizer import (
    GO_ON,
    CandidateProposal,
    OptimizerState,
    RunContext,
    StopDecision,
    StopReason,
    TrialFacts,
    TrialHistory,
)
from workflows.model.measured_parts import MeasuredPart
from workflows.model.run.candidates import Candidate
from workflows.model.spec.execution import Stop
from workflows.model.spec.extensions.optimizer_options import OptimizerSpec
from workflows.optimizers.frame import Frame
from workflows.optimizers.states import first_state

MOST_IN_A_ROUND = 1_000


class RescoreOptimizer(OptimizerSpec):
    """No search: the candidates of an earlier run, with the answers that they had, judged by other scorers or rules. Set by
    `ratchet rescore`."""

    name: Literal["rescore"]
    run: Annotated[str, Field(min_length=1, max_length=200)]
    """The run whose candidates and answers are taken. Its target is asked nothing; an answer that is not there is missing."""
    candidates: list[Annotated[list[str], Field(min_length=1, max_length=MOST_IN_A_ROUND)]] = Field(default_factory=list)
    """Its candidates, round by round."""
    learned_from_train: bool = False
    """Whether its optimizer is one that learns from samples of their own: then the same splits are drawn by default."""
    parts: list[MeasuredPart] = Field(default_factory=list)
    """What its optimizer measured of them first, to decide whether they are worth all samples. They were chosen by these
    answers, which therefore confirm nothing."""
    sought_winner: bool = True
    """Whether it could have a winner: then samples are held back by default, as they were for it."""

    @property
    def proposer(self) -> None:
        """Nothing is written anew."""
        return

    @property
    def factors(self) -> None:
        """What changes in its candidates is as it was."""
        return

    @property
    def candidates_per_round(self) -> int:
        """As many as the largest round had."""
        return max((len(names) for names in self.candidates), default=1)

    @property
    def learns_from_train(self) -> bool:
        return self.learned_from_train

    @property
    def seeks_winner(self) -> bool:
        return self.sought_winner

    @property
    def answers_of(self) -> str:
        return self.run

    @property
    def parts_before(self) -> Sequence[MeasuredPart]:
        return self.parts

    def most_trials(self, stop: Stop) -> int:
        return 1 + sum(len(names) for names in self.candidates)

    def describe(self, longest: int | None) -> str:
        return f"None (rescored from {self.run}: its candidates and its answers)"

    @property
    def looks_further(self) -> bool:
        return bool(self.candidates)


class Rescore:
    """Goes through the rounds of the earlier run."""

    def __init__(self, options: RescoreOptimizer, frame: Frame) -> None:
        self._options = options
        self._frame = frame

    def initialize(self, context: RunContext) -> OptimizerState:
        return first_state(context)

    async def propose(self, state: OptimizerState, history: TrialHistory, max_candidates: int) -> Sequence[CandidateProposal]:
        named = self._options.candidates[state.generation]
        candidates = [await self._frame.candidate_of(self._options.run, name) for name in named]
        names = [self._frame.context.baseline_candidate_id, *(trial.candidate_id for trial in history.trials)]
        known = {_content(name): name for name in names}
        return [_proposal(candidate, known) for candidate in candidates]

    def observe(self, state: OptimizerState, trials: Sequence[TrialFacts]) -> OptimizerState:
        return state.model_copy(update={"generation": state.generation + 1})

    def should_stop(self, state: OptimizerState, history: TrialHistory) -> StopDecision:
        if state.generation < len(self._options.candidates):
            return GO_ON
        message = f"All {self._options.most_trials(Stop())} configurations of {self._options.run} were scored anew"
        return StopDecision(should_stop=True, reason=StopReason.COMPLETED, message=message)


def _proposal(candidate: Candidate, known: Mapping[str, str]) -> CandidateProposal:
    """The candidate as it was. `known` are those of this run by their content: rounds may have other numbers here."""
    parents = tuple(known[content] for parent in candidate.parent_candidate_ids if (content := _content(parent)) in known)
    return CandidateProposal(
        configuration=candidate.configuration,
        parent_candidate_ids=parents,
        rationale=candidate.rationale,
        resample=candidate.first_replicate > 0,
        extra={**candidate.extra, "rescored": candidate.candidate_id},
    )


def _content(candidate_id: str) -> str:
    """What a candidate's id says beside its round."""
    return candidate_id.partition("-")[2]
