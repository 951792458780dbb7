"""Tests of what does not answer the same every time, models for tests, and the test kit for optimizers of one's own.

`assert ratchet.testing.passes(target, data, at_least=0.9)` needs no server and nothing that is not installed with the library;
`not_worse` needs the engine's statistics, and no server; `fake_model`, `World`, `simulate` and `check_protocol` need the
engine.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ratchet.plugins import Output, Sample, Score

if TYPE_CHECKING:
    from clients.testing import Answer as Answer
    from clients.testing import ProtocolBroken as ProtocolBroken
    from clients.testing import Simulated as Simulated
    from clients.testing import World as World
    from clients.testing import check_protocol as check_protocol
    from clients.testing import simulate as simulate
    from clients.testing import simulate_async as simulate_async
    from clients.testing.fake_model import FakeCall as FakeCall
    from clients.testing.fake_model import FakeModel as FakeModel
    from clients.testing.fake_model import FakeRequest as FakeRequest
    from clients.testing.fake_model import ToolCall as ToolCall
    from clients.testing.fake_model import fake_model as fake_model

__all__ = ["NoStoredBaseline", "NotWorse", "PassRate", "Undecided", "not_worse", "passes"]

T = TypeVar("T")
PASSES_FROM: Final = 0.5
"""The score that passes, where a scorer does not say what does; the same as in a spec."""

FAILURES_SHOWN: Final = 5
LONGEST_SHOWN: Final = 200
_OF_THE_ENGINE: Final = ("Answer", "ProtocolBroken", "Simulated", "World", "check_protocol", "simulate", "simulate_async")
_MODELS: Final = ("FakeCall", "FakeModel", "FakeRequest", "ToolCall", "fake_model")


_renews = False
"""Whether stored baselines are renewed, as `pytest --ratchet-renew` says."""


class NoStoredBaseline(AssertionError):
    """There is nothing that can be compared with."""


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


Passing = Callable[[Sample], Any] | Callable[[Any, Sample], Any] | Callable[[Any, Sample, None], Any]
"""What `passes` and `not_worse` call."""


def passes(
    target: Passing,
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
    __tracebackhide__ = True  # pytest shows the test that asked, not what asks
    samples = _samples(data)
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
    found = _run(_decided(rule, _with_its_arguments(target, configuration or {}), scorer or _equals))
    if isinstance(found, Undecided):
        raise found
    return found


@dataclass(frozen=True, slots=True)
class NotWorse:
    """What a comparison with a stored baseline showed. It is true where no more than the margin was lost, and its `repr` names
    the samples that got worse."""

    is_shown: bool
    words: str
    effect: float = 0.0
    """The mean difference over the samples; negative is a loss."""
    worse: tuple[str, ...] = ()
    """The ids of the samples that got worse, the worst first."""
    better: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.is_shown

    def __repr__(self) -> str:
        return self.words


def not_worse(
    target: Passing,
    data: Iterable[Any],
    *,
    baseline: str | Path,
    margin: float = 0.05,
    confidence: float = 0.95,
    scorer: Callable[[Output, Sample], Any] | None = None,
    configuration: Mapping[str, Any] | None = None,
    renew: bool | None = None,
) -> NotWorse:
    """Find out whether a target lost no more than a margin against what is stored of it, sample by sample.

    `baseline` is a file, or a name below `experiments/specs`, both beside the file that calls; `pytest --ratchet-renew`, or
    `renew=True`, stores what is measured now. Target, data and scorer are those of `passes`; every sample is called.

    True or false means: shown, with this confidence, by the paired non-inferiority test of runs. Raises Undecided where so many
    samples show neither, before any call if they never could, and NoStoredBaseline where there is nothing to compare with.
    It needs the engine's statistics, and no server.
    """
    __tracebackhide__ = True
    from ratchet._engine import tested_baselines

    kept = tested_baselines("testing.not_worse")
    samples = _samples(data)
    if not samples or not 0 < margin < 1 or not 0.5 <= confidence < 1:
        raise ValueError("give samples, a margin between 0 and 1, and a confidence from 0.5 to below 1")
    beside = Path(sys._getframe(1).f_code.co_filename).absolute().parent
    rule = kept.KeptBaseline.at(baseline, beside, margin, confidence)
    renews = _renews if renew is None else renew
    try:
        stored = None if renews else rule.read(samples)
        answered = _run(_each_scored(samples, _with_its_arguments(target, configuration or {}), scorer or _equals))
        if stored is None:
            return NotWorse(True, f"stored as the baseline, in {rule.renew(samples, answered, configuration or {})}")
    except kept.NoBaseline as error:
        raise NoStoredBaseline(f"{error}; pytest --ratchet-renew, or renew=True, measures and stores it") from None
    except kept.Unshowable as error:
        raise Undecided(str(error)) from None
    found = rule.compare(stored, samples, answered)
    words = "\n  ".join(found.lines)
    if found.outcome == "undecided":
        raise Undecided(words)
    worse, better = ([change.name for change in changes] for changes in (found.worse, found.better))
    return NotWorse(found.outcome == "not_worse", words, found.evidence.effect, tuple(worse), tuple(better))


async def _each_scored(
    samples: list[Sample], target: Callable[[Sample], Any], scorer: Callable[[Output, Sample], Any]
) -> list[tuple[float, str | None]]:
    return [await _scored(target, scorer, sample) for sample in samples]


@dataclass(frozen=True, slots=True)
class _Rule:
    samples: list[Sample]
    enough: int
    """So many passed samples of all show it."""
    too_few: int
    """So many or fewer show the contrary; -1 where even none does."""
    at_least: float
    confidence: float


async def _decided(
    rule: _Rule, target: Callable[[Sample], Any], scorer: Callable[[Output, Sample], Any]
) -> PassRate | Undecided:
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
    return Undecided(
        f"{passed} of {answered} samples passed{few}: with {rule.confidence:g} confidence {len(rule.samples)} samples show "
        f"at least {rule.at_least:g} when {rule.enough} pass, and less when at most {rule.too_few} do; give more samples"
        + "".join(f"\n  {failure}" for failure in failures[:FAILURES_SHOWN])
    )


async def _failure(target: Callable[[Sample], Any], scorer: Callable[[Output, Sample], Any], sample: Sample) -> str | None:
    """Why a sample did not pass."""
    return (await _scored(target, scorer, sample))[1]


async def _scored(
    target: Callable[[Sample], Any], scorer: Callable[[Output, Sample], Any], sample: Sample
) -> tuple[float, str | None]:
    """The score of a sample, and why it did not pass. Of several scores all have to."""
    try:
        returned = target(sample)
        value = await returned if inspect.isawaitable(returned) else returned
    except Exception as error:
        return 0.0, f"raised {type(error).__name__}: {error}"[:LONGEST_SHOWN]
    output = value if isinstance(value, Output) else Output(value)
    given = scorer(output, sample)
    given = await given if inspect.isawaitable(given) else given
    scores = given if isinstance(given, list | tuple) else [given]
    passed = all(map(_is_passed, scores))
    only = scores[0] if len(scores) == 1 else passed
    score = only.value if isinstance(only, Score) else float(only)
    if passed:
        return score, None
    reasons = [score.reason for score in scores if isinstance(score, Score) and score.reason and not _is_passed(score)]
    return score, (reasons[0] if reasons else f"answered {output.value!r}, expected {sample.expected!r}")[:LONGEST_SHOWN]


def _is_passed(score: Any) -> bool:
    if isinstance(score, Score):
        return score.passed if score.passed is not None else score.value >= PASSES_FROM
    return float(score) >= PASSES_FROM


def _equals(output: Output, sample: Sample) -> bool:
    return bool(output.value == sample.expected)


def _samples(data: Iterable[Any]) -> list[Sample]:
    __tracebackhide__ = True
    is_file = isinstance(data, str | bytes | os.PathLike)
    if is_file or isinstance(data, Mapping) or hasattr(data, "columns") or not isinstance(data, Iterable):
        cure = (
            "; read the file first"
            if is_file
            else '; a table gives them by to_dict("records")'
            if hasattr(data, "columns")
            else ""
        )
        raise TypeError(f"data: is a {type(data).__name__}; give rows, mappings with input and expected{cure}")
    return [_sample(row, place) for place, row in enumerate(data)]


def _sample(row: Any, place: int) -> Sample:
    if isinstance(row, Sample):
        return row
    if not isinstance(row, Mapping) or "input" not in row:
        return Sample(str(place + 1), row)
    return Sample(str(row.get("id", place + 1)), row["input"], row.get("expected"), tags=tuple(row.get("tags", ())))


def _with_its_arguments(target: Callable[..., Any], configuration: Mapping[str, Any]) -> Callable[[Sample], Any]:
    __tracebackhide__ = True
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


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run it, in a thread where a loop is running already, as in an async test."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


if not TYPE_CHECKING:  # a type checker shall tell a misspelt name

    def __getattr__(name: str) -> Any:
        """Return a name of the test kit, which is the engine's."""
        from ratchet._engine import fake_models, optimizer_kit

        if name in _MODELS:
            return getattr(fake_models(f"testing.{name}"), name)
        if name in _OF_THE_ENGINE:
            return getattr(optimizer_kit(f"testing.{name}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, those that are not loaded yet among them."""
    return sorted({*globals(), *__all__, *_OF_THE_ENGINE, *_MODELS})
