"""Scorers of an output's form: a pattern, JSON with or without a schema. They work where they can be stopped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from activities.scorers.extracts import refuse_constant
from activities.scorers.grades import Grade, hit_or_miss
from activities.scorers.matches import expected_of, shown
from ratchet import Output, Sample
from ratchet._formats.strict_json import whole_number
from ratchet._text.placeholders import as_text
from workflows.model.failures import shorten
from workflows.model.spec.scorers.matches import JsonScorer, RegexScorer
from workflows.rules.scoring.objective_score import ScoringFailed

if TYPE_CHECKING:
    from activities.scorers import ScorerTools


async def regex(scorer: RegexScorer, output: Output, sample: Sample, tools: ScorerTools) -> Grade:
    pattern = scorer.pattern if scorer.pattern is not None else expected_of(sample, scorer.kind)
    if not isinstance(pattern, str):
        raise ScoringFailed(f"sample {sample.id!r} expects {shown(pattern)}, which is not a regular expression")
    hit = await tools.matching.search(pattern, as_text(output.value), full_match=scorer.full_match)
    return hit_or_miss(scorer, hit, f"does not match {shown(pattern)}", f"matches {shown(pattern)}")


async def json_value(scorer: JsonScorer, output: Output, sample: Sample, tools: ScorerTools) -> Grade:
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
