"""The requests behind an answer, as they were sent: made again from what is stored, and nothing kept for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet._files import references_in
from ratchet._frozen import Payload
from ratchet._text.placeholders import Unfillable
from store.read.samples.sent_material import SentMaterial
from workflows.rules.overlay import Overlay
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


class SentRequests(Payload):
    """What was sent to answer a sample."""

    sample: str
    replicate: int
    known: bool
    """Whether the requests follow from configuration and sample. Of code, services and activities only what they told is known:
    the trace of the answer."""
    exact: bool
    """These are the very messages. Else files stand in them by their names, or turns after the first are in the trace alone."""
    requests: tuple[SentRequest, ...]


def sent_requests(material: SentMaterial, replicate: int) -> SentRequests:
    """Tell the requests of one answer."""
    suite, given = material.suite, material.given
    target = suite.target
    outputs = _outputs_of(material.traces.get(replicate))
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
    return SentRequests(sample=material.item_id, replicate=replicate, known=bool(requests), exact=exact, requests=requests)


def _outputs_of(trace: Any) -> dict[str, Any]:
    """What the steps of a chain answered, by their names."""
    steps = trace.get("steps") if isinstance(trace, Mapping) else None
    named = [step for step in steps if isinstance(step, Mapping) and "output" in step] if isinstance(steps, list) else []
    return {str(step.get("name")): step["output"] for step in named}
