"""A model as the judge of an answer: a structured verdict, asked for again when it is malformed, and never made up."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from activities.scorers.extracts import read_json
from activities.scorers.grades import Grade
from activities.scorers.model_calls import asked
from activities.targets.attached_files import AttachedFiles, attached_to_reader
from activities.targets.faults import TIMEOUT, CandidateFault, TookTooLong, Unjudged
from ratchet import Output, Sample, Score
from ratchet._text.placeholders import as_text
from workflows.model.failures import cut, shorten
from workflows.model.spec.scorers.rubric import RubricScorer
from workflows.rules.scoring.judge_messages import judge_messages, judge_parameters

if TYPE_CHECKING:
    from activities.endpoints.chat_models import ChatAnswer
    from activities.scorers import ScorerTools

MOST_ATTEMPTS = 3
"""How often a judge is asked for one verdict."""

REPAIR = """\
That was no verdict: {problem}. Reply with one JSON object and nothing else: {{"reason": "…", "score": …}}, where the score is a
whole number from {worst} to {best}.
"""


async def rubric(scorer: RubricScorer, output: Output, sample: Sample, tools: ScorerTools) -> Grade:
    """The judge's grade. Trouble on the way to the judge passes through; one that keeps talking rubbish gives none."""
    files = await _files(scorer, sample, tools)
    talk = files.sent(judge_messages(scorer, output.value, output.trace, files.marked(sample.input), sample.expected))
    tokens, cost, cached, problem = 0, 0.0, 0, ""
    for attempt in range(MOST_ATTEMPTS):
        try:
            answer = await _reply(scorer, talk, attempt, tools)
        except CandidateFault as fault:  # of the judge: here it is the one who answers
            tokens, cost, problem = tokens + fault.tokens, cost + fault.cost, str(fault)
            too_late = isinstance(fault, TookTooLong)
            continue
        too_late = False
        tokens, cost = tokens + answer.tokens, cost + answer.cost
        cached += answer.cached_tokens if isinstance(answer, Output) else answer.cached
        said = as_text(answer.value)
        try:
            return replace(_graded(scorer, said), tokens=tokens, cost=cost, cached_tokens=cached)
        except ValueError as error:
            problem = str(error)
            talk = [*talk[:2], *_correction(scorer, said, problem)]
    judge = f"judge {scorer.model!r} of scorer {scorer.score_name!r}"
    if too_late:
        raise Unjudged(f"{judge} did not answer in time: {problem}", kind=TIMEOUT)
    raise Unjudged(
        f"{judge} gave no verdict in {MOST_ATTEMPTS} attempts; the last time: {shorten(problem, 500)}; "
        "use another model, or another response_format"
    )


async def _files(scorer: RubricScorer, sample: Sample, tools: ScorerTools) -> AttachedFiles:
    if tools.files is None or "input" not in scorer.show:
        return AttachedFiles({})
    return await attached_to_reader(tools.files, [sample.input], scorer.files)


async def _reply(scorer: RubricScorer, talk: list[dict[str, Any]], attempt: int, tools: ScorerTools) -> ChatAnswer | Output:
    """What the judge says: in a batch that was, or is going to be, where it is asked so, else at once."""
    if tools.replies is not None:
        known = tools.replies.answer(scorer, attempt, talk, judge_parameters(scorer))
        if known is not None:
            return known
    return await asked(partial(_ask, scorer, talk, tools), tools.models.patience.seconds)


async def _ask(scorer: RubricScorer, talk: list[dict[str, Any]], tools: ScorerTools) -> ChatAnswer:
    return await tools.models.ask(
        base_url=scorer.base_url,
        model=scorer.model,
        messages=talk,
        parameters=judge_parameters(scorer),
        stream=False,
        timeout=tools.longest_call,
        prices=tools.prices,
        context=tools.context,
        shared=lambda: 1,
    )


def _correction(scorer: RubricScorer, said: str, problem: str) -> list[dict[str, Any]]:
    worst, best = scorer.scale
    return [
        {"role": "assistant", "content": cut(said, 2_000)},
        {"role": "user", "content": REPAIR.format(problem=problem, worst=worst, best=best)},
    ]


def _graded(scorer: RubricScorer, said: str) -> Grade:
    """The verdict as a grade. Raises ValueError with what is wrong with it."""
    try:
        verdict = read_json(said)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None
    worst, best = scorer.scale
    if not isinstance(verdict, dict) or "score" not in verdict:
        raise ValueError("it is not a JSON object with a score")
    score, reason = verdict["score"], verdict.get("reason")
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise ValueError(f"its score is {shorten(repr(score), 80)}, which is not a number")
    if not worst <= score <= best:
        raise ValueError(f"its score is {shorten(repr(score), 80)}, which is not from {worst} to {best}")
    if not isinstance(reason, str):
        raise ValueError("it gives no reason")
    told = f"graded {score:g} ({worst} to {best}): {reason}"
    return Grade(Score(scorer.score_name, (score - worst) / (best - worst), reason=told))
