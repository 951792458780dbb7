"""What a run asks of its optimizer, and what becomes of an optimizer that fails."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from ratchet.optimizer import CandidateProposal, Optimizer, StopReason, TrialFacts
from workflows.model.run.candidates import Candidate, Rejection
from workflows.optimizers.frame import BudgetRefused, ProposalFailed
from workflows.optimizers.guard import OptimizerGuard
from workflows.rules.decisions.budget import exhausted_by
from workflows.run.end.ended import RunEnded
from workflows.run.loop import Surroundings
from workflows.run.proposals.manual_proposals import own_proposal
from workflows.run.state import RunState


class OptimizerCalls(Surroundings):
    """The optimizer's part of what `workflows.run.loop` runs in, where there is an optimizer to ask."""

    def __init__(self, state: RunState, optimizer: Optimizer, begin_step: Callable[[], None]) -> None:
        """`begin_step` tells the optimizer's frame that a step begins."""
        self._state = state
        self._optimizer = optimizer
        self._begin_step = begin_step

    def initialize(self) -> None:
        """Tell the optimizer of the baseline."""
        with self._guard("initialize"):
            self._state.optimizer_state = self._optimizer.initialize(self._state.context())

    def stopped_by_optimizer(self) -> RunEnded | None:
        """The end of the run, where the optimizer calls for it."""
        state = self._state
        with self._guard("should_stop"):
            decision = self._optimizer.should_stop(state.optimizer_state, state.trial_history)
        if not decision.should_stop:
            return None
        message = decision.message or f"Stopped by {state.request.optimizer.name}"
        return RunEnded(decision.reason or StopReason.ALGORITHM_SPECIFIC, message, by="optimizer")

    async def propose(self) -> tuple[list[Candidate], list[Rejection]]:
        """Let in what a person asks for, then what the optimizer proposes. A round may be lost, several in a row may not."""
        state = self._state
        self._begin_step()
        own = [own_proposal(state, pending) for pending in state.waiting]
        state.waiting = []
        try:
            proposed = await self._proposed()
        except BudgetRefused as error:
            over = exhausted_by(error.resource, state.limits.budget, error.team_rest)
            raise RunEnded(over.reason or StopReason.PROPOSAL_FAILURE, over.message or "", by="proposer") from error
        except ProposalFailed as error:
            if state.lose_round(str(error)):
                raise RunEnded(StopReason.PROPOSAL_FAILURE, f"Mutation failed: {error}") from error
            return state.admit(own)
        state.use_round()
        return state.admit([*own, *proposed])

    async def _proposed(self) -> list[CandidateProposal]:
        state = self._state
        with self._guard("propose"):
            proposed = self._optimizer.propose(
                state.optimizer_state, state.trial_history, state.request.optimizer.candidates_per_round
            )
            return [*(await proposed if inspect.isawaitable(proposed) else proposed)]

    def observe(self, facts: Sequence[TrialFacts]) -> None:
        """Tell the optimizer what a step has measured."""
        with self._guard("observe"):
            self._state.optimizer_state = self._optimizer.observe(self._state.optimizer_state, list(facts))

    def _guard(self, method: str) -> OptimizerGuard:
        return OptimizerGuard(self._state.request.optimizer.name, method)
