"""Version numbers: by class of change, compared as numbers, never given twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.rules.releases.versions import FIRST, ChangeClass, ChangedPart, Version, changes, class_of, next_version

BASE = {"section:task": "Label.", "section:rules": "Be brief.", "param:limit": 0.3, "param:order": ["a", "b"]}


def test_numbers_are_compared_as_numbers() -> None:
    assert Version.parse("1.0.10") > Version.parse("v1.0.2")
    assert str(Version.parse("v10.0.2")) == "10.0.2"


@pytest.mark.parametrize("text", ["1.0", "1.0.0.0", "01.0.0", "1.0.x", "", "1.0.0\n", "-1.0.0", "1.0.1234567890"])
def test_what_is_no_version_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"write three numbers, e\.g\. 1\.2\.3"):
        Version.parse(text)


@pytest.mark.parametrize(
    ("other", "frozen", "change", "size"),
    [
        ({"param:limit": 0.4}, (), ChangedPart.VALUE, ChangeClass.PATCH),
        ({"param:order": ["b", "a"]}, (), ChangedPart.ORDER, ChangeClass.MINOR),
        ({"param:order": ["a", "c"]}, (), ChangedPart.VALUE, ChangeClass.PATCH),
        ({"section:rules": "Be kind."}, (), ChangedPart.TEXT, ChangeClass.MINOR),
        ({"section:task": "Sort."}, ("section:task",), ChangedPart.FROZEN, ChangeClass.MAJOR),
        ({"section:new": "More."}, (), ChangedPart.STRUCTURE, ChangeClass.MAJOR),
    ],
)
def test_every_change_has_a_class(
    other: dict[str, object], frozen: tuple[str, ...], change: ChangedPart, size: ChangeClass
) -> None:
    [(name, found)] = changes(BASE, BASE | other, frozen).items()
    assert (name, found) == (next(iter(other)), change)
    assert class_of([found]) is size


def test_the_largest_change_counts() -> None:
    found = changes(BASE, BASE | {"param:limit": 0.4, "section:rules": "Be kind."})
    assert class_of(found.values()) is ChangeClass.MINOR


def test_another_notation_of_a_number_is_no_change() -> None:
    assert changes({"param:steps": 1}, {"param:steps": 1.0}) == {}
    assert class_of([]) is None


def test_a_number_follows_its_base() -> None:
    assert str(next_version(FIRST, ChangeClass.PATCH, {FIRST})) == "1.0.1"
    assert str(next_version(FIRST, ChangeClass.MINOR, {FIRST})) == "1.1.0"
    assert str(next_version(FIRST, ChangeClass.MAJOR, {FIRST})) == "2.0.0"


def test_after_a_rollback_the_line_of_the_base_goes_on() -> None:
    taken = {Version(1, 0, 0), Version(1, 0, 1), Version(1, 1, 0), Version(2, 0, 0)}
    assert str(next_version(FIRST, ChangeClass.PATCH, taken)) == "1.0.2"
    assert str(next_version(FIRST, ChangeClass.MINOR, taken)) == "1.2.0"
    assert str(next_version(FIRST, ChangeClass.MAJOR, taken)) == "3.0.0"


numbers = st.builds(Version, st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))


@given(base=numbers, change=st.sampled_from(ChangeClass), taken=st.sets(numbers, max_size=30))
def test_no_number_comes_twice_and_each_comes_after_its_base(base: Version, change: ChangeClass, taken: set[Version]) -> None:
    number = next_version(base, change, taken | {base})
    assert number not in taken
    assert number > base
