"""A user's own optimizer, given by reference."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ratchet._frozen import SpecPart
from ratchet._values import CanonicalMapping, ShortText
from workflows.model.spec.targets.python import PluginReference


def version_key(ref: str) -> str:
    """Where the run's versions say which code an optimizer is."""
    return f"optimizer {ref}"


class PythonOptimizer(SpecPart):
    """A class of yours with the four methods of `ratchet.Optimizer`. It runs in an activity, so any Python will do; it is made
    anew for every step and keeps what it remembers in its state. `clients.testing.check_protocol` tests it."""

    name: Literal["python"]
    ref: PluginReference
    """`package.module:Class`."""
    version: ShortText | None = None
    """Names the code's version. Default: a hash of the source of the module that defines it."""
    options: CanonicalMapping = Field(default_factory=dict)
    """What the class is made with, by the names of its parameters."""
    factors: list[str] | None = None
    """The treatment, which it is told as `context.factors`. Default: every factor that may change."""
    candidates_per_round: Annotated[int, Field(ge=1, le=100)] = 1
    """How many candidates it is asked for at most."""
    examples: Annotated[int, Field(ge=0, le=200)] = 20
    """How many evaluated samples of each new trial `observe` is shown, failed ones first."""

    @property
    def proposer(self) -> None:
        """It proposes itself."""
        return
