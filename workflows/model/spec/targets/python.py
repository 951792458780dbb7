"""Targets: what is run on a sample."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ratchet._frozen import SpecPart
from ratchet._values import ShortText
from workflows.model.run.numbers import Cost
from workflows.model.spec.named_plugins import PluginReference
from workflows.model.spec.targets.at_most import AtMost as AtMost
from workflows.model.spec.targets.chat import ChatTarget as ChatTarget
from workflows.model.spec.targets.external import ActivityTarget, ExternalTarget
from workflows.model.spec.targets.http import HttpTarget as HttpTarget


class PythonTarget(SpecPart):
    """A Python callable `(configuration, sample, context) -> Output | str | dict`, sync or async."""

    kind: Literal["python"]
    ref: PluginReference
    """`package.module:attribute`."""
    version: ShortText | None = None
    """Names the code's version. Default: a hash of the source of the module that defines it."""
    pool: Literal["thread", "process"] = "thread"
    """Where a callable that is not async runs. `process`: in warm processes of its own, for work that keeps a processor busy;
    there a call that takes longer than the sample timeout is really ended, and one that kills its process fails alone."""
    processes: Annotated[int, Field(ge=1, le=1000)] | None = None
    """With `pool: process`, how many there are on each worker. Default: as many as it has processors."""
    at_most: AtMost | None = None
    """What one call takes at most; it makes budgets of tokens and cost hard. Default: 1.5 times the dearest call so far."""

    @model_validator(mode="after")
    def _processes_belong_to_a_pool(self) -> PythonTarget:
        if self.processes is not None and self.pool != "process":
            raise ValueError("processes is given, but pool is thread; add pool: process, or remove processes")
        return self


Target = Annotated[ChatTarget | HttpTarget | PythonTarget | ActivityTarget | ExternalTarget, Field(discriminator="kind")]


class Price(SpecPart):
    """What a model costs per million tokens."""

    input: Cost
    """Per million tokens read."""
    output: Cost
    """Per million tokens written."""
    cached_input: Cost | None = None
    """Per million tokens read from the provider's cache. Default: the price of `input`."""
