"""What everybody may ask of a scorer. Each kind answers for itself, in its file in `workflows.model.spec.scorers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from ratchet._frozen import SpecPart
from workflows.model.run.numbers import Weight
from workflows.model.spec.extensions.called_activity import CalledActivity
from workflows.model.spec.extensions.kinds import Various
from workflows.model.spec.extensions.named_plugins import NamedPlugin
from workflows.model.spec.extraction import Extract

ScoreName = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.-]{0,63}$")]


@dataclass(frozen=True, slots=True)
class AskedModel:
    """A model that a scorer asks."""

    model: str
    base_url: str | None
    shown: str = ""
    """What it is shown beside each answer."""
    parameters: Mapping[str, Any] | None = None
    """Of its requests; None where it embeds texts, and answers nothing."""
    form: str | None = None
    """How its answers are held to a form: `json_schema`, `json_object` or `none`."""


@dataclass(frozen=True, slots=True)
class LabelRules:
    """Which labels there are, and which count as equal."""

    labels: Sequence[str]
    """Empty where the spec names none."""
    ignore_case: bool


class Scorer(Various):
    """What turns an output into scores."""

    told_by = "kind"

    graded_by: ClassVar[str]
    """The function that grades an output, as `.module:function` of `activities.scorers`."""
    names_its_scores: ClassVar[bool] = False
    """Whether it may give scores of other names than its own."""
    is_judged: ClassVar[bool] = False
    """Whether a model judges, by instructions of ours."""
    asks_somebody: ClassVar[bool] = False
    """Whether it needs somebody else to score, who may be away and takes the time that he takes."""
    depends_on_prices: ClassVar[bool] = False
    """Whether its score is made of what models cost."""

    name: ScoreName | None = None
    """The score's name, by which the objective refers to it. Default: the kind."""
    threshold: float = 0.5
    """A sample counts as passed when its score reaches this."""
    negate: Annotated[bool, Field(alias="not")] = False
    """Turn it around: the score becomes 1 minus itself, and what would have passed fails."""
    weight: Weight = 1.0
    """Its share in the `mean_of` that it is a member of."""

    model_config = SpecPart.model_config | {"populate_by_name": True, "serialize_by_alias": True}

    if TYPE_CHECKING:

        @property
        def kind(self) -> str:
            """The word by which a spec names it."""

    @classmethod
    def kinds(cls) -> Mapping[str, type[SpecPart]]:
        """Every scorer by its kind."""
        from workflows.model.spec.scorers import SCORERS

        return SCORERS

    @property
    def score_name(self) -> str:
        """What its score is called."""
        return self.name or self.kind

    # -- what it is made of -----------------------------------------------------------------------------------------------

    @property
    def members(self) -> Sequence[Scorer]:
        """The scorers that it is combined of."""
        return ()

    @property
    def depth(self) -> int:
        """How deep it is combined."""
        return 0

    def plugins(self, place: str) -> Iterator[NamedPlugin]:
        """The plug-ins it names; `place` is its own field."""
        yield from ()

    @property
    def asked_model(self) -> AskedModel | None:
        """The model that it asks, if it asks one."""
        return None

    @property
    def called_activity(self) -> CalledActivity | None:
        """The activity that it calls, if it calls one."""
        return None

    # -- what it needs ----------------------------------------------------------------------------------------------------

    @property
    def part(self) -> Extract | None:
        """Which part of an output it looks at; None for all of it."""
        return None

    @property
    def needs_expected(self) -> bool:
        """Whether it compares with what a sample expects."""
        return False

    def unusable(self, expected: Any) -> str | None:
        """Why it cannot compare with that, ending in a word before `needs`."""
        return None

    @property
    def schema_used(self) -> Mapping[str, Any] | None:
        """The JSON Schema that it checks outputs with."""
        return None

    @property
    def needs_first_token(self) -> bool:
        """Whether it needs the time of an answer's first token."""
        return False

    @property
    def needs_latency(self) -> bool:
        """Whether it needs the time that an answer took."""
        return False

    @property
    def reported_name(self) -> str | None:
        """The score that it takes from the target's answer, if it takes one."""
        return None

    # -- what it gives ----------------------------------------------------------------------------------------------------

    @property
    def gives_a_number(self) -> bool:
        """Whether its score is a number of any size, and not between 0 and 1."""
        return False

    @property
    def label_rules(self) -> LabelRules | None:
        """How labels are told apart, where it keeps those of answers."""
        return None


class OutputScorer(Scorer):
    """A scorer that looks at what was put out."""

    extract: Extract | None = None
    """Score only a part of the output. An output that does not have it scores 0."""

    @property
    def part(self) -> Extract | None:
        return self.extract


def placed_scorers(scorers: Sequence[Scorer], within: str = "") -> Iterator[tuple[str, Scorer]]:
    """Every scorer, members of combined ones too, with its field: `scorers[1].scorers[0]`."""
    for index, scorer in enumerate(scorers):
        place = f"{within}scorers[{index}]"
        yield place, scorer
        yield from placed_scorers(scorer.members, f"{place}.")
