"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from workflows.model.spec.durations import Duration, parse_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (90, 90),
        (0, 0),
        (1.5, 1.5),
        ("90", 90),
        ("1.5", 1.5),
        ("90s", 90),
        ("15m", 900),
        ("2h", 7200),
        ("1d", 86400),
        ("1h30m", 5400),
        ("1h 30m 5s", 5405),
        (" 250ms ", 0.25),
        ("0.5h", 1800),
        ("365d", 31_536_000),
        (timedelta(seconds=3), 3),
    ],
)
def test_what_people_write_is_understood(written: Any, seconds: float) -> None:
    assert parse_duration(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "written",
    [
        *["", "soon", "-5s", "5 apples", "1hh", "h", "1,5h", "5s later", "1e3", "inf", "-1", "1h-30m", "1.h"],
        *[None, True, [], {}, "9" * 41 + "s"],
    ],
)
def test_what_is_no_duration_is_refused_with_examples(written: Any) -> None:
    with pytest.raises(ValueError, match="is not a duration; write seconds or text such as 90s, 15m, 2h"):
        parse_duration(written)


@pytest.mark.parametrize("written", ["366d", "9000h", -1, -0.5, timedelta(days=-1), timedelta(days=366), "999999999"])
def test_a_duration_is_between_0_and_a_year(written: Any) -> None:
    with pytest.raises(ValueError, match="is not a duration between 0 and 365 days"):
        parse_duration(written)


@pytest.mark.parametrize("written", [float("nan"), float("inf"), 10**400, 1e300])
def test_numbers_that_are_no_time_are_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="is not a duration between 0 and 365 days"):
        parse_duration(written)


@pytest.mark.parametrize("written", ["9999999999999999d", "99999999999999999999999s"])
def test_absurdly_long_durations_are_refused(written: str) -> None:
    with pytest.raises(ValueError, match="is not a duration between 0 and 365 days"):
        parse_duration(written)


@given(st.integers(min_value=0, max_value=365 * 24 * 3600 * 1_000_000))
def test_a_duration_survives_the_wire(microseconds: int) -> None:
    adapter: TypeAdapter[timedelta] = TypeAdapter(Duration)
    duration = timedelta(microseconds=microseconds)
    assert adapter.validate_json(adapter.dump_json(duration)) == duration


@given(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_units_add_up(hours: int, minutes: int, seconds: int) -> None:
    assert parse_duration(f"{hours}h{minutes}m{seconds}s") == timedelta(hours=hours, minutes=minutes, seconds=seconds)


def test_a_refused_duration_is_a_validation_error_of_its_field() -> None:
    with pytest.raises(ValidationError, match="is not a duration"):
        TypeAdapter(Duration).validate_python("soon")
