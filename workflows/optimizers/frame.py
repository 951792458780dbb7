"""What the frame hands a built-in optimizer, beside the public protocol in `ratchet.optimizer`."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from pydantic import JsonValue

from ratchet._frozen import Payload
from ratchet.optimizer import OptimizerState, RunContext
from ratchet.prompts.template import PromptTemplate
from workflows.model.activities.computation import Reads
from workflows.model.activities.optimizer_steps import CustomStepInput, CustomStepResult
from workflows.model.run.amounts import Resource
from workflows.model.run.candidates import Candidate
from workflows.model.run.contract import Proposed
from workflows.model.run.run_result import OptimizationResult
from workflows.model.run.team_rest import TeamRest
from workflows.model.spec.extensions.proposers import AskedProposer
from workflows.model.spec.factors import Configuration, Factor


class ProposalFailed(Exception):
    """A proposer that still fails after its retries."""


class BudgetRefused(ProposalFailed):
    """What is left of the budget does not cover asking for a proposal."""

    def __init__(self, resource: Resource, team_rest: TeamRest | None = None) -> None:
        super().__init__(f"the budget of {resource} does not cover another proposal")
        self.resource: Resource = resource
        self.team_rest = team_rest


@dataclass(frozen=True, slots=True)
class Shown:
    """Evaluated samples of a candidate that a proposer reads about."""

    candidate_id: str
    split: Literal["train", "search"] = "search"
    first: int = 0
    count: int | None = None
    """None: up to the last of the split."""
    limit: int | None = 5
    """How many of them at most. None: as many as the proposer is shown by its own options."""
    worst_first: bool = True


@dataclass(frozen=True, slots=True)
class Brief:
    """What a model is asked, where that is not the usual request for a better text."""

    template: str
    """With the placeholders that a proposer's own template may have, which replaces this one."""
    hall_of_fame: tuple[tuple[str, float], ...] = ()
    """Candidates with their scores, the best last; `{{hall_of_fame}}` shows their texts."""


@dataclass(frozen=True, slots=True)
class Prospects:
    """What there is to measure, and how much of it may still be paid for, as far as is known; None where nothing bounds it."""

    search_samples: int
    train_samples: int
    """0 where none were set apart to learn from."""
    replicates: int
    calls_left: int | None
    trials_left: int | None


@runtime_checkable
class Reporting(Protocol):
    """An optimizer that has more to say of a run's result than every run has."""

    def report(
        self, state: OptimizerState, result: OptimizationResult
    ) -> Mapping[str, Payload] | Awaitable[Mapping[str, Payload]]:
        """Further fields of the result; may await what `propose` may."""
        ...


class Frame(Protocol):
    """What the run hands its optimizer: all that `propose` may await."""

    @property
    def context(self) -> RunContext:
        """The run as it stood after the baseline."""
        ...

    @property
    def factors(self) -> dict[str, Factor]:
        """Every factor and how it may change."""
        ...

    @property
    def template(self) -> PromptTemplate | None:
        """The prompt whose parts are among the factors, if there is one."""
        ...

    @property
    def prospects(self) -> Prospects:
        """What the search may still do."""
        ...

    async def configuration(self, candidate_id: str) -> Configuration:
        """The configuration of a candidate of this run."""
        ...

    async def candidate_of(self, run_id: str, candidate_id: str) -> Candidate:
        """A candidate of another run, with its configuration."""
        ...

    async def new_values(
        self,
        proposer: AskedProposer,
        *,
        parent: str,
        factors: tuple[str, ...],
        index: int,
        feedback: str,
        configuration: Configuration | None = None,
        shown: tuple[Shown, ...] = (),
        brief: Brief | None = None,
    ) -> Proposed:
        """Ask a model or a plug-in for new values of some factors; raises `ProposalFailed` when retries do not help.

        `index` tells the answers apart that one call of `propose` asks for. `configuration` is what is rewritten, where that
        is not the parent's own. `shown` says whose samples the proposer reads about; by default the parent's, on the search
        split.
        """
        ...

    async def own_step(self, step: CustomStepInput) -> CustomStepResult:
        """One step of a user's optimizer, as an activity. Ends the run when it fails."""
        ...

    async def compute(
        self,
        function: str,
        arguments: Mapping[str, JsonValue],
        *,
        reads: Reads,
        plugin: str | None = None,
    ) -> JsonValue:
        """Run one of `workflows.optimizers.computations` over what is stored of this run, as an activity.

        With `plugin`, a callable of the spec's is shown the records first, and the function is given its answer. Raises
        `ProposalFailed` when it fails.
        """
        ...
