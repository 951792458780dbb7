"""Scorers: output in, named scores out. Each kind names the function here that grades (`Scorer.graded_by`).

A scorer that raises, or gives NaN, fails the trial's scoring. That is nobody's answer's fault, so no outcome is stored.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any

from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_models import ChatModels
from activities.endpoints.gate import Gates
from activities.plugins.calls import PluginCalls
from activities.plugins.isolation import Isolation
from activities.plugins.loader import Plugins
from activities.plugins.own_activities import OwnActivities
from activities.scorers.bounded_patterns import BoundedMatching
from activities.scorers.extracts import NothingThere, extracted
from activities.scorers.grades import Grade, decided
from activities.scorers.known_replies import RepliesToOne
from activities.scorers.matches import expected_label, kept_label
from ratchet import Output, Sample, Score
from store.read.sample_files import FileReader
from workflows.model.spec.extensions.scorer_options import Scorer, placed_scorers
from workflows.model.spec.prices import Price
from workflows.rules.scoring.objective_score import ScoringFailed

LONGEST_CALL = 120.0
"""Seconds for one answer of a model that scores; judges think longer than targets do."""


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
    own_activities: OwnActivities | None = None
    """What calls scorers that are activities."""
    files: FileReader | None = None
    """Where the files are that samples name."""
    context: CallContext = field(default_factory=CallContext)
    """On whose behalf models are asked that score."""
    answer_key: str = ""
    """Which answer is scored: by it a call that was made already is found again."""
    replies: RepliesToOne | None = None
    """What judges replied about it in batches, where they are asked so."""


def asks_somebody(scorers: Sequence[Scorer]) -> bool:
    """Whether scoring needs somebody else, who may be away."""
    return any(scorer.asks_somebody for _, scorer in placed_scorers(scorers))


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
        scorer.score_name: {"labels": [None, kept_label(expected_label(scorer, rules, sample))]}
        for scorer in scorers
        if (rules := scorer.label_rules) is not None
    }


async def _grades(scorer: Scorer, output: Output, sample: Sample, tools: ScorerTools) -> list[Grade]:
    if scorer.members:
        members = [(part.weight, grade) for part in scorer.members for grade in await _grades(part, output, sample, tools)]
        return [decided(grading(scorer)(scorer, members), scorer)]
    try:
        return await grades_of_one(scorer, output, sample, tools)
    except NothingThere as missing:
        return [Grade(Score(scorer.score_name, 0.0, False, f"the answer {missing}"))]


async def grades_of_one(scorer: Scorer, output: Output, sample: Sample, tools: ScorerTools) -> list[Grade]:
    """The grades of a scorer that is not combined of others. Raises NothingThere where the output lacks what it looks at."""
    try:
        # How long others take is settled call by call: patience with an endpoint is no slow scorer.
        async with asyncio.timeout(None if scorer.asks_somebody else tools.longest):
            part = output if scorer.part is None else await extracted(scorer.part, output, tools.matching)
            grade = grading(scorer)
            given = await grade(scorer, part, sample, tools) if iscoroutinefunction(grade) else grade(scorer, part, sample)
    except TimeoutError:
        raise ScoringFailed(f"scoring took longer than {tools.longest:g} s") from None
    return [decided(grade, scorer) for grade in (given if isinstance(given, list) else [given])]


def grading(scorer: Scorer | type[Scorer]) -> Callable[..., Any]:
    """Import the function that a kind names: `(scorer, output, sample)`, or with the worker's tools where it is async."""
    module, _, name = scorer.graded_by.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module, __name__), name)
    return found
