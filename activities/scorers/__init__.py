"""Scorers: output in, named scores out. A new kind is one function and one line in the registry.

A scorer that raises, or gives NaN, fails the trial's scoring. That is nobody's answer's fault, so no outcome is stored.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_models import ChatModels
from activities.endpoints.gate import Gates
from activities.plugins.calls import PluginCalls
from activities.plugins.isolation import IsolatedFault, Isolation
from activities.plugins.loader import Plugins
from activities.scorers import matches, similarity
from activities.scorers.bounded_patterns import BoundedMatching
from activities.scorers.combinations import combined
from activities.scorers.extracts import NothingThere, extracted, refuse_constant
from activities.scorers.grades import Grade, decided, hit_or_miss
from activities.scorers.matches import expected_of, shown
from activities.scorers.reported import reported
from activities.scorers.rubric import rubric
from ratchet import Output, Sample, Score
from ratchet._placeholders import as_text
from ratchet._strict_json import whole_number
from workflows.model.failures import described, shorten
from workflows.model.spec.scorers import ClassificationScorer, CombinedScorer, JsonScorer, PythonScorer, RegexScorer, Scorer
from workflows.model.spec.targets.python import Price
from workflows.rules.scoring.objective_score import ScoringFailed

LONGEST_ISOLATED = 60.0
LONGEST_CALL = 120.0
"""Seconds for one answer of a model that scores; judges think longer than targets do."""

ASKING = ("rubric", "similarity")
"""Kinds that ask a model. How long they take is settled call by call: patience with an endpoint is no slow scorer."""


@dataclass(frozen=True)
class ScorerTools:
    """What scorers share within a worker process."""

    plugins: Plugins
    calls: PluginCalls = field(default_factory=PluginCalls)
    matching: BoundedMatching = field(default_factory=BoundedMatching)
    isolation: Isolation | None = None
    """Set when a plug-in is suspected of killing the process it runs in."""
    models: ChatModels = field(default_factory=lambda: ChatModels(Gates()))
    prices: Mapping[str, Price] = field(default_factory=dict)
    """What judges and embedding models cost in this run."""
    longest: float = 60.0
    """Seconds that one scorer may take for one output, unless it asks a model."""
    longest_call: float = LONGEST_CALL
    context: CallContext = field(default_factory=CallContext)
    """On whose behalf models are asked that score."""


def asks_a_model(scorers: Sequence[Scorer]) -> bool:
    """Whether scoring needs somebody else, who may be away."""
    return any(
        asks_a_model(scorer.scorers) if isinstance(scorer, CombinedScorer) else scorer.kind in ASKING for scorer in scorers
    )


async def score(scorers: Sequence[Scorer], output: Output, sample: Sample, tools: ScorerTools) -> list[Grade]:
    """Every scorer's grades, finite and with `passed` decided.

    Raises ScoringFailed when that is impossible, and what `targets.faults` names when a model that scores cannot be reached.
    """
    grades = [grade for scorer in scorers for grade in await _grades(scorer, output, sample, tools)]
    names = [grade.score.name for grade in grades]
    if len(set(names)) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ScoringFailed(f"score {repeated!r} was given twice for one output; name each score once")
    return grades


def details_of_a_failure(scorers: Sequence[Scorer], sample: Sample) -> dict[str, dict[str, Any]]:
    """What is kept for each score of an answer that failed: which label it would have taken."""
    return {
        scorer.score_name: {"labels": [None, matches.kept_label(matches.expected_label(scorer, sample))]}
        for scorer in scorers
        if isinstance(scorer, ClassificationScorer)
    }


async def _grades(scorer: Scorer, output: Output, sample: Sample, tools: ScorerTools) -> list[Grade]:
    if isinstance(scorer, CombinedScorer):
        members = [(part.weight, grade) for part in scorer.scorers for grade in await _grades(part, output, sample, tools)]
        return [decided(combined(scorer, members), scorer)]
    try:
        return await _bounded(scorer, output, sample, tools)
    except NothingThere as missing:
        return [Grade(Score(scorer.score_name, 0.0, False, f"the answer {missing}"))]


async def _bounded(scorer: Scorer, output: Output, sample: Sample, tools: ScorerTools) -> list[Grade]:
    try:
        async with asyncio.timeout(None if scorer.kind in ASKING else tools.longest):
            extract = getattr(scorer, "extract", None)
            part = output if extract is None else await extracted(extract, output, tools.matching)
            given = await _REGISTRY[scorer.kind](scorer, part, sample, tools)
    except TimeoutError:
        raise ScoringFailed(f"scoring took longer than {tools.longest:g} s") from None
    return [decided(grade, scorer) for grade in (given if isinstance(given, list) else [given])]


async def _regex(scorer: RegexScorer, output: Output, sample: Sample, tools: ScorerTools) -> Grade:
    pattern = scorer.pattern if scorer.pattern is not None else expected_of(sample, scorer.kind)
    if not isinstance(pattern, str):
        raise ScoringFailed(f"sample {sample.id!r} expects {shown(pattern)}, which is not a regular expression")
    hit = await tools.matching.search(pattern, as_text(output.value), full_match=scorer.full_match)
    return hit_or_miss(scorer, hit, f"does not match {shown(pattern)}", f"matches {shown(pattern)}")


async def _json(scorer: JsonScorer, output: Output, sample: Sample, tools: ScorerTools) -> Grade:
    value = output.value
    if isinstance(value, str):
        try:
            value = json.loads(value, parse_constant=refuse_constant, parse_int=whole_number)
        except (ValueError, RecursionError) as error:
            return hit_or_miss(scorer, False, f"is not valid JSON: {error}", "")
    problem = await tools.matching.schema_problem(scorer.json_schema, value) if scorer.json_schema is not None else None
    miss = f"does not satisfy the schema at {shorten(problem or '', 500)}"
    holds = "is valid JSON" if scorer.json_schema is None else "satisfies the schema"
    return hit_or_miss(scorer, problem is None, miss, holds)


async def _python(scorer: PythonScorer, output: Output, sample: Sample, tools: ScorerTools) -> list[Grade]:
    plugin = tools.plugins.resolve(scorer.ref, 2)
    try:
        if tools.isolation is not None:
            returned = await _isolated(scorer, output, sample, tools.plugins, tools.isolation)
        else:
            returned = await tools.calls.call(plugin, output, sample)
    except IsolatedFault as fault:
        raise ScoringFailed(f"scorer {scorer.score_name!r}: {fault}") from None
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        raise ScoringFailed(shorten(f"scorer {scorer.score_name!r} raised {described(error)}")) from error
    given = returned if isinstance(returned, list | tuple) else [returned]
    if not given:
        raise ScoringFailed(f"scorer {scorer.score_name!r} gave no score; return a number, a Score or a list of them")
    return [Grade(part if isinstance(part, Score) else Score(scorer.score_name, part)) for part in given]


async def _isolated(scorer: PythonScorer, output: Output, sample: Sample, plugins: Plugins, isolation: Isolation) -> list[Any]:
    given = await isolation.call_scorer(plugins, scorer.ref, output, sample, LONGEST_ISOLATED)
    return [Score(**part) if isinstance(part, dict) and "value" in part else part for part in given]


Graded = Awaitable[Grade | list[Grade]]


def _pure(compare: Callable[[Any, Output, Sample], Grade]) -> Callable[..., Graded]:
    async def scored(scorer: Scorer, output: Output, sample: Sample, tools: ScorerTools) -> Grade:
        return compare(scorer, output, sample)

    return scored


_REGISTRY: dict[str, Callable[..., Graded]] = {
    "exact": _pure(matches.exact),
    "equals": _pure(matches.exact),
    "classification": _pure(matches.classification),
    "contains": _pure(matches.contains),
    "starts_with": _pure(matches.starts_with),
    "regex": _regex,
    "numeric": _pure(matches.numeric),
    "json": _json,
    "levenshtein": similarity.levenshtein,
    "rouge": similarity.rouge,
    "bleu": similarity.bleu,
    "similarity": similarity.similarity,
    "rubric": rubric,
    "latency": _pure(matches.latency),
    "cost": _pure(matches.cost),
    "tokens": _pure(matches.tokens),
    "reported": _pure(reported),
    "python": _python,
}
