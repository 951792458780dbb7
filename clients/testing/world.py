"""A synthetic target with its samples: all that a simulated run asks of the world."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ratchet import Record, Sample


@dataclass(frozen=True, slots=True)
class Answer:
    """What a synthetic target says of one sample. A bare number or a pair `(score, feedback)` is read as one."""

    score: float
    feedback: str = ""
    """What proposers read about it."""
    output: Any = None
    tokens: int = 0
    cost: float = 0.0


Answered = Answer | float | tuple[float, str]
Target = Callable[[Mapping[str, Any], Sample, int], Answered | Awaitable[Answered]]
Proposer = Callable[[Mapping[str, Any], list[Record], list[str], int], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class World:
    """What optimizers are tried against, in place of models and data."""

    target: Target
    """`(configuration, sample, replicate) -> score`, or `(score, feedback)`, or an `Answer`; sync or async. It is asked once
    for every configuration, sample and replicate; noise has to be drawn from these three, or a second run is another one."""
    samples: Sequence[Any]
    """What candidates are scored on, in the order of the split: `Sample`s, or the inputs of some."""
    train: Sequence[Any] = ()
    """What optimizers may learn from without scoring."""
    propose: Proposer | None = None
    """Stands for `optimizer.proposer`, a model or a plug-in: `(current, records, factors, seed) -> new values by factor`."""
    plugins: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Other plug-ins that the request names, such as the classifier of `evolve`, by reference."""


def as_samples(given: Sequence[Any], prefix: str) -> list[Sample]:
    """Samples as they are, other things as the inputs of some."""
    return [item if isinstance(item, Sample) else Sample(id=f"{prefix}{place}", input=item) for place, item in enumerate(given)]


async def asked(world: World, configuration: Mapping[str, Any], sample: Sample, replicate: int) -> Answer:
    """One call of the target."""
    returned = world.target(dict(configuration), sample, replicate)
    if inspect.isawaitable(returned):
        returned = await returned
    answer = _read(returned)
    if not math.isfinite(answer.score):
        raise ValueError(f"the world's target scored sample {sample.id} with {answer.score}; scores are finite numbers")
    return answer


def _read(returned: object) -> Answer:
    match returned:
        case Answer():
            return returned
        case bool() | int() | float():
            return Answer(float(returned))
        case (bool() | int() | float() as score, str() as feedback):
            return Answer(float(score), feedback)
    raise TypeError(f"the world's target returned a {type(returned).__name__}; return a score, (score, feedback), or an Answer")
