"""Scorers of how an agent came to its answer. What they look at is the trace that it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from activities.scorers.grades import Grade, hit_or_miss
from activities.scorers.matches import expected_of, measurement, shown
from ratchet import Output, Sample, Score
from ratchet._formats.canonical import canonical_json
from workflows.model.failures import shorten
from workflows.model.spec.extensions.scorer_options import Scorer
from workflows.model.spec.scorers.trajectories import ExpectedCall, StepsScorer, ToolsAvoidedScorer, ToolsCalledScorer
from workflows.rules.scoring.objective_score import ScoringFailed


def turns_in(output: Output, scorer: Scorer) -> list[Mapping[str, Any]]:
    """The turns of the model that a trace tells of."""
    told = output.trace.get("turns") if isinstance(output.trace, Mapping) else None
    if not isinstance(told, list):
        raise ScoringFailed(
            f"the answer has no trace of turns, which scorer {scorer.score_name!r} needs; "
            "use a target of kind agent, or give the output a trace {turns: [{calls: [{tool, arguments}]}]}"
        )
    return [turn for turn in told if isinstance(turn, Mapping) and "user" not in turn]


def _calls_in(output: Output, scorer: Scorer) -> list[Mapping[str, Any]]:
    calls = [turn.get("calls") for turn in turns_in(output, scorer)]
    return [call for made in calls if isinstance(made, list) for call in made if isinstance(call, Mapping)]


def tools_called(scorer: ToolsCalledScorer, output: Output, sample: Sample) -> Grade:
    """The share of the wanted calls that were made."""
    wanted, made = _wanted(scorer, sample), _calls_in(output, scorer)
    told = f"called {_named(made)}"
    if scorer.order == "exact":
        hit = len(wanted) == len(made) and all(_is_made(one, call) for one, call in zip(wanted, made, strict=True))
        return hit_or_miss(scorer, hit, f"{told}; wanted were exactly {_listed(wanted)}", told)
    lacking = _not_in_order(wanted, made) if scorer.order == "same" else _not_made(wanted, made)
    if not lacking:
        return hit_or_miss(scorer, True, "", told)
    order = " in this order" if scorer.order == "same" else ""
    why = f"{told}; did not call {_listed(lacking)}, of {_listed(wanted)} that are wanted{order}"
    return Grade(Score(scorer.score_name, 1 - len(lacking) / len(wanted), len(lacking) == 0, why))


def tools_avoided(scorer: ToolsAvoidedScorer, output: Output, sample: Sample) -> Grade:
    """Whether nothing forbidden was called."""
    made = _calls_in(output, scorer)
    found = [call for call in made if any(_is_made(forbidden, call) for forbidden in _read(scorer.calls))]
    return hit_or_miss(scorer, not found, f"called {_named(found)}, which is forbidden", "called nothing that is forbidden")


def steps(scorer: StepsScorer, output: Output, sample: Sample) -> Grade:
    """How many turns, or calls of tools, it took."""
    if scorer.count == "turns":
        return measurement(scorer, len(turns_in(output, scorer)), "turns")
    return measurement(scorer, len(_calls_in(output, scorer)), "calls of tools")


def _wanted(scorer: ToolsCalledScorer, sample: Sample) -> list[ExpectedCall]:
    if scorer.calls is not None:
        return _read(scorer.calls)
    expected = expected_of(sample, scorer.kind)
    wanted = expected.get("tools") if isinstance(expected, Mapping) else expected
    if scorer.unusable(expected) is not None or not wanted:
        raise ScoringFailed(f"sample {sample.id!r} expects {shown(expected)}, which names no calls; correct the dataset")
    return _read(wanted)


def _read(calls: Sequence[Any]) -> list[ExpectedCall]:
    return [
        one if isinstance(one, ExpectedCall) else ExpectedCall.model_validate({"tool": one} if isinstance(one, str) else one)
        for one in calls
    ]


def _is_made(wanted: ExpectedCall, call: Mapping[str, Any]) -> bool:
    given = call.get("arguments")
    arguments = given if isinstance(given, Mapping) else {}
    fits = all(name in arguments and arguments[name] == value for name, value in (wanted.arguments or {}).items())
    return call.get("tool") == wanted.tool and fits


def _not_made(wanted: Sequence[ExpectedCall], made: Sequence[Mapping[str, Any]]) -> list[ExpectedCall]:
    """Each call counts for one that is wanted. Those with arguments choose first, as others are content with more."""
    left, lacking = list(made), []
    for one in sorted(wanted, key=lambda one: -len(one.arguments or {})):
        found = next((call for call in left if _is_made(one, call)), None)
        if found is None:
            lacking.append(one)
        else:
            left.remove(found)
    return [one for one in wanted if any(one is other for other in lacking)]


def _not_in_order(wanted: Sequence[ExpectedCall], made: Sequence[Mapping[str, Any]]) -> list[ExpectedCall]:
    """Those that are not in the longest part of the wanted calls that was made in order."""
    longest: list[list[list[int]]] = [[[] for _ in range(len(made) + 1)] for _ in range(len(wanted) + 1)]
    for i, one in enumerate(wanted):
        for j, call in enumerate(made):
            with_both = [*longest[i][j], i] if _is_made(one, call) else []
            longest[i + 1][j + 1] = max(with_both, longest[i][j + 1], longest[i + 1][j], key=len)
    return [one for place, one in enumerate(wanted) if place not in longest[-1][-1]]


def _listed(calls: Sequence[ExpectedCall]) -> str:
    return shorten(", ".join(_written(one.tool, one.arguments) for one in calls), 500)


def _named(calls: Sequence[Mapping[str, Any]]) -> str:
    return shorten(", ".join(_written(str(call.get("tool")), call.get("arguments")) for call in calls), 500) or "nothing"


def _written(tool: str, arguments: Any) -> str:
    return tool if not arguments else f"{tool}({canonical_json(arguments)})"
