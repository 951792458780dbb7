"""What two configurations differ in, word by word, as people read it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clients.reports.comparisons.diff import differences, segments


def told(before: str, after: str) -> str:
    marks = {"same": "{}", "removed": "[-{}-]", "added": "[+{}+]"}
    return "".join(marks[segment.kind].format(segment.text) for segment in segments(before, after))


def test_a_changed_word_is_shown_within_its_line() -> None:
    assert (
        told("Sort the ticket.\nBe brief.", "Sort the ticket.\nBe friendly.") == "Sort the ticket.\nBe [-brief-][+friendly+]."
    )


def test_a_line_that_was_added_is_added_whole() -> None:
    assert told("One.\nThree.\n", "One.\nTwo.\nThree.\n") == "One.\n[+Two.\n+]Three.\n"


def test_words_that_two_rewritten_sentences_share_by_chance_count_as_rewritten() -> None:
    before = "Choose exactly one of these: billing, bug"
    after = "Your answer is just the label: nothing more"
    assert told(before, after) == f"[-{before}-][+{after}+]"


def test_what_is_no_text_is_compared_as_json_and_a_factor_of_one_side_only_is_told() -> None:
    found = differences({"n": [1, 2], "same": 2, "old": "x"}, {"n": [1, 3], "same": 2, "new": True})
    assert [change.factor for change in found] == ["n", "new", "old"]
    assert [part.text for part in found[0].segments if part.kind != "same"] == ["2", "3"]


@given(st.text("ab \n.", max_size=60), st.text("ab \n.", max_size=60))
def test_nothing_is_lost_on_either_side(before: str, after: str) -> None:
    found = segments(before, after)
    assert "".join(part.text for part in found if part.kind != "added") == before
    assert "".join(part.text for part in found if part.kind != "removed") == after
