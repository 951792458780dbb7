"""Scorers that are activities of the user's: what they return is a stranger's JSON, and at worst one answer without a score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from activities.budget.metering import metered
from activities.plugins.own_activities import OwnActivityAway, OwnActivityFailed
from activities.scorers.grades import Grade
from activities.targets.faults import Unjudged
from ratchet import Output, Sample, Score
from workflows.model.failures import shorten
from workflows.model.run.amounts import MOST_COST, MOST_TOKENS, NOTHING, Amount
from workflows.model.spec.scorers.own_activity import ActivityScorer
from workflows.rules.scoring.objective_score import ScoringFailed

if TYPE_CHECKING:
    from activities.scorers import ScorerTools

AWAY: Final = "scorer away"
MOST_SCORES: Final = 100


async def own_activity(scorer: ActivityScorer, output: Output, sample: Sample, tools: ScorerTools) -> list[Grade]:
    """The scores that the activity gives. Where nobody takes the call, there is none, and the answer is kept."""
    who = f"scorer {scorer.score_name!r}"
    if tools.own_activities is None:
        raise ScoringFailed(f"{who}: this worker calls no activities")
    stated = NOTHING if scorer.at_most is None else Amount(tokens=scorer.at_most.tokens, cost=scorer.at_most.cost)
    try:
        async with metered(tools.context, lambda: stated) as call:
            place = f"{tools.context.caller.run_id}/score"
            returned = await tools.own_activities.call(scorer, _argument(scorer, output, sample, tools), place)
            grades = _grades(scorer, returned)
            call.took(sum(grade.tokens for grade in grades), sum(grade.cost for grade in grades))
            return grades
    except OwnActivityAway as away:
        raise Unjudged(f"{who}: {away}", kind=AWAY) from None
    except (OwnActivityFailed, _NoScore) as error:
        raise ScoringFailed(shorten(f"{who}: {error}", 2_000)) from None


def _argument(scorer: ActivityScorer, output: Output, sample: Sample, tools: ScorerTools) -> dict[str, Any]:
    shown = {name: part for name, part in asdict(sample).items() if name != "files"} | {"tags": list(sample.tags)}
    answer = {"value": output.value, "trace": output.trace, "tokens": output.tokens, "cost": output.cost}
    return {
        "scorer": scorer.score_name,
        "output": answer | {"latency_ms": output.latency_ms},
        "sample": shown,
        "execution_params": dict(scorer.execution_params),
        "context": {"run_id": tools.context.caller.run_id, "answer": tools.answer_key},
    }


class _NoScore(ValueError):
    """What came back is no score."""


def _grades(scorer: ActivityScorer, returned: Any) -> list[Grade]:
    given = returned if isinstance(returned, list) else [returned]
    if not 1 <= len(given) <= MOST_SCORES:
        raise _NoScore(f"{scorer.activity} returned {len(given)} scores; return one, or a list of up to {MOST_SCORES}")
    return [_grade(scorer, part) for part in given]


def _grade(scorer: ActivityScorer, part: Any) -> Grade:
    told = part if isinstance(part, Mapping) else {"value": part}
    value, passed, reason = told.get("value"), told.get("passed"), told.get("reason")
    if not isinstance(value, int | float):
        shown = shorten(repr(part), 200)
        raise _NoScore(f"{scorer.activity} returned {shown}; return a number, or an object with a number as `value`")
    if not isinstance(passed, bool | None) or not isinstance(reason, str | None):
        raise _NoScore(f"{scorer.activity} returned {shorten(repr(part), 200)}; passed is true or false, reason is a text")
    name = told.get("name")
    if not isinstance(name, str | None):
        raise _NoScore(f"{scorer.activity} returned a score named {shorten(repr(name), 80)}; a name is a text")
    tokens, cost = _took(scorer, told, "tokens", MOST_TOKENS), _took(scorer, told, "cost", MOST_COST)
    return Grade(Score(name or scorer.score_name, value, passed, reason), tokens=int(tokens), cost=float(cost))


def _took(scorer: ActivityScorer, told: Mapping[str, Any], what: str, most: float) -> float:
    said = told.get(what, 0)
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said <= most:
        raise _NoScore(f"{scorer.activity} returned {what}={shorten(repr(said), 80)}; give a number from 0 up")
    return said
