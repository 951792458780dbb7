"""How a run is to be started and shown, as whoever asks for it says."""

from __future__ import annotations

from dataclasses import dataclass, field

from clients.runs.views.summary import EndView


@dataclass(frozen=True)
class OptionWords:
    """What options are called where the run is asked for."""

    new: str = "--new"
    yes: str = "--yes"


@dataclass(frozen=True)
class RunOptions:
    """How a run is to be started and shown."""

    new: bool = False
    detach: bool = False
    yes: bool = False
    ask_above: float = 1.0
    dry_run: bool = False
    retry_failed: bool = False
    rescore_of: str | None = None
    """The run whose answers are scored, instead of asking the target."""
    ending: EndView = field(default_factory=EndView)
    whole_engine: bool = True
    """Whether to refuse an installation that lacks a part of the engine."""
    words: OptionWords = OptionWords()
    asks_after_look: bool = True
    """Whether whoever starts it at a terminal stays to be asked after the first look."""
