"""Scorers: output in, named scores out. A new kind is one function here and one line in the registry.

A scorer that raises, or gives NaN, fails the trial's scoring. That is nobody's answer's fault, so no outcome is stored.
"""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from activities.plugins import Plugins
from activities.scorers.bounded import BoundedMatching
from activities.scorers.comparing import contains, exact, expected_of, hit_or_miss, numeric, shown
from activities.targets.isolation import IsolatedFault, Isolation
from activities.targets.threads import PluginThreads
from ratchet import Output, Sample, Score
from workflows.model.failures import described, shorten
from workflows.model.scorers import JsonScorer, PythonScorer, RegexScorer, Scorer
from workflows.rules.placeholders import as_text
from workflows.rules.scoring import ScoringFailed

LONGEST_ISOLATED = 60.0
LONGEST_REASON = 4_000
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}")


@dataclass(frozen=True)
class ScorerTools:
    """What scorers share within a worker process."""

    plugins: Plugins
    threads: PluginThreads = field(default_factory=PluginThreads)
    matching: BoundedMatching = field(default_factory=BoundedMatching)
    isolation: Isolation | None = None
    """Set when a plug-in is suspected of killing the process it runs in."""


async def score(scorers: Sequence[Scorer], output: Output, sample: Sample, tools: ScorerTools) -> list[Score]:
    """Every scorer's scores, finite and with `passed` decided. Raises ScoringFailed for anything else."""
    scores: list[Score] = []
    for scorer in scorers:
        for given in await _REGISTRY[scorer.kind](scorer, output, sample, tools):
            scores.append(_decided(given, scorer))
    names = [given.name for given in scores]
    if len(set(names)) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ScoringFailed(f"score {repeated!r} was given twice for one output; name each score once")
    return scores


def _decided(given: Score, scorer: Scorer) -> Score:
    value = given.value
    if isinstance(value, bool):
        value = float(value)
    try:
        value = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ScoringFailed(f"scorer {scorer.score_name!r} gave {_repr(value)}, which is not a number") from None
    except Exception as error:  # a number of its own may raise whatever it likes
        raise ScoringFailed(f"scorer {scorer.score_name!r} gave what cannot be read: {described(error)}") from None
    if not math.isfinite(value):
        raise ScoringFailed(f"scorer {scorer.score_name!r} gave {value}, which is not a finite number")
    if not isinstance(given.name, str) or not _NAME.fullmatch(given.name):
        raise ScoringFailed(f"scorer {scorer.score_name!r} gave a score named {given.name!r}; use letters, digits, _ . -")
    passed = value >= scorer.threshold if given.passed is None else bool(given.passed)
    reason = None if given.reason is None else shorten(_clean(str(given.reason)), LONGEST_REASON)
    return Score(given.name, value, passed, reason)


def _repr(value: Any) -> str:
    try:
        return shorten(repr(value), 200)
    except Exception:
        return f"a {type(value).__name__}"


def _clean(text: str) -> str:
    """Without what no store keeps."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


async def _regex(scorer: RegexScorer, output: Output, sample: Sample, tools: ScorerTools) -> list[Score]:
    pattern = scorer.pattern if scorer.pattern is not None else expected_of(sample, scorer.kind)
    if not isinstance(pattern, str):
        raise ScoringFailed(f"sample {sample.id!r} expects {shown(pattern)}, which is not a regular expression")
    hit = await tools.matching.search(pattern, as_text(output.value), full_match=scorer.full_match)
    return hit_or_miss(scorer.score_name, hit, f"does not match {shown(pattern)}")


async def _json(scorer: JsonScorer, output: Output, sample: Sample, tools: ScorerTools) -> list[Score]:
    value = output.value
    if isinstance(value, str):
        try:
            value = json.loads(value, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            return hit_or_miss(scorer.score_name, False, f"is not valid JSON: {error}")
    problem = await tools.matching.schema_problem(scorer.json_schema, value) if scorer.json_schema is not None else None
    return hit_or_miss(scorer.score_name, problem is None, f"does not satisfy the schema at {shorten(problem or '', 500)}")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


async def _python(scorer: PythonScorer, output: Output, sample: Sample, tools: ScorerTools) -> list[Score]:
    plugin = tools.plugins.resolve(scorer.ref, 2)
    try:
        if tools.isolation is not None:
            returned = await _isolated(scorer, output, sample, tools.plugins, tools.isolation)
        elif plugin.is_async:
            returned = await plugin.call(output, sample)
        else:
            returned = await tools.threads.run(lambda: plugin.call(output, sample))
            if inspect.isawaitable(returned):
                returned = await returned
    except IsolatedFault as fault:
        raise ScoringFailed(f"scorer {scorer.score_name!r}: {fault}") from None
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        raise ScoringFailed(shorten(f"scorer {scorer.score_name!r} raised {described(error)}")) from error
    given = returned if isinstance(returned, list | tuple) else [returned]
    if not given:
        raise ScoringFailed(f"scorer {scorer.score_name!r} gave no score; return a number, a Score or a list of them")
    return [part if isinstance(part, Score) else Score(scorer.score_name, part) for part in given]


async def _isolated(scorer: PythonScorer, output: Output, sample: Sample, plugins: Plugins, isolation: Isolation) -> list[Any]:
    given = await isolation.call_scorer(plugins, scorer.ref, output, sample, LONGEST_ISOLATED)
    return [Score(**part) if isinstance(part, dict) and "value" in part else part for part in given]


def _pure(compare: Callable[[Any, Output, Sample], list[Score]]) -> Callable[..., Awaitable[list[Score]]]:
    async def scored(scorer: Scorer, output: Output, sample: Sample, tools: ScorerTools) -> list[Score]:
        return compare(scorer, output, sample)

    return scored


_REGISTRY: dict[str, Callable[..., Awaitable[list[Score]]]] = {
    "exact": _pure(exact),
    "contains": _pure(contains),
    "regex": _regex,
    "numeric": _pure(numeric),
    "json": _json,
    "python": _python,
}
