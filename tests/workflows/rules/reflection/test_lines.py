"""Texts as lines: nothing is lost between a text and its lines, and what is carried over finds its place."""

from __future__ import annotations

import pytest

from workflows.rules.reflection.lines import (
    additions_of,
    kept_share,
    keys_of,
    lines_of,
    recombined,
    text_of,
    with_placeholders_of,
)

LONG = "This paragraph was wrapped by whoever wrote it, so that it goes on"


@pytest.mark.parametrize(
    "text",
    ["", "one", "# Title\n\nDo this.\n- a\n- b\n\n\nend", "\n\nlate", "```\n{\n\n}\n```\nafter", f"{LONG}\nin the next line."],
)
def test_a_text_is_the_same_after_it_was_taken_apart(text: str) -> None:
    assert text_of(lines_of(text)) == text


def test_a_fenced_block_and_a_wrapped_paragraph_are_one_line_each() -> None:
    assert keys_of(lines_of("Say:\n```json\n{\n\n}\n```\nDone.")) == ["Say:", "```json { } ```", "Done."]
    assert len(lines_of(f"{LONG}\nin the next line.\nAnother rule.")) == 2
    assert len(lines_of("short rule\nanother short one")) == 2


def test_white_space_makes_no_difference_between_lines() -> None:
    assert keys_of(lines_of("  Be   brief. ")) == keys_of(lines_of("Be brief."))


def test_lines_are_left_out_and_carried_over_to_the_place_where_they_came_from() -> None:
    donor = lines_of("Title\nfirst\nnew\nlast")
    made = recombined(lines_of("Title\nfirst\nbad\nlast"), {"bad"}, additions_of(donor, {"new"}))
    assert text_of(made) == "Title\nfirst\nnew\nlast"


def test_a_line_whose_neighbours_are_unknown_comes_last_and_nothing_comes_twice() -> None:
    added = additions_of(lines_of("else\nnew\nnew"), {"new"})
    assert text_of(recombined(lines_of("a\nb"), (), [*added, *added])) == "a\nb\nnew"


def test_a_lost_placeholder_comes_back_with_its_line() -> None:
    given = "Be brief.\n\nQuestion: {{input.q}}"
    assert with_placeholders_of(given, "Be very brief.") == "Be very brief.\n\nQuestion: {{input.q}}"
    assert with_placeholders_of(given, "Q: {{input.q}}") == "Q: {{input.q}}"


def test_how_much_was_kept_tells_a_change_from_a_replacement() -> None:
    assert kept_share({"a", "b"}, {"b", "c"}) == 0.5
    assert kept_share((), {"c"}) == 1.0
