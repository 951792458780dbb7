"""What is probably wrong with a measurement, as the baseline's answers tell it before anything more is paid for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ratchet._formats.canonical import canonical_json
from ratchet.optimizer import Direction
from workflows.model.failures import one_line, shorten
from workflows.model.run.first_look import FirstLook, SeenAnswer, ShownAnswer
from workflows.model.spec.extensions.scorer_options import Scorer, placed_scorers
from workflows.model.spec.judgement import Plan
from workflows.model.suite import EvaluationSuite
from workflows.rules.scoring.objective_score import TrialStatistics, is_mean_over_samples

MOST_SEEN: Final = 200
"""Answers that are looked at one by one; how many passed is known of all."""

SHOWN: Final = 3
LONGEST_SHOWN: Final = 400
"""Characters of an input, an expected value, an answer, or why it scored as it did."""

LONGEST_QUOTED: Final = 120
FEWEST_ALIKE: Final = 5
"""What fewer answers have in common is chance."""

NEARLY_ALL: Final = 0.9
CUT_OFF_AT_LEAST: Final = 0.05
"""A share of the answers."""

NO_VERDICT: Final = "no verdict"
"""The class of the error where a judge gave none."""

CUT_OFF: Final = ("length", "max_tokens", "MAX_TOKENS")
"""What endpoints call it when an answer reached its limit of tokens."""


def first_look(seen: Sequence[SeenAnswer], suite: EvaluationSuite, facts: TrialStatistics, told: Sequence[str]) -> FirstLook:
    """Choose what is shown, and say what is probably wrong; `told` is what was found out elsewhere, the power for instance."""
    warnings = [*_warnings(seen, suite, facts), *told]
    return FirstLook(shown=tuple(_shown(one) for one in _chosen(seen)), warnings=tuple(dict.fromkeys(warnings)))


def _chosen(seen: Sequence[SeenAnswer]) -> list[SeenAnswer]:
    """One that failed, one that did not pass and one that did, as far as there are such; then the first ones."""
    first: dict[tuple[bool, bool], int] = {}
    for place, one in enumerate(seen):
        first.setdefault((one.answered, one.passed), place)
    places = dict.fromkeys([*first.values(), *range(len(seen))])
    return [seen[place] for place in sorted(list(places)[:SHOWN])]


def _shown(one: SeenAnswer) -> ShownAnswer:
    reasons = [
        f"{name}: {detail['reason']}" if len(one.scores) > 1 else str(detail["reason"])
        for name, detail in one.details.items()
        if detail.get("reason")
    ]
    return ShownAnswer(
        sample=shorten(one.sample, LONGEST_QUOTED),
        input=shorten(readable(one.input), LONGEST_SHOWN),
        expected=None if one.expected is None else shorten(readable(one.expected), LONGEST_SHOWN),
        answer=None if one.output is None else shorten(readable(one.output), LONGEST_SHOWN),
        passed=one.passed,
        scores=one.scores,
        why=shorten(one.error or "\n".join(reasons), LONGEST_SHOWN),
    )


def _warnings(seen: Sequence[SeenAnswer], suite: EvaluationSuite, facts: TrialStatistics) -> Iterator[str]:
    scorers = {scorer.score_name: scorer for _, scorer in placed_scorers(suite.scorers)}
    answered = [one for one in seen if one.answered]
    yield from _all_or_none(answered, suite, facts)
    yield from _complaints(answered, scorers)
    yield from _cut_off(answered)
    yield from _alike(answered)
    yield from _judges(answered, scorers, facts)


def _all_or_none(answered: Sequence[SeenAnswer], suite: EvaluationSuite, facts: TrialStatistics) -> Iterator[str]:
    """Where scores differ although all of them pass, or none does, there is still something to gain."""
    values = {one.scores.get(suite.metric) for one in answered}
    if facts.outcomes < FEWEST_ALIKE or (len(values) > 1 and suite.objective.kind != "success_rate"):
        return
    if facts.passed == 0:
        yield (
            f"None of the {facts.outcomes:,} answers passes: look whether {suite.metric} fits what the target answers, "
            "because nothing tells candidates apart that all fail."
        )
    elif (
        facts.passed == facts.outcomes
        and (values == {1.0} or suite.objective.kind == "success_rate")
        and suite.judgement.rule != "non_inferiority"  # who makes texts shorter wants to lose nothing, not to gain
    ):
        yield f"All {facts.outcomes:,} answers pass already: nothing is left to gain; take harder samples or a stricter scorer."


def _complaints(answered: Sequence[SeenAnswer], scorers: Mapping[str, Scorer]) -> Iterator[str]:
    """The same words about nearly all answers say more about the scorer, or the prompt's form, than about any answer."""
    for name in dict.fromkeys(name for one in answered for name in one.details):
        complaints = [
            str(one.details[name]["reason"])
            for one in answered
            if name in one.details and one.details[name].get("passed") is False and one.details[name].get("reason")
        ]
        scorer = scorers.get(name)
        if scorer is not None and scorer.part is not None:
            unread = [reason for reason in complaints if reason.startswith("the answer ")]
            if _nearly_all(unread, answered):
                yield (
                    f"{name} finds nothing to score in {len(unread)} of {len(answered)} answers: "
                    f"{_common(unread)}; mend its extract, or have the prompt ask for that form."
                )
                continue
        alike = [reason for reason in complaints if reason == _common_reason(complaints)]
        if _nearly_all(alike, answered):
            yield f"{name} says the same of {len(alike)} of {len(answered)} answers: {_quoted(alike[0])}."


def _cut_off(answered: Sequence[SeenAnswer]) -> Iterator[str]:
    cut = sum(1 for one in answered if _finish_reason(one.trace) in CUT_OFF)
    if cut and cut >= CUT_OFF_AT_LEAST * len(answered):
        yield (
            f"{cut} of {len(answered)} answers are cut off, as they reached their limit of tokens: raise max_tokens, "
            "or ask for less."
        )


def _finish_reason(trace: object) -> object:
    """That of the last step, where the target takes several."""
    if not isinstance(trace, Mapping):
        return None
    steps = trace.get("steps")
    if isinstance(steps, list | tuple) and steps and isinstance(steps[-1], Mapping):
        return steps[-1].get("finish_reason")
    return trace.get("finish_reason")


def _alike(answered: Sequence[SeenAnswer]) -> Iterator[str]:
    """Different samples with the same answer, which are expected to have different ones."""
    if len(_distinct(one.input for one in answered)) < FEWEST_ALIKE or len(_distinct(one.output for one in answered)) > 1:
        return
    expected = _distinct(one.expected for one in answered)
    if len(expected) > 1 or expected == {canonical_json(None)}:
        yield (
            f"All {len(answered)} answers are the same, {_quoted(readable(answered[0].output))}: look whether the sample "
            "reaches the target, such as by {{input.…}} in a message."
        )


def _judges(answered: Sequence[SeenAnswer], scorers: Mapping[str, Scorer], facts: TrialStatistics) -> Iterator[str]:
    if facts.unscored:
        yield f"Scoring failed on {facts.unscored:,} answers, which count for nothing: mend the scorer, then `ratchet retry`."
    without = facts.errors.get(NO_VERDICT, 0)
    if without:
        yield f"A judge gave no verdict on {without:,} answers: look at its model, its rubric and its response_format."
    for name, scorer in scorers.items():
        if scorer.asked_model is None:
            continue
        grades = [one.scores[name] for one in answered if name in one.scores]
        outputs = _distinct(one.output for one in answered)
        if len(grades) >= FEWEST_ALIKE and len(set(grades)) == 1 and len(outputs) > 1:
            yield f"{name} gives all {len(grades)} answers the same grade, {grades[0]:.4g}: it does not tell them apart."


def _nearly_all(found: Sequence[str], answered: Sequence[SeenAnswer]) -> bool:
    return len(found) >= max(FEWEST_ALIKE, NEARLY_ALL * len(answered))


def _common_reason(reasons: Iterable[str]) -> str | None:
    return next((reason for reason, _ in Counter(reasons).most_common(1)), None)


def _common(reasons: Sequence[str]) -> str:
    return shorten(one_line(_common_reason(reasons) or ""), LONGEST_QUOTED)


def _quoted(text: str) -> str:
    return f"“{shorten(one_line(text), LONGEST_QUOTED)}”"


def _distinct(values: Iterable[object]) -> set[str]:
    return {canonical_json(value) for value in values}


def out_of_reach(plan: Plan, score: float, scores: Sequence[float], suite: EvaluationSuite) -> str | None:
    """Say so where no gain of a plausible size could be told from chance, or no loss be excluded; None where it could.

    `plan` is what could be found out at best. Scores between 0 and 1 can gain what is left up to the best; of others it is
    plausible that they gain half of what they are.
    """
    if not is_mean_over_samples(suite.objective) or not scores:
        return None
    if suite.judgement.rule == "non_inferiority":
        return _no_loss_excluded(plan, suite.judgement.margin)
    bounded = min(scores) >= 0 and max(scores) <= 1
    maximizes = suite.objective.direction is Direction.MAXIMIZE
    left = (1 - score if maximizes else score) if bounded else abs(score) / 2
    least = plan.detectable_on_few if bounded else plan.detectable
    if left <= 0 or least <= left:
        return None
    told = f"only {left:.3g} is left to gain" if bounded else f"that is more than half of the baseline's {score:.4g}"
    return (
        f"No gain of a plausible size can be told from chance with {plan.samples:,} samples: it would have to be at least "
        f"{least:.3g}, and {told}; take more samples or replicates."
    )


def _no_loss_excluded(plan: Plan, margin: float) -> str | None:
    if plan.margin <= margin:
        return None
    return (
        f"With {plan.samples:,} samples hardly anything can be shown to be as good as the baseline: losses of up to "
        f"{plan.margin:.3g} cannot be excluded, and `judgement.margin` allows {margin:.3g}; take more samples or "
        "replicates, or allow more."
    )


def readable(value: Any) -> str:
    """Text as it is; an object with one text in it as that text, several named; all else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and value and all(isinstance(field, str) for field in value.values()):
        fields = list(value.items())
        return str(fields[0][1]) if len(fields) == 1 else "\n".join(f"{name}: {text}" for name, text in fields)
    return json.dumps(value, ensure_ascii=False, default=str)
