"""Python targets: a callable of the user's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from ratchet._values import ShortText
from workflows.model.spec.extensions.named_plugins import NamedPlugin, PluginReference
from workflows.model.spec.extensions.target_options import Target
from workflows.model.spec.targets.at_most import AtMost


class PythonTarget(Target):
    """A Python callable `(configuration, sample, context) -> Output | str | dict`, sync or async."""

    answered_by = ".python:PythonAnswers"

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
    must_echo: bool = False
    """Whether an answer fails that does not say which configuration was used (`Output.overlay_hash`)."""

    @model_validator(mode="after")
    def _processes_belong_to_a_pool(self) -> PythonTarget:
        if self.processes is not None and self.pool != "process":
            raise ValueError("processes is given, but pool is thread; add pool: process, or remove processes")
        return self

    def plugins(self) -> Iterator[NamedPlugin]:
        yield NamedPlugin("target.ref", self.ref, 3, self.version)

    @property
    def stated(self) -> AtMost | None:
        return self.at_most

    @property
    def demands_echo(self) -> bool:
        return self.must_echo
