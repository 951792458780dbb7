"""Scoring one output, a line long where it is used."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from activities.scorers import ScorerTools, score
from activities.scorers.grades import Grade
from ratchet import Output, Sample, Score
from workflows.model.spec.extensions.scorer_options import Scorer

SCORER: TypeAdapter[Scorer] = TypeAdapter(Scorer)


async def grade(tools: ScorerTools, spec: dict[str, Any], output: Any, expected: Any = None, **given: Any) -> Grade:
    """What one scorer makes of an output: a value, or an `Output`."""
    made = output if isinstance(output, Output) else Output(output)
    sample = Sample("s1", given.get("input", {}), expected)
    (only,) = await score([SCORER.validate_python(spec)], made, sample, tools)
    return only


async def scored(tools: ScorerTools, spec: dict[str, Any], output: Any, expected: Any = None, **given: Any) -> Score:
    return (await grade(tools, spec, output, expected, **given)).score
