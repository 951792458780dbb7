"""The requests behind an answer and its judgement, as they were sent: made again, with nothing kept for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ratchet._files import references_in
from ratchet._frozen import Payload
from ratchet._text.placeholders import Unfillable
from store.read.samples.sent_material import KeptAnswer, SentMaterial
from workflows.model.spec.extensions.scorer_options import Scorer, placed_scorers
from workflows.model.spec.scorers.rubric import RubricScorer
from workflows.rules.overlay import Overlay
from workflows.rules.scoring.judge_messages import judge_messages, judge_parameters
from workflows.rules.spec.sent_messages import sent_messages


class SentRequest(Payload):
    """One request to a model."""

    name: str
    """Of the step; `answer` where there is one request."""
    model: str
    messages: tuple[dict[str, Any], ...]
    parameters: dict[str, Any]
    problem: str | None
    """Why it cannot be told: a placeholder that nothing fills, or a step before it whose answer is not kept."""


class JudgeRequest(SentRequest):
    """What a judge was asked about an answer; its `name` is that of the score."""

    exact: bool
    """These are the very messages. Else files stand in them by their names, or all of an answer of which it saw a part."""


class SentRequests(Payload):
    """What was sent to answer a sample, and to judge the answer."""

    sample: str
    replicate: int
    known: bool
    """Whether the requests follow from configuration and sample. Of code, services and activities only what they told is known:
    the trace of the answer."""
    exact: bool
    """These are the very messages. Else files stand in them by their names, or turns after the first are in the trace alone."""
    requests: tuple[SentRequest, ...]
    judges: tuple[JudgeRequest, ...] = ()
    """The first request to each model that judged the answer; malformed verdicts are asked for again."""


def sent_requests(material: SentMaterial, replicate: int) -> SentRequests:
    """Tell the requests of one answer."""
    suite, given = material.suite, material.given
    target = suite.target
    answer = material.answers.get(replicate)
    outputs = _outputs_of(None if answer is None else answer.trace)
    overlay = Overlay(material.config_hash, material.configuration, suite.prompt)
    try:
        configuration = overlay.for_sample(given)
        found = sent_messages(target.requests, configuration, given, outputs)
    except Unfillable:
        found = []
    requests = tuple(
        SentRequest(
            name=one.name, model=one.model, messages=tuple(one.messages), parameters=one.parameters, problem=one.problem
        )
        for one in found
    )
    files = [*references_in(given), *references_in(dict(material.configuration))]
    exact = bool(requests) and not files and not target.keeps_turns and all(one.problem is None for one in requests)
    judges = () if answer is None else tuple(_judged(suite.scorers, answer, given, material.expected))
    return SentRequests(
        sample=material.item_id, replicate=replicate, known=bool(requests), exact=exact, requests=requests, judges=judges
    )


def _judged(scorers: Sequence[Scorer], answer: KeptAnswer, given: Any, expected: Any) -> Iterator[JudgeRequest]:
    """What each judge was asked; of an answer that failed none was."""
    for _, scorer in placed_scorers(scorers) if answer.status == "answered" else ():
        if not isinstance(scorer, RubricScorer):
            continue
        has_files = "input" in scorer.show and any(references_in(given))
        gone = "the answer's texts were removed by a policy" if answer.texts_removed else None
        yield JudgeRequest(
            name=scorer.score_name,
            model=scorer.model,
            messages=() if gone else tuple(judge_messages(scorer, answer.value, answer.trace, given, expected)),
            parameters=judge_parameters(scorer),
            problem=gone,
            exact=not has_files and scorer.part is None,
        )


def _outputs_of(trace: Any) -> dict[str, Any]:
    """What the steps of a chain answered, by their names."""
    steps = trace.get("steps") if isinstance(trace, Mapping) else None
    named = [step for step in steps if isinstance(step, Mapping) and "output" in step] if isinstance(steps, list) else []
    return {str(step.get("name")): step["output"] for step in named}
