"""What everybody may ask of an optimizer. Each answers for itself, in its file in `workflows.optimizers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ratchet._frozen import SpecPart
from workflows.model.measured_parts import MeasuredPart
from workflows.model.spec.extensions.default_optimizer import Undecided, default_optimizer
from workflows.model.spec.extensions.kinds import Various
from workflows.model.spec.extensions.named_plugins import NamedPlugin
from workflows.model.spec.extensions.proposers import Proposer, PythonProposer
from workflows.model.spec.factors import Factor

if TYPE_CHECKING:
    from workflows.model.activities.optimizer_steps import OwnOptimizer
    from workflows.model.spec.execution import Stop
    from workflows.model.spec.request import OptimizationRequest
    from workflows.model.trial import Split

LOST_ROUNDS = 3
"""So many rounds in a row whose proposals could not be asked for end the run."""


class OptimizerSpec(Various):
    """An optimizer as a spec has it: its options, and what it says of itself."""

    told_by = "name"

    defaults: ClassVar[Mapping[str, Any]] = {}
    """What the spec means where it says nothing, by part of the spec."""
    packages: ClassVar[tuple[str, ...]] = ()
    """What has to be installed where it computes, beside what every worker has."""
    most_lost_rounds: ClassVar[int] = LOST_ROUNDS
    rounds: ClassVar[int | None] = None
    """How many rounds there are, where that is certain beforehand."""
    is_comparison: ClassVar[bool] = False
    """Whether reports put all that was measured side by side."""

    if TYPE_CHECKING:  # options of some, settled for others; each has them

        @property
        def name(self) -> str:
            """The word by which a spec names it."""

        @property
        def proposer(self) -> Proposer | None:
            """Who writes new values, if anybody does."""

        @property
        def factors(self) -> list[str] | None:
            """The treatment, as far as the spec says it."""

        @property
        def candidates_per_round(self) -> int:
            """How many candidates a round tries side by side."""

    @classmethod
    def kinds(cls) -> Mapping[str, type[SpecPart]]:
        """Every optimizer by its name."""
        from workflows.optimizers import OPTIMIZERS

        return {name: kind.options for name, kind in OPTIMIZERS.items()}

    # -- while a spec is read and checked ---------------------------------------------------------------------------------

    def problems(self, request: OptimizationRequest) -> Iterator[str]:
        """What is wrong with it in this spec, each with its field and the fix."""
        yield from ()

    def sample_problems(self, request: OptimizationRequest, sizes: Mapping[Split, int]) -> Iterator[str]:
        """What is wrong with how many samples there are."""
        yield from ()

    def plugins(self) -> Iterator[NamedPlugin]:
        """The plug-ins it names."""
        if isinstance(self.proposer, PythonProposer):
            yield NamedPlugin("optimizer.proposer.ref", self.proposer.ref, 3, self.proposer.version)

    @property
    def own_class(self) -> OwnOptimizer | None:
        """The user's class that it is, if it is one."""
        return None

    @property
    def learns_from_train(self) -> bool:
        """Whether it needs samples to learn from beside those that candidates are scored on."""
        return False

    @property
    def seeks_winner(self) -> bool:
        """Whether there can be a winner, which samples are held back for."""
        return True

    @property
    def earlier_runs(self) -> Sequence[str]:
        """Other runs that it learns from."""
        return ()

    @property
    def answers_of(self) -> str | None:
        """The run whose answers are all that is measured; None where the target is asked."""
        return None

    @property
    def parts_before(self) -> Sequence[MeasuredPart]:
        """What its candidates were measured on, before the run, to decide whether they are worth more."""
        return ()

    def most_trials(self, stop: Stop) -> int | None:
        """How many trials it can make, the baseline included; None where nothing but a budget bounds it."""
        return 1 + stop.max_rounds * self.candidates_per_round if stop.max_rounds else None

    # -- while it runs ----------------------------------------------------------------------------------------------------

    def in_play(self, configuration: Mapping[str, Factor]) -> Mapping[str, Factor]:
        """Every factor, and how it may change in this run."""
        return configuration

    @property
    def smallest_part(self) -> int | None:
        """The fewest samples that are worth going on for, where it measures parts."""
        return None

    @property
    def prefers_shorter(self) -> bool:
        """Whether the shorter of two candidates with the same score is kept."""
        return False

    # -- in reports -------------------------------------------------------------------------------------------------------

    def describe(self, longest: int | None) -> str:
        """How it makes candidates, in a few words. `longest` bounds the characters of a text."""
        return self.name

    def treatment(self, request: OptimizationRequest) -> Sequence[str]:
        """The factors that it can change."""
        return [name for name in self.factors or request.changeable if name in request.configuration]

    @property
    def looks_further(self) -> bool:
        """Whether it measures anything beside the baseline."""
        return True


def _default(spec: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any] | Undecided:
    """Where none goes without saying, what is wrong is told together with all else that is."""
    try:
        return default_optimizer(spec, given)
    except Undecided as undecided:
        return undecided


def as_optimizer(value: Any) -> Any:
    """Read a name alone as the optimizer of that name."""
    if isinstance(value, Undecided):
        raise value
    return {"name": value} if isinstance(value, str) else value


def with_defaults(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Complete a spec with its optimizer, and with what that takes for granted. What the spec says itself counts."""
    given = spec.get("optimizer") or {}
    if isinstance(given, Mapping) and "name" not in given and ("configuration" in spec or "prompt" in spec):
        spec = {**spec, "optimizer": _default(spec, given)}
    optimizer = spec.get("optimizer")
    name = optimizer.get("name") if isinstance(optimizer, Mapping) else getattr(optimizer, "name", optimizer)
    kind = OptimizerSpec.kinds().get(name) if isinstance(name, str) else None
    completed = dict(spec)
    for part, default in getattr(kind, "defaults", {}).items():
        given = spec.get(part)
        if isinstance(default, Mapping):
            if given is None or isinstance(given, Mapping):
                completed[part] = {**default, **(given or {})}
        elif part not in spec:
            completed[part] = default
    return completed
