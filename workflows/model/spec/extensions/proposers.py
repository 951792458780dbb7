"""Where new values of factors come from: a model, a plug-in, seeded steps, or nowhere."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ratchet._frozen import SpecPart
from ratchet._values import CanonicalMapping, ShortText, Text
from workflows.model.spec.extensions.called_activity import CalledActivity
from workflows.model.spec.extensions.named_plugins import Description, PluginReference


class ModelProposer(SpecPart):
    """Asks a chat model for better texts, showing it recent scores and failed samples."""

    kind: Literal["model"]
    model: Annotated[ShortText, Field(min_length=1)]
    """The model that writes proposals; any name the endpoint knows."""
    base_url: ShortText | None = None
    """Where it answers. Default: OPENAI_BASE_URL of the worker."""
    parameters: CanonicalMapping = Field(default_factory=dict)
    """Request parameters, such as temperature."""
    template: Text | None = None
    """Replaces the request that the optimizer sends. Placeholders: `{{texts}}` (all of them, with their names), `{{feedback}}`
    (scores and failures), `{{hall_of_fame}}` (the best so far, where the optimizer keeps them), `{{limits}}`, `{{form}}` (how
    to answer); or, for one request per text, `{{factor.name}}` and `{{factor.value}}`. Without `{{form}}`, and without naming
    the tag `<new_value>` itself, the whole answer is the new text."""
    repairs: Annotated[int, Field(ge=0, le=5)] = 2
    """How often the model is asked again when its answer cannot be used, shown what is wrong with it."""
    examples: Annotated[int, Field(ge=0, le=20)] = 5
    """How many failed samples it is shown."""
    files: Annotated[int, Field(ge=0, le=50)] = 4
    """How many of their images, PDFs and text files it is sent at most; 0 for a model that takes none."""

    @property
    def asked_of(self) -> str:
        return self.model


class PythonProposer(SpecPart):
    """A callable `(current, records, factors) -> new values by factor name`, sync or async.

    With `candidates_per_round` above 1 it is asked several times about the same candidate: one that has the optional parameters
    `index` (0, 1, 2, … within the round) or `seed` (another whole number every time, and the same again in a run that is
    repeated) is given them by name, and can answer differently: `def propose(current, records, factors, *, index=0, seed=0)`.
    """

    kind: Literal["python"]
    ref: PluginReference
    """`package.module:attribute`."""
    version: ShortText | None = None
    """Names the code's version. Default: a hash of the source of the module that defines it."""
    description: Description | None = None
    """What reports call it. Default: what its own `description()` returns, or else its reference."""
    examples: Annotated[int, Field(ge=0, le=200)] = 20
    """How many evaluated samples it is shown, failed ones first."""

    @property
    def asked_of(self) -> str:
        return self.ref


class ActivityProposer(CalledActivity):
    """An activity of your own, on any task queue, in any language. `examples/temporal` has the contract.

    Each call is a small workflow of its own. One that fails, or that nobody takes, is a proposal that failed.
    """

    kind: Literal["activity"]
    examples: Annotated[int, Field(ge=0, le=200)] = 20
    """How many evaluated samples it is shown, failed ones first."""

    @property
    def asked_of(self) -> str:
        return self.activity


class NoOpProposer(SpecPart):
    """Proposes the value unchanged, with fresh answers: an A/A test of the whole set-up."""

    kind: Literal["noop"]


class StepProposer(SpecPart):
    """Moves one structured factor a seeded step: numbers by `step`, choices and flags to another value, orders by a swap."""

    kind: Literal["step"]


AskedProposer = ModelProposer | PythonProposer | ActivityProposer
"""Those who are asked for new values outside of the workflow."""

Asked = Annotated[AskedProposer, Field(discriminator="kind")]
Proposer = Annotated[AskedProposer | NoOpProposer | StepProposer, Field(discriminator="kind")]
