"""Shorter texts without a model: what can be cut out of a section, and what is left of it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pydantic import JsonValue

from ratchet._text.placeholders import placeholders
from workflows.model.run.compression_report import Strategy
from workflows.rules.proposals.text_cuts import Cut, edits_of, without

ALL: list[Strategy] = ["whitespace", "duplicates", "examples", "ablation"]


def left_by(strategy: Strategy, value: JsonValue, others: tuple[str, ...] = ()) -> list[JsonValue]:
    """What each edit of a strategy leaves."""
    return [without(value, edit.cuts) for edit in sorted(edits_of({"s": value}, others, [strategy]), key=lambda e: e.number)]


def test_needless_white_space_goes_and_indentation_and_code_stay() -> None:
    text = "  Sort the  ticket.   \n\n\n\nSteps:\n  - read   it\n  - label it \n\n```\nx  =  1\n```\n\n"
    assert left_by("whitespace", text) == ["Sort the ticket.\n\nSteps:\n  - read it\n  - label it\n\n```\nx  =  1\n```"]
    assert left_by("whitespace", "Nothing to gain here.") == []


def test_what_was_said_before_is_said_once() -> None:
    said = "Answer with the label only. Be kind.\n- Read the whole ticket.\n"
    assert left_by("duplicates", said + "* read the whole ticket!\nAnswer, with the label only.\n") == [said]


def test_what_another_text_says_already_goes_too_but_short_sentences_do_not() -> None:
    assert left_by("duplicates", "Be kind. Use one of the labels.", ("Use one of the labels, be kind.",)) == []
    assert left_by("duplicates", "Be kind. Use one of the labels.", ("Be kind! Use one of the labels!",)) == ["Be kind."]


def test_between_sections_the_first_one_keeps_its_sentence() -> None:
    values: dict[str, JsonValue] = {"a": "Always name the customer first.", "b": "Hello. Always name the customer first."}
    [edit] = edits_of(values, [], ["duplicates"])
    assert (edit.path, without(values["b"], edit.cuts)) == ("b", "Hello.")


@pytest.mark.parametrize(
    "text",
    [
        "Rules.\n\nInput: a\nOutput: b\n\nInput: c\nOutput: d\n\nEnd.",
        "Rules.\n\nExample: a\n\nLabel: b\n\nExample: c\n\nLabel: d\n\nEnd.",
        "Rules.\n<example>a</example>\n<example>b</example>\nEnd.",
        "Rules.\nQ: a\nA: b\nQ: c\nA: d\nEnd.",
    ],
)
def test_every_example_can_be_dropped_by_itself(text: str) -> None:
    one, other = left_by("examples", text)
    assert isinstance(one, str) and isinstance(other, str)
    assert len(one) + len(other) > len(text) > max(len(one), len(other))
    assert all(kept.startswith("Rules.") and kept.endswith("End.") for kept in (one, other))


def test_items_of_a_list_of_examples_are_examples() -> None:
    assert left_by("examples", [{"input": 1, "output": 2}, {"input": 3, "output": 4}]) == [
        [{"input": 3, "output": 4}],
        [{"input": 1, "output": 2}],
    ]
    assert left_by("ablation", [1, 2]) == []


def test_the_parts_of_a_section_are_what_its_author_made_them() -> None:
    assert left_by("ablation", "Intro.\n# A\na\n# B\nb\n") == ["# A\na\n# B\nb\n", "Intro.\n# B\nb\n", "Intro.\n# A\na\n"]
    assert left_by("ablation", "One.\nTwo.\n\nThree.") == ["Three.", "One.\nTwo.\n\n"]
    assert left_by("ablation", "One.\nTwo.\nThree.\n") == ["Two.\nThree.\n", "One.\nThree.\n", "One.\nTwo.\n"]
    assert left_by("ablation", "One is. Two is! Three?") == ["Two is! Three?", "One is. Three?", "One is. Two is!"]
    assert left_by("ablation", "One thing only") == []


def test_placeholders_are_never_cut_and_nothing_is_left_empty() -> None:
    assert left_by("ablation", "Sort {{input.ticket}}.\nBe quick.\n") == ["Sort {{input.ticket}}.\n"]
    assert left_by("duplicates", "Sort this one ticket now.", ("Sort this one ticket now.",)) == []


def test_the_same_cut_is_offered_once() -> None:
    edits = edits_of({"s": "Rules.\n\nInput: a\nOutput: b\n"}, [], ["examples", "ablation"])
    assert [edit.strategy for edit in edits] == ["examples", "ablation"]
    assert len({edit.cuts for edit in edits}) == 2


def test_cuts_may_overlap_and_their_order_decides_nothing() -> None:
    assert without("abcdefgh", [Cut(4, 6), Cut(1, 3), Cut(2, 5)]) == "agh"
    assert without([1, 2, 3, 4], [Cut(3, 4), Cut(0, 1)]) == [2, 3]


TEXTS = some.lists(
    some.sampled_from(["Be kind to all people. ", "\n", "\n\n", "  ", "- a b c d\n", "{{input.x}} ", "Input: a\n"])
)


@given(TEXTS.map("".join), some.sampled_from(ALL))
def test_every_edit_leaves_a_shorter_text_with_all_placeholders(text: str, strategy: Strategy) -> None:
    for edit in edits_of({"s": text}, ["Be kind to all people."], [strategy]):
        left = without(text, edit.cuts)
        assert isinstance(left, str)
        assert 0 < len(left.strip()) <= len(left) < len(text)
        assert set(placeholders(left)) == set(placeholders(text))


@given(TEXTS.map("".join))
def test_white_space_is_taken_out_at_once_and_words_stay(text: str) -> None:
    for left in left_by("whitespace", text):
        assert isinstance(left, str)
        assert left.split() == text.split()
        assert left_by("whitespace", left) == []


@pytest.mark.parametrize(
    "text",
    [" " * 99_999 + "x", "x" + "\n" * 99_999 + "x", "<example>" * 11_000, "```" * 33_000, "a b c d. " * 11_000, "-" * 100_000],
    ids=["spaces", "lines", "tags", "code", "sentences", "dashes"],
)
def test_hostile_texts_take_no_more_time_than_others(text: str) -> None:
    began = time.process_time()
    edits_of({"s": text}, [], ALL)
    assert time.process_time() - began < 5
