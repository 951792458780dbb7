"""How new values are read from what a model answers, and what is wrong with them said."""

from __future__ import annotations

import pytest

from activities.proposals.reflection_answer import problems_of, read_answer
from tests.support.proposal_requests import PROMPT

ONE = {"prompt": PROMPT}
SEVERAL = {"prompt": PROMPT, "greeting": "Hello, {{input.name}}!"}


@pytest.mark.parametrize(
    "answer",
    [
        "<new_value>new</new_value>",
        "I thought about it.\n<new_value>\nnew\n</new_value>\nDone.",
        '<new_value name="prompt">new</new_value>',
        "It goes between <new_value> and </new_value>, so: <new_value>new</new_value>",
        "I write <new_value> like this: <new_value>new</new_value>",
        "```xml\n<new_value>\nnew\n</new_value>\n```\nThat is all.",
        "</new_value> ends it. <new_value>old</new_value> <new_value>new</new_value >",
    ],
)
def test_the_text_is_found(answer: str) -> None:
    assert read_answer(answer, ONE).values == {"prompt": "new"}


@pytest.mark.parametrize("answer", ["Here:\n```\nnew\n```", "```text\nnew\n```\nand ```x```", "  new\n"])
def test_where_no_tags_were_asked_for_the_answer_is_the_text(answer: str) -> None:
    assert read_answer(answer, ONE, tagged=False).values == {"prompt": "new"}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (
            "The failures show what is missing. <system_prompt>Sort.</system_prompt> {{input.ticket}}",
            "it has nothing between",
        ),
        ("Here:\n```\nSort {{input.ticket}}.\n```", "it has nothing between"),
        ('{"prompt": "Sort {{input.ticket}}."}', "it has nothing between"),
        ("&lt;new_value&gt;Sort {{input.ticket}}.&lt;/new_value&gt;", "it has nothing between"),
        ("<NEW_VALUE>Sort {{input.ticket}}.</NEW_VALUE>", "it has nothing between"),
        ("Between <new_value> and </new_value>: <new_value>Sort {{input.ticket}}", "the answer was cut off"),
        ("<new_value>Sort {{input.ticket}}.</new_value> or <new_value>", "the answer was cut off"),
        ("<new_value>Use <new_value>x</new_value> {{input.ticket}}.</new_value>", "there are tags within tags"),
        ("<new_value>…</new_value>", "prompt: Factor value cannot be empty"),
    ],
)
def test_an_answer_without_the_tags_it_was_asked_for_is_never_the_text(answer: str, problem: str) -> None:
    found = read_answer(answer, ONE)
    assert not any(found.values.values())
    assert problems_of(found, ONE, {})[0].startswith(problem)


@pytest.mark.parametrize("part", ["<new_value ", "<new_value>", "</new_value>", "<new_value>a</new_value>", "```a\n", "name="])
def test_a_megabyte_of_tags_is_read_at_once(part: str) -> None:
    """Every tag would be looked for to the end of the text, if reading took quadratic time: half an hour."""
    for texts in (ONE, SEVERAL):
        read_answer(part * (1_000_000 // len(part)), texts)


def test_what_is_said_before_is_the_rationale() -> None:
    found = read_answer("Too vague.\n<new_value>new</new_value>", ONE)
    assert (found.values["prompt"], found.rationale) == ("new", "Too vague.")


def test_fences_inside_the_tags_belong_to_the_text() -> None:
    found = read_answer("<new_value>Answer in\n```json\n{}\n```</new_value>", ONE)
    assert found.values["prompt"] == "Answer in\n```json\n{}\n```"


@pytest.mark.parametrize(
    ("answer", "values"),
    [
        (
            '<new_value name="greeting">b</new_value> <new_value name="prompt">a</new_value>',
            {"prompt": "a", "greeting": "b"},
        ),
        ("<new_value name='prompt'>a</new_value>", {"prompt": "a"}),
        ('I write <new_value name="prompt"> like this: <new_value name="prompt">a</new_value>', {"prompt": "a"}),
        ('<new_value name="other">x</new_value><new_value name="prompt">a</new_value>', {"prompt": "a"}),
        ('{"prompt": "a", "greeting": "b", "why": "c"}', {"prompt": "a", "greeting": "b"}),
        ('```json\n{"greeting": "b"}\n```', {"greeting": "b"}),
    ],
)
def test_several_texts_are_told_apart_by_name(answer: str, values: dict[str, str]) -> None:
    assert read_answer(answer, SEVERAL).values == values


@pytest.mark.parametrize(
    ("answer", "texts", "cut_off", "problem"),
    [
        ("<new_value>half a te", ONE, False, "the answer was cut off before the new text ended"),
        ("half a te", ONE, True, "the answer was cut off before the new text ended"),
        ("<new_value> \n</new_value>", ONE, False, "prompt: Factor value cannot be empty"),
        ("   ", ONE, False, "it has nothing between <new_value> and </new_value>, and only what is there is used"),
        ("Sorry.", SEVERAL, False, "it has no <new_value name=…> for any of prompt, greeting"),
        (f"<new_value>{PROMPT}</new_value>", ONE, False, "nothing was changed"),
        ("<new_value>Sort it.</new_value>", ONE, False, "prompt: placeholder {{input.ticket}} was lost; keep it"),
        (
            "<new_value>{{input.ticket}} {{input.mood}}</new_value>",
            ONE,
            False,
            "prompt: nothing would fill the placeholder {{input.mood}}; leave it out",
        ),
        (
            f"<new_value>{{{{input.ticket}}}}{'x' * 100}</new_value>",
            ONE,
            False,
            "prompt: Factor value exceeds max length 80 (was 116)",
        ),
    ],
)
def test_what_is_wrong_is_said_in_words(answer: str, texts: dict[str, str], cut_off: bool, problem: str) -> None:
    found = read_answer(answer, texts, cut_off=cut_off)
    assert problems_of(found, texts, {"prompt": 80}) == [problem]
