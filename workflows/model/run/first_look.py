"""A first look at the baseline's answers: three of them, and what is probably wrong with how they are measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ratchet._frozen import Payload

FirstLookMode = Literal["tell", "ask", "strict"]


class ShownAnswer(Payload):
    """One answer with its sample, as texts that are cut to be read at a glance."""

    sample: str
    input: str
    expected: str | None
    answer: str | None
    passed: bool
    scores: dict[str, float]
    why: str
    """The scorers' reasons, or what went wrong."""


class FirstLook(Payload):
    """What there is to see in the baseline's answers."""

    shown: tuple[ShownAnswer, ...] = ()
    warnings: tuple[str, ...] = ()
    """One sentence for everything that is probably wrong, the worst first."""


@dataclass(frozen=True, slots=True)
class SeenAnswer:
    """One answer as the store has it."""

    sample: str
    input: Any
    expected: Any
    output: Any
    answered: bool
    """False where the candidate failed."""
    passed: bool
    error: str | None = None
    scores: dict[str, float] = field(default_factory=dict)
    details: dict[str, dict[str, Any]] = field(default_factory=dict)
    """For each score: whether it passed, and the reason."""
    trace: Any = None
