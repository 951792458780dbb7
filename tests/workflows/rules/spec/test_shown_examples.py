"""Few-shot examples are written like the live message, whatever form the samples have."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet._text.placeholders import Filling, Unfillable, UnfoldsTooFar
from workflows.model.spec.targets.chat import ChatStep
from workflows.rules.spec.shown_examples import ShownExamples

REVIEWS = [
    {"input": {"text": "A joy.", "year": 1999}, "output": "positive"},
    {"input": {"text": "Two hours of rain.", "year": 2004}, "output": "negative"},
]
LIVE = "Review: {{input.text}}\nSentiment:"
WRITTEN = "Review: A joy.\nSentiment: positive\n\nReview: Two hours of rain.\nSentiment: negative"


def _said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _shown(*messages: dict[str, str], examples: Any = REVIEWS, **factors: Any) -> str:
    """What stands where the examples are named."""
    request = ChatStep.model_validate({"name": "answer", "messages": list(messages)})
    configuration = {"examples": examples, "instructions": "Judge.", **factors}
    shown = ShownExamples(request, configuration).as_texts()
    return Filling(shown, {}).text("{{factors.examples}}")


SYSTEM = _said("system", "{{factors.instructions}}\n\n{{factors.examples}}")


@pytest.mark.parametrize(
    ("messages", "written"),
    [
        pytest.param([SYSTEM, _said("user", LIVE)], WRITTEN, id="in the system's message"),
        pytest.param([_said("user", "Judge.\n\n{{factors.examples}}\n\n" + LIVE)], WRITTEN, id="in the live message itself"),
        pytest.param([_said("user", LIVE + "\n\n{{factors.examples}}")], WRITTEN, id="behind it"),
        pytest.param([SYSTEM, _said("user", "{{factors.asking}}")], WRITTEN, id="asked by a text factor"),
        pytest.param([_said("user", "{{factors.whole}}")], WRITTEN, id="shown by a text factor"),
        pytest.param([SYSTEM, _said("user", "From {{input.year}}."), _said("user", LIVE)],
                     "From 1999.\n\nReview: A joy.", id="in two messages"),
        pytest.param([SYSTEM, _said("user", "{{input.text}}")],
                     "Input: A joy.\nOutput: positive\n\nInput: Two", id="which has no words of its own"),
        pytest.param([SYSTEM, _said("user", "Is it good? {{input.text}}")],
                     "Is it good? A joy.\npositive\n\nIs it", id="which ends with the input"),
        pytest.param([SYSTEM, _said("user", LIVE + "\n")], "Review: A joy.\nSentiment:\npositive\n\n", id="which ends a line"),
        pytest.param([_said("system", "{{factors.examples}}\n" + LIVE)], WRITTEN, id="which nobody but the system says"),
        pytest.param([SYSTEM], 'Input: {"text":"A joy.","year":1999}\nOutput: positive', id="which names nothing"),
        pytest.param([SYSTEM, _said("user", LIVE + "{{steps.draft}}")], 'Input: {"text"', id="which shows a step's answer"),
    ],
)  # fmt: skip
def test_an_example_is_written_like_the_live_message(messages: list[dict[str, str]], written: str) -> None:
    factors = {"asking": LIVE, "whole": "{{factors.instructions}}\n{{factors.examples}}\n" + LIVE}
    found = _shown(*messages, **factors)
    assert found == written if written is WRITTEN else found.startswith(written), found


def test_no_examples_are_no_text() -> None:
    assert _shown(SYSTEM, _said("user", LIVE), examples=[]) == ""


@pytest.mark.parametrize("value", [[1, 2], [{"input": 1}], [{"input": 1, "output": 2, "id": 3}], {"input": 1, "output": 2}])
def test_other_lists_stay_json(value: Any) -> None:
    assert _shown(SYSTEM, _said("user", LIVE), examples=value).startswith(("[", "{"))


def test_what_an_example_says_is_never_filled_in() -> None:
    hostile = [{"input": {"text": "{{factors.instructions}}"}, "output": "{{input.text}}"}]
    assert _shown(SYSTEM, _said("user", LIVE), examples=hostile) == (
        "Review: {{factors.instructions}}\nSentiment: {{input.text}}"
    )


def test_an_example_of_another_form_is_told() -> None:
    with pytest.raises(Unfillable, match=r"input.text\}\} of the live message is not in the input of factors.examples\[1\]"):
        _shown(SYSTEM, _said("user", LIVE), examples=[REVIEWS[0], {"input": {"body": "x"}, "output": "y"}])


def test_examples_that_nothing_shows_may_have_any_form() -> None:
    assert _shown(_said("user", LIVE), examples=[{"input": "x", "output": "y"}]) == '[{"input":"x","output":"y"}]'


def test_many_examples_of_a_long_message_are_bounded() -> None:
    with pytest.raises(UnfoldsTooFar):
        _shown(SYSTEM, _said("user", "{{factors.long}}" + LIVE), examples=REVIEWS * 10, long="x" * 100_000)


def test_spliced_examples_are_questions_and_answers() -> None:
    request = ChatStep.model_validate(
        {"name": "answer", "messages": [{"splice": "{{factors.examples}}"}, {"role": "user", "content": LIVE}]}
    )
    shown = ShownExamples(request, {"examples": REVIEWS, "none": [], "turns": [_said("user", "hello")]})
    assert shown.spliced("{{factors.examples}}") == [
        _said("user", "Review: A joy.\nSentiment:"),
        _said("assistant", "positive"),
        _said("user", "Review: Two hours of rain.\nSentiment:"),
        _said("assistant", "negative"),
    ]
    assert shown.spliced("{{factors.none}}") == []
    assert shown.spliced("{{factors.turns}}") is None
    assert shown.spliced("{{input.turns}}") is None
