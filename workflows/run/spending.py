"""The run's money: what was paid, what may have been paid in vain, what was reused, and what further work needs."""

from __future__ import annotations

from typing import Self

from ratchet.optimizer import StopDecision
from workflows.model.run.amounts import Resource
from workflows.model.run.contract import CarriedState
from workflows.model.run.rounds import Spend
from workflows.model.run.team_rest import TeamRest
from workflows.model.trial import TrialResult


class Spending:
    """Counts what trials and proposals took."""

    def __init__(self) -> None:
        self.spend = Spend()
        self.lost = Spend()
        self.reused = 0
        self.exhausted: Resource | None = None
        """The budget that did not cover a whole trial."""
        self.team_rest: TeamRest | None = None
        """What the team's month had left then, where it was that budget."""
        self.over: StopDecision | None = None
        """Set when none of a step's trials could be begun for want of budget."""

    @classmethod
    def carried(cls, state: CarriedState) -> Self:
        """As they stood at the end of the execution before."""
        spending = cls()
        spending.spend, spending.lost, spending.reused = state.spend, state.lost, state.reused
        return spending

    def add_trial(self, result: TrialResult) -> None:
        """Count what a trial was paid for."""
        self.spend = Spend(
            samples=self.spend.samples + result.paid_samples,
            trials=self.spend.trials + 1,
            tokens=self.spend.tokens + result.paid_tokens,
            cost=self.spend.cost + result.paid_cost,
        )
        self.lost = Spend(
            samples=self.lost.samples + result.lost_samples,
            tokens=self.lost.tokens + result.lost_tokens,
            cost=self.lost.cost + result.lost_cost,
        )
        self.reused += result.reused_samples
        if self.exhausted is None:
            self.exhausted, self.team_rest = result.exhausted, result.team_rest

    def add_answers(self, tokens: int, cost: float) -> None:
        """Count what a proposer was paid for."""
        self.spend = self.spend.model_copy(update={"tokens": self.spend.tokens + tokens, "cost": self.spend.cost + cost})

    @property
    def counted(self) -> Spend:
        """What counts against the budget: what was paid, and what may have been."""
        return Spend(
            samples=self.spend.samples + self.lost.samples,
            trials=self.spend.trials,
            tokens=self.spend.tokens + self.lost.tokens,
            cost=self.spend.cost + self.lost.cost,
        )
