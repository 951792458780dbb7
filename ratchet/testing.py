"""Tests of what does not answer the same every time, and the test kit for optimizers of one's own.

`assert ratchet.testing.passes(target, data, at_least=0.9)` needs no server and nothing that is not installed with the library;
`World`, `simulate` and `check_protocol` need the engine.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ratchet.plugins import Output, Sample, Score

if TYPE_CHECKING:
    from clients.testing import Answer as Answer
    from clients.testing import ProtocolBroken as ProtocolBroken
    from clients.testing import Simulated as Simulated
    from clients.testing import World as World
    from clients.testing import check_protocol as check_protocol
    from clients.testing import simulate as simulate
    from clients.testing import simulate_async as simulate_async

__all__ = ["PassRate", "Undecided", "passes"]

PASSES_FROM: Final = 0.5
"""The score that passes, where a scorer does not say what does; the same as in a spec."""

FAILURES_SHOWN: Final = 5
LONGEST_SHOWN: Final = 200
_OF_THE_ENGINE: Final = ("Answer", "ProtocolBroken", "Simulated", "World", "check_protocol", "simulate", "simulate_async")


class Undecided(AssertionError):
    """So few samples show neither that enough of them pass, nor that too few do."""


@dataclass(frozen=True, slots=True)
class PassRate:
    """What was shown. It is true where enough passed, and its `repr` names samples that did not."""

    passed: int
    answered: int
    samples: int
    at_least: float
    confidence: float
    is_shown: bool
    failures: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.is_shown

    def __repr__(self) -> str:
        shown = f"at least {self.at_least:g}" if self.is_shown else f"less than {self.at_least:g}"
        told = f"{self.passed} of {self.answered} samples passed: {shown}, with {self.confidence:g} confidence"
        left = len(self.failures) - FAILURES_SHOWN
        more = [f"… {left} more"] if left > 0 else []
        return "\n  ".join([told, *self.failures[:FAILURES_SHOWN], *more])


def passes(
    target: Callable[..., Any],
    data: Iterable[Any],
    *,
    at_least: float = 0.9,
    confidence: float = 0.95,
    scorer: Callable[[Output, Sample], Any] | None = None,
    configuration: Mapping[str, Any] | None = None,
) -> PassRate:
    """Find out whether a target passes on at least this share of samples such as these, and stop as soon as that is certain.

    `target` takes `(sample)`, `(configuration, sample)` or `(configuration, sample, context)`, where the context is None; it
    may be async. Rows are mappings with `input` and `expected`, samples, or bare inputs. Without a scorer an answer passes that
    equals `expected`. What raises has failed.

    True or false means: shown, with this confidence, by an exact binomial test over all samples; that it stops early changes
    nothing. Raises Undecided where so many samples cannot show it, before any call if they never could.
    """
    samples = [_sample(row, place) for place, row in enumerate(data)]
    if not 0 < at_least < 1 or not 0.5 <= confidence < 1:
        raise ValueError("at_least is a share between 0 and 1, and confidence one from 0.5 to below 1")
    enough, too_few = _least_to_pass(len(samples), at_least, confidence), _most_to_fail(len(samples), at_least, confidence)
    if enough is None:
        needed = math.ceil(math.log(1 - confidence) / math.log(at_least))
        raise Undecided(
            f"{len(samples)} samples cannot show at least {at_least:g} with {confidence:g} confidence, even if all of them "
            f"passed: give {needed} or more, or ask for less"
        )
    rule = _Rule(samples, enough, too_few, at_least, confidence)
    return _run(_decided(rule, _with_its_arguments(target, configuration or {}), scorer or _equals))


@dataclass(frozen=True, slots=True)
class _Rule:
    samples: list[Sample]
    enough: int
    """So many passed samples of all show it."""
    too_few: int
    """So many or fewer show the contrary; -1 where even none does."""
    at_least: float
    confidence: float


async def _decided(rule: _Rule, target: Callable[[Sample], Any], scorer: Callable[[Output, Sample], Any]) -> PassRate:
    passed, failures = 0, list[str]()
    for answered, sample in enumerate(rule.samples, start=1):
        why = await _failure(target, scorer, sample)
        passed += why is None
        failures += [] if why is None else [f"{sample.id}: {why}"]
        most = passed + len(rule.samples) - answered
        shown = PassRate(
            passed, answered, len(rule.samples), rule.at_least, rule.confidence, passed >= rule.enough, tuple(failures)
        )
        if shown or most <= rule.too_few:
            return shown
        if most < rule.enough and passed > rule.too_few:
            break
    few = "" if answered == len(rule.samples) else f", and the other {len(rule.samples) - answered} could not show it any more"
    raise Undecided(
        f"{passed} of {answered} samples passed{few}: with {rule.confidence:g} confidence {len(rule.samples)} samples show "
        f"at least {rule.at_least:g} when {rule.enough} pass, and less when at most {rule.too_few} do; give more samples"
        + "".join(f"\n  {failure}" for failure in failures[:FAILURES_SHOWN])
    )


async def _failure(target: Callable[[Sample], Any], scorer: Callable[[Output, Sample], Any], sample: Sample) -> str | None:
    """Why a sample did not pass."""
    try:
        returned = target(sample)
        value = await returned if inspect.isawaitable(returned) else returned
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"[:LONGEST_SHOWN]
    output = value if isinstance(value, Output) else Output(value)
    given = scorer(output, sample)
    given = await given if inspect.isawaitable(given) else given
    scores = given if isinstance(given, list | tuple) else [given]
    if all(map(_is_passed, scores)):
        return None
    reasons = [score.reason for score in scores if isinstance(score, Score) and score.reason and not _is_passed(score)]
    return (reasons[0] if reasons else f"answered {output.value!r}, expected {sample.expected!r}")[:LONGEST_SHOWN]


def _is_passed(score: Any) -> bool:
    if isinstance(score, Score):
        return score.passed if score.passed is not None else score.value >= PASSES_FROM
    return float(score) >= PASSES_FROM


def _equals(output: Output, sample: Sample) -> bool:
    return bool(output.value == sample.expected)


def _sample(row: Any, place: int) -> Sample:
    if isinstance(row, Sample):
        return row
    if not isinstance(row, Mapping) or "input" not in row:
        return Sample(str(place + 1), row)
    return Sample(str(row.get("id", place + 1)), row["input"], row.get("expected"), tags=tuple(row.get("tags", ())))


def _with_its_arguments(target: Callable[..., Any], configuration: Mapping[str, Any]) -> Callable[[Sample], Any]:
    try:
        signature = inspect.signature(target)
    except ValueError:  # some callables written in C do not tell
        return target
    for before, after in ((), ()), ((configuration,), ()), ((configuration,), (None,)):
        try:
            signature.bind(*before, None, *after)
        except TypeError:
            continue
        return partial(_called, target, before, after)
    raise TypeError(f"a target takes (sample), (configuration, sample) or (configuration, sample, context), not {signature}")


def _called(target: Callable[..., Any], before: tuple[Any, ...], after: tuple[Any, ...], sample: Sample) -> Any:
    return target(*before, sample, *after)


def _least_to_pass(samples: int, share: float, confidence: float) -> int | None:
    """The fewest passed samples that would be too unlikely if less than the share passed; None where no number would."""
    unlikely, least = 0.0, None
    for passed in range(samples, -1, -1):
        unlikely += _probability(passed, samples, share)
        if unlikely > 1 - confidence:
            break
        least = passed
    return least


def _most_to_fail(samples: int, share: float, confidence: float) -> int:
    """The most passed samples that would be too unlikely if the share passed, or more; -1 where no number would."""
    unlikely, most = 0.0, -1
    for passed in range(samples + 1):
        unlikely += _probability(passed, samples, share)
        if unlikely > 1 - confidence:
            break
        most = passed
    return most


def _probability(passed: int, samples: int, share: float) -> float:
    ways = math.lgamma(samples + 1) - math.lgamma(passed + 1) - math.lgamma(samples - passed + 1)
    return math.exp(ways + passed * math.log(share) + (samples - passed) * math.log1p(-share))


def _run(work: Coroutine[Any, Any, PassRate]) -> PassRate:
    """Run it, in a thread where a loop is running already, as in an async test."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def __getattr__(name: str) -> Any:
    """Return a name of the test kit, which is the engine's."""
    if name not in _OF_THE_ENGINE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ratchet._engine import optimizer_kit

    return getattr(optimizer_kit(f"testing.{name}"), name)
