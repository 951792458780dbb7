"""Users that talk to an agent over several turns: scripted, or played by a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ratchet._frozen import SpecPart
from ratchet._text.placeholders import placeholders
from ratchet._values import CanonicalMapping, ShortText, Text
from workflows.model.spec.extensions.target_options import PlacedText, StatedParameter


def _is_of_the_sample(value: str) -> str:
    if any(not name.startswith("input") for name in placeholders(value)):
        raise ValueError("may name the sample only, {{input.…}}: no candidate chooses its user")
    return value


UserText = Annotated[Text, AfterValidator(_is_of_the_sample)]
"""A text with placeholders of the sample."""


class ScriptedUser(SpecPart):
    """A user who says the same whatever the agent answers, and leaves after his last words."""

    kind: Literal["scripted"]
    says: Annotated[list[UserText], Field(min_length=1, max_length=100)] | UserText
    """What he says after each answer, in order; or one placeholder that stands for a list in the sample: `{{input.turns}}`."""

    def placed_texts(self) -> Iterator[PlacedText]:
        """Its texts with placeholders."""
        if isinstance(self.says, str):
            yield PlacedText("target.user.says", self.says)
        else:
            for index, text in enumerate(self.says):
                yield PlacedText(f"target.user.says[{index}]", text)

    def models(self) -> Iterator[tuple[str, str]]:
        """The models that it asks."""
        yield from ()

    def stated_parameters(self) -> Iterator[StatedParameter]:
        """The parameters of its requests."""
        yield from ()


class ModelUser(SpecPart):
    """A user whom a model plays, until he has what he wants. What he takes counts to the answer."""

    kind: Literal["model"]
    model: Annotated[ShortText, AfterValidator(_is_of_the_sample), Field(min_length=1)]
    """Who plays him, where the agent's model answers."""
    goal: UserText
    """What he wants: `{{input.goal}}`."""
    persona: UserText = "An ordinary customer."
    """Who he is, and how he speaks."""
    stop: UserText = "you have what you wanted, or it is clear that you will not get it"
    """When he leaves, after "as soon as"."""
    replies: Annotated[int, Field(ge=1, le=100)] = 8
    """How often he says something at most, after the opening."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """His own. With it each sample's replicate has a seed that is the same for all candidates. Anthropic and Bedrock have no
    seeds."""
    parameters: CanonicalMapping = Field(default_factory=dict)
    """Request parameters, passed through."""

    def placed_texts(self) -> Iterator[PlacedText]:
        """Its texts with placeholders."""
        for name in ("goal", "persona", "stop"):
            yield PlacedText(f"target.user.{name}", getattr(self, name))

    def models(self) -> Iterator[tuple[str, str]]:
        """The models that it asks."""
        yield "target.user.model", self.model

    def stated_parameters(self) -> Iterator[StatedParameter]:
        """The parameters of its requests."""
        if "seed" in self.model_fields_set and "seed" not in self.parameters:
            yield StatedParameter("target.user.seed", "seed", self.seed, self.model)
        for name, value in self.parameters.items():
            yield StatedParameter(f"target.user.parameters.{name}", name, value, self.model)


User = Annotated[ScriptedUser | ModelUser, Field(discriminator="kind")]
