"""What a model that writes proposals is asked: the texts, how they did, what went wrong, and what new ones must respect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from activities.plugins.loader import invalid
from activities.proposals.reflection_answer import TAG
from ratchet import Record
from ratchet._text.placeholders import UnknownPlaceholder, as_text, placeholders, substitute
from workflows.model.failures import cut
from workflows.model.run.contract import ProposalInput
from workflows.model.spec.extensions.proposers import ModelProposer

LONGEST_EXAMPLE_PART = 1_000
LONGEST_EXAMPLES = 12_000
LONGEST_HALL = 24_000
"""Characters of a part of an example, of all examples, and of all texts that did best."""

REQUEST = """\
You improve a system that is measured by experiment.

{{texts}}

{{feedback}}

Find out what is missing, wrong or ambiguous, given the answers above. Then write better.
Settle the general question behind a failure; do not list the examples themselves, since the result will be measured on others.
Keep what already works.

{{limits}}

{{form}}
"""

REPAIR = """\
That cannot be used: {{problems}}

{{form}}
"""

AGAIN = """

You answered this {{times}} before, and what you wrote was measured already. Write something else.
"""


@dataclass(frozen=True, slots=True)
class Material:
    """What a request is made of, beside the request itself."""

    records: Sequence[Record]
    hall_of_fame: Sequence[tuple[float, Mapping[str, Any]]] = ()
    """Scores and configurations, the best last."""


def template_of(request: ProposalInput, proposer: ModelProposer) -> str:
    """The spec's own words, else the optimizer's, else those that suit any."""
    return proposer.template or request.template or REQUEST


def takes_all_texts(template: str) -> bool:
    """Whether one request asks for all texts; a template that speaks of one factor is sent for each."""
    return "texts" in placeholders(template)


def asks_for_tags(template: str) -> bool:
    """Whether the request says between which tags a new text is to be written; a spec's own template may not."""
    return "form" in placeholders(template) or TAG in template


def request_text(request: ProposalInput, proposer: ModelProposer, texts: Mapping[str, str], material: Material) -> str:
    """The request for better texts, which are written together."""
    values = {
        "texts": _current(texts),
        "feedback": _feedback(request, material.records if request.shown else material.records[: proposer.examples]),
        "hall_of_fame": _hall_of_fame(texts, material.hall_of_fame),
        "limits": _limits(request, texts),
        "form": form(texts),
    }
    if len(texts) == 1:
        [(name, current)] = texts.items()
        values |= {"factor.name": name, "factor.value": current}
    try:
        return substitute(template_of(request, proposer), values)
    except UnknownPlaceholder as error:
        raise invalid(f"optimizer.proposer.template: {error}") from None


def form(texts: Mapping[str, str]) -> str:
    """How the model is to answer."""
    around = "You may explain yourself before that, briefly; nothing outside of the tags will be used."
    if len(texts) == 1:
        return f"Give the complete new text, with nothing left out, between <new_value> and </new_value>. {around}"
    tags = "\n".join(f'<new_value name="{name}">…</new_value>' for name in texts)
    return (
        "Give each text that you change complete, with nothing left out, in a tag with its name; a text without a tag stays as "
        f"it is:\n{tags}\n{around}"
    )


def _current(texts: Mapping[str, str]) -> str:
    if len(texts) == 1:
        [(name, current)] = texts.items()
        told = f'The text to improve is named "{name}". This is how it reads now:'
        return f"{told}\n\n<current_value>\n{current}\n</current_value>"
    shown = "\n\n".join(f'<current_value name="{name}">\n{current}\n</current_value>' for name, current in texts.items())
    return f"Its texts work together. This is how they read now:\n\n{shown}"


def _feedback(request: ProposalInput, records: Sequence[Record]) -> str:
    parts = []
    if request.objective:
        parts.append(f"What is measured: {request.objective}.")
    if request.feedback.strip():
        parts.append(f"The last measurements, the oldest first:\n{request.feedback.strip()}")
    examples = _examples(records)
    if examples:
        parts.append(f"Answers that the current text led to:\n\n{examples}")
    return "\n\n".join(parts) or "Nothing has been measured yet."


def _examples(records: Sequence[Record]) -> str:
    """As many as fit, each part cut to size, so that one huge sample cannot crowd out the rest of the request."""
    shown: list[str] = []
    size = 0
    for number, record in enumerate(records, start=1):
        lines = [
            f"Example {number}, score {record.score:.2f}",
            f"Input: {_part(record.inputs)}",
            f"Answer: {_part(record.output)}",
        ]
        if record.expected is not None:
            lines.append(f"Expected: {_part(record.expected)}")
        if record.feedback:
            lines.append(f"Feedback: {_part(record.feedback)}")
        text = "\n".join(lines)
        size += len(text)
        if shown and size > LONGEST_EXAMPLES:
            break
        shown.append(text)
    return "\n\n".join(shown)


def _part(value: Any) -> str:
    return "(none)" if value is None else cut(as_text(value), LONGEST_EXAMPLE_PART)


def _hall_of_fame(texts: Mapping[str, str], ranked: Sequence[tuple[float, Mapping[str, Any]]]) -> str:
    """The best ones, the best last, as many as fit; of several texts each with its name."""
    shown: list[str] = []
    size = 0
    for score, configuration in reversed(ranked):
        parts = [f"<{name}>\n{as_text(configuration.get(name))}\n</{name}>" for name in texts]
        text = "\n".join([f"Score {score:.4f}:", *parts])
        size += len(text)
        if shown and size > LONGEST_HALL:
            break
        shown.append(text)
    return "\n\n".join(reversed(shown)) or "Nothing but the text above was measured yet."


def _limits(request: ProposalInput, texts: Mapping[str, str]) -> str:
    lines = []
    for name, current in texts.items():
        it = "The new text" if len(texts) == 1 else f'The new text "{name}"'
        if name in request.limits:
            lines.append(f"{it} has at most {request.limits[name]} characters.")
        kept = placeholders(current)
        if kept:
            names = ", ".join(f"{{{{{placeholder}}}}}" for placeholder in kept)
            lines.append(f"It contains these placeholders, exactly as written here, and no others: {names}.")
    if request.batch_position > 0:
        lines.append(
            f"{request.batch_position} other texts are being written at the same time; "
            "take another approach than the obvious one."
        )
    return "\n".join(lines)
