"""What `reflect` and `gepa` tell the computations that plan their steps, and the plans that come back."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from ratchet._frozen import Payload
from workflows.model.trial import Split


class SamplePart(Payload):
    """Some neighbouring samples of a split."""

    split: Literal["train", "search"]
    """`search`: those that candidates are scored on. `train`: those set apart to learn from."""
    first: int
    count: int


class MeasuredPart(SamplePart):
    """Samples on which a known candidate is measured."""

    candidate_id: str


class ShownPart(SamplePart):
    """Answered samples of a candidate that the proposer reads about."""

    candidate_id: str
    limit: int = 5
    """How many of them at most, the worst first."""


class Rewriting(Payload):
    """One candidate to make, and the samples to measure it on."""

    base: str
    """The candidate that it starts from."""
    parents: tuple[str, ...]
    components: tuple[str, ...]
    """The factors that may be rewritten."""
    reflect: bool
    """Whether the proposer is asked. If not, the values alone make the candidate."""
    parts: tuple[SamplePart, ...]
    values: dict[str, JsonValue] = Field(default_factory=dict)
    """What is put into the base first."""
    shown: tuple[ShownPart, ...] = ()
    origin: str = "recombination"
    """What the history calls a candidate that no proposer wrote."""
    told: dict[str, JsonValue] = Field(default_factory=dict)
    """What the history keeps of the plan."""


class Task(SamplePart):
    """A minibatch, and the parent whose answers to it a child has to beat."""

    parent: str


class UnderWay(Payload):
    """What `gepa` is in the middle of, from one step to the next."""

    iteration: int = 0
    stage: Literal["parents", "children", "merge"] | None = None
    """What is being measured."""
    tasks: tuple[Task, ...] = ()
    contested: tuple[SamplePart, ...] = ()
    """The samples on which a merge is compared with both of its parents."""
    found_new: bool = False
    """Whether the last iteration let a candidate in."""


class StepPlan(Payload):
    """What one step does. A plan with nothing to do ends the search."""

    answers: int | None = None
    """How many answers it was made from."""
    measure: tuple[MeasuredPart, ...] = ()
    rewrite: tuple[Rewriting, ...] = ()
    full: tuple[str, ...] = ()
    """Candidates to measure on all samples, which ends the round."""
    extra: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)
    """What was said of these when they were proposed."""
    rests: bool = False
    """The round ends, and nobody is measured in full."""
    fronts: dict[str, int] = Field(default_factory=dict)
    """For the history: on how many samples candidates lead."""
    under_way: UnderWay = UnderWay()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing left to do."""
        return not (self.measure or self.rewrite or self.full or self.rests)


class Situation(Payload):
    """What the step of a search is planned for."""

    sign: float
    """-1 where lower scores are better."""
    factors: tuple[str, ...]
    one_at_a_time: bool
    """Whether a rewriting changes one factor only."""
    candidates_per_round: int
    """Proposals side by side."""
    minibatch: int
    search: int
    """How many samples candidates are scored on."""
    train: int
    """How many are set apart to learn from."""

    def sizes(self, search: Split) -> dict[Split, int]:
        """Tell how many samples each split has."""
        return {search: self.search, Split.TRAIN: self.train} if self.train else {search: self.search}


class ReflectSituation(Situation):
    """Where a run of `reflect` stands."""

    seed: int
    """This step's own."""
    generation: int
    """Steps of the run so far."""
    steps: int
    """Steps of the round so far."""
    steps_per_round: int
    replicates: int = 1
    calls_left: int | None = None
    trials_left: int | None = None
    brevity: float = 0.0
    """What a line must be worth to be in a leader."""


class GepaSituation(Situation):
    """Where a run of `gepa` stands."""

    run_seed: int
    merges: int = 0
    under_way: UnderWay = UnderWay()


def part_of(split: Split, first: int, count: int) -> SamplePart:
    """Name neighbouring samples as plans do."""
    return SamplePart(split="train" if split is Split.TRAIN else "search", first=first, count=count)
