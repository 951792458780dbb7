"""What everybody may ask of a target. Each kind answers for itself, in its file in `workflows.model.spec.targets`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from ratchet._frozen import SpecPart
from workflows.model.spec.extensions.kinds import Various
from workflows.model.spec.extensions.named_plugins import NamedPlugin

if TYPE_CHECKING:
    from workflows.model.spec.batch_options import BatchOptions, BatchRules
    from workflows.model.spec.targets.at_most import AtMost
    from workflows.model.spec.targets.chat import ChatStep
    from workflows.model.spec.targets.external import ActivityCalls, ExperimentRules
    from workflows.model.spec.targets.simulated_users import ModelUser


@dataclass(frozen=True, slots=True)
class PlacedText:
    """A text with placeholders."""

    where: str
    """The field of the spec."""
    text: str
    steps: tuple[str, ...] | None = None
    """The steps whose answers it may refer to; None where there are none."""
    of_json: bool = False
    """Whether it is part of a JSON template, where `{{factors}}` is the whole configuration."""
    is_splice: bool = False


@dataclass(frozen=True, slots=True)
class StatedParameter:
    """A parameter of requests to a model."""

    where: str
    """The field of the spec."""
    name: str
    value: Any
    model: str
    """As the spec writes it."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """A text of a system message, or a splice, which may have some."""

    where: str
    """The field of the spec."""
    text: str
    model: str
    """Who is told, as the spec writes it."""
    is_splice: bool = False


@dataclass(frozen=True, slots=True)
class CalledPlace:
    """A place that is called over HTTP, which the operator of a worker has to allow."""

    url: str
    listed_in: str
    """The variable of the list that must name its origin."""
    one: str
    """What it is, in words."""
    several: str
    """The same of several."""
    auth: str = "none"
    """How it is sent the operator's token, if it is."""
    where: str = "target.url"
    """The field of the spec."""


class Target(Various):
    """What is run on each sample."""

    told_by = "kind"

    answered_by: ClassVar[str | None] = None
    """The class that answers samples, as `.module:Class` of `activities.targets`; None where a trial is run elsewhere."""
    renders_prompts: ClassVar[bool] = False
    """Whether it renders the prompt itself, from the store of prompts."""
    taken_files: ClassVar[tuple[str, ...] | None] = None
    """The media types of files in samples that it can be sent; None where it is sent any."""
    keeps_turns: ClassVar[bool] = False
    """Whether it answers in turns, each of which is stored as it comes."""
    runs_whole_trials: ClassVar[bool] = False
    """Whether nobody can look at a trial before all of it is answered."""

    if TYPE_CHECKING:

        @property
        def kind(self) -> str:
            """The word by which a spec names it."""

    @classmethod
    def kinds(cls) -> Mapping[str, type[SpecPart]]:
        """Every target by its kind."""
        from workflows.model.spec.targets import TARGETS

        return TARGETS

    # -- what it is made of -----------------------------------------------------------------------------------------------

    def plugins(self) -> Iterator[NamedPlugin]:
        """The plug-ins it names."""
        yield from ()

    def placed_texts(self) -> Iterator[PlacedText]:
        """Every text of it in which placeholders are substituted."""
        yield from ()

    @property
    def texts(self) -> Sequence[str]:
        """Those that are sent to a model with every sample."""
        return ()

    @property
    def described_tools(self) -> Sequence[Any]:
        """What a model is sent with every request of the tools that it may call, as far as the spec says it."""
        return ()

    def instructions(self) -> Iterator[Instructions]:
        """What it tells models in system messages."""
        yield from ()

    def stated_parameters(self) -> Iterator[StatedParameter]:
        """The parameters of its requests to models, as far as the spec states them."""
        yield from ()

    # -- models -----------------------------------------------------------------------------------------------------------

    def models(self) -> Iterator[tuple[str, str]]:
        """The models it asks, each with the field that names it; a placeholder stands for the values of a factor."""
        yield from ()

    @property
    def model_url(self) -> str | None:
        """Where its models answer, if the spec says so."""
        return None

    @property
    def requests(self) -> Sequence[ChatStep]:
        """The requests that it sends to a model for one sample."""
        return ()

    @property
    def most_turns(self) -> int:
        """How often it makes each of these requests at most."""
        return 1

    @property
    def simulated_user(self) -> ModelUser | None:
        """Who replies to its answers, where a model plays him."""
        return None

    @property
    def most_shown(self) -> int:
        """Characters of what its tools answer that its model is shown at most, for one sample."""
        return 0

    # -- what a call takes and gives --------------------------------------------------------------------------------------

    @property
    def stated(self) -> AtMost | None:
        """What one call takes at most, as far as the spec says it."""
        return None

    @property
    def is_set_aside_whole(self) -> bool:
        """Whether what it may take is set aside for many samples at once, as nobody can do it call by call."""
        return False

    @property
    def tells_first_token(self) -> bool:
        """Whether answers say when their first token came."""
        return True

    @property
    def demands_echo(self) -> bool:
        """Whether an answer that does not say which configuration it was made with is none."""
        return False

    def missing_scores(self) -> str | None:
        """What to do where its answers come without scores; None where they have some."""
        return None

    # -- where it runs ----------------------------------------------------------------------------------------------------

    def calls(self, sample_timeout: timedelta) -> ActivityCalls | None:
        """How a trial calls the activity that it is, if it is one."""
        return None

    def rules(self) -> ExperimentRules | None:
        """How a trial waits for the runner that it is, if it is one."""
        return None

    def batch_rules(self, options: BatchOptions, *, rest_directly: bool) -> BatchRules | None:
        """How a trial hands its samples to a provider's batches, if it can be asked in batches."""
        return None

    def batch_problems(self) -> Iterator[str]:
        """Why it cannot be asked in batches, with the field that says so."""
        yield "target: cannot be asked in batches, only a chat model can; set execution.mode: direct"

    def called_places(self) -> Iterator[CalledPlace]:
        """What it calls over HTTP, where the operator has to allow that."""
        yield from ()

    def called_servers(self) -> Iterator[tuple[str, str]]:
        """The MCP servers that it calls by the names that the operator gave them, each with its field."""
        yield from ()


def texts_within(
    where: str, value: object, steps: tuple[str, ...] | None = None, *, of_json: bool = False
) -> Iterator[PlacedText]:
    """Find every text in a value of the spec, with its field."""
    if isinstance(value, str):
        yield PlacedText(where, value, steps, of_json)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from texts_within(f"{where}.{key}", part, steps, of_json=of_json)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from texts_within(f"{where}[{index}]", part, steps, of_json=of_json)
