"""The fields of a spec as keywords, with the types that type checkers shall know: of a call, and of a declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from ratchet.plugins import ExperimentContext, Output, Sample

GivenTarget = Callable[[Any, Sample], Any] | Callable[[Any, Sample, ExperimentContext], Any] | Mapping[str, Any]
GivenScorer = Callable[[Output, Sample], Any] | Mapping[str, Any] | str


class FurtherFields(TypedDict, total=False):
    """What a spec says by names for which a declaration has no words of its own."""

    target: GivenTarget
    configuration: Mapping[str, Any]
    name: str
    prompt: str | Mapping[str, Any]
    dataset: Mapping[str, Any]
    scorers: Sequence[GivenScorer]
    optimizer: str | Mapping[str, Any] | Callable[..., Any]
    judgement: Mapping[str, Any]
    replicates: int | Literal["auto"]
    samples_per_trial: int
    stop: Mapping[str, Any]
    budget: Mapping[str, Any]
    execution: Mapping[str, Any]
    reuse: Literal["run", "always", "never"]
    prices: Mapping[str, Any]
    release: Mapping[str, Any]
    experiment: str
    flags: Mapping[str, Any]
    seed: int


class OptionFields(TypedDict, total=False):
    """What else a call may say."""

    home: str | Path
    """Where the embedded servers keep their data; default: RATCHET_HOME, else `.ratchet` here."""
    new: bool
    """Run it again although it ran before, and pay again."""
    yes: bool
    """Spend more than `ask_above` without being asked."""
    ask_above: float
    """What a run may cost without `yes`; default 1.00."""
    progress: bool
    """Show it, as the command line does; below the cell of a notebook. Default: on a terminal and in a notebook."""


class DeclaredFields(FurtherFields, OptionFields, total=False):
    """What a declaration may say beside its own words."""
