"""What a policy asks for: by age, by size, oldest first, texts before decisions, and nothing of what is kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.rules.retention_policy import (
    EXAMPLE,
    STAGES,
    YOUNGEST,
    BadRetention,
    RetentionPolicy,
    SizedRun,
    parse_retention,
    retention_plan,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def run(days: float, name: str = "", **changes: object) -> SizedRun:
    """A run that ended so many days ago."""
    found = SizedRun(name or f"{days:g}", NOW - timedelta(days=days), answers=10, text_bytes=1000, answer_bytes=500)
    return replace(found, **changes)  # type: ignore[arg-type]


def asked(policy: str, *runs: SizedRun) -> list[tuple[str, str, str]]:
    return [(one.run_id, one.removed, one.policy) for one in retention_plan(parse_retention(policy), runs, NOW).due]


def test_a_policy_is_read_and_told_in_its_own_words() -> None:
    policy = parse_retention(f" {EXAMPLE.replace(',', ' , ')} ")
    assert policy.words == EXAMPLE
    assert [(rule.removed, rule.age.days) for rule in policy.rules] == [("texts", 30), ("answers", 180), ("runs", 730)]
    assert policy.size == 200 * 10**9
    assert parse_retention("runs=8w,texts=12h").words == "texts=12h,runs=8w"
    assert not RetentionPolicy()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "'' is no rule"),
        ("text=30d", "'text=30d' is no rule; write texts, answers, runs or size"),
        ("texts", "'texts' is no rule"),
        ("texts=30d,", "'' is no rule"),
        ("texts=30", "'texts=30' has no age"),
        ("texts=0d", "'texts=0d' has no age"),
        ("texts=-3d", "has no age"),
        ("texts=999999d", "has no age between 1h and 36500d"),
        ("texts=30d,texts=40d", "texts is stated twice"),
        ("size=1GB,size=2GB", "size is stated twice"),
        ("size=200", "'size=200' has no size"),
        ("size=0GB", "'size=0GB' has no size"),
        ("size=1.5GB", "has no size"),
        ("answers=30d,texts=60d", "answers=30d is sooner than texts=60d; answers go last"),
        ("texts=30d,runs=2w", "runs=2w is sooner than texts=30d"),
        ("texts=٣d", "has no age"),
    ],
)
def test_what_cannot_be_meant_is_named(text: str, told: str) -> None:
    with pytest.raises(BadRetention) as refused:
        parse_retention(text)
    assert told in str(refused.value)


def test_each_run_loses_what_its_age_asks_for_once() -> None:
    policy = "texts=30d,answers=180d,runs=730d"
    runs = [run(29), run(30), run(40, has_texts=False), run(200), run(300, has_answers=False), run(800)]
    assert asked(policy, *runs) == [
        ("30", "texts", "texts=30d"),
        ("200", "answers", "answers=180d"),
        ("800", "runs", "runs=730d"),
    ]


def test_what_is_kept_loses_nothing_however_old_it_is_and_however_full_the_store() -> None:
    held = run(5000, kept="held for 'legal'")
    plan = retention_plan(parse_retention("texts=1d,runs=2d,size=1MB"), [held], NOW)
    assert plan.due == ()
    plan = retention_plan(parse_retention("size=1MB"), [replace(held, text_bytes=3 * 10**6)], NOW)
    assert (plan.due, plan.over_by) == ((), 2 * 10**6 + 500)


def test_a_full_store_loses_the_oldest_texts_first_then_the_oldest_answers_and_never_decisions() -> None:
    large = [run(days, text_bytes=10**6, answer_bytes=10**6) for days in (3, 2, 4)]
    assert asked("size=5MB", *large) == [("4", "texts", "size=5MB")]
    assert asked("size=2MB", *large) == [
        ("3", "texts", "size=2MB"),
        ("2", "texts", "size=2MB"),
        ("4", "answers", "size=2MB"),
    ]
    young = run(0.5, text_bytes=9 * 10**6)
    assert asked("size=1MB", young) == []
    plan = retention_plan(parse_retention("texts=3d,size=1MB"), [run(4, text_bytes=10**6, answer_bytes=2 * 10**6)], NOW)
    assert [(one.removed, one.bytes) for one in plan.due] == [("answers", 3 * 10**6)]


some_runs = st.lists(
    st.builds(
        run,
        st.integers(0, 60),
        st.uuids().map(str),
        text_bytes=st.integers(0, 10**6),
        answer_bytes=st.integers(0, 10**6),
        kept=st.sampled_from(["", "", "held"]),
        has_texts=st.booleans(),
        has_answers=st.booleans(),
    ),
    max_size=8,
)


@given(some_runs, st.sampled_from(["size=1MB", "texts=5d,size=2MB", "texts=5d,answers=20d,runs=50d", "answers=1d"]))
def test_a_plan_is_carried_out_once_and_then_asks_for_nothing_more(runs: list[SizedRun], text: str) -> None:
    policy = parse_retention(text)
    runs = [one if one.has_answers else replace(one, has_texts=False, text_bytes=0, answer_bytes=0) for one in runs]
    runs = [one if one.has_texts else replace(one, text_bytes=0) for one in runs]
    plan = retention_plan(policy, runs, NOW)
    due = {one.run_id: one.removed for one in plan.due}
    assert len(due) == len(plan.due), "each run loses one thing at a time"
    assert [one.removed for one in plan.due] == sorted((one.removed for one in plan.due), key=STAGES.index)
    left = []
    for one in runs:
        removed = due.get(one.run_id)
        assert removed is None or (not one.kept and NOW - one.ended_at >= YOUNGEST)
        if removed == "texts":
            left.append(replace(one, has_texts=False, text_bytes=0))
        elif removed == "answers":
            left.append(replace(one, has_texts=False, has_answers=False, answers=0, text_bytes=0, answer_bytes=0))
        elif removed is None:
            left.append(one)
    again = retention_plan(policy, left, NOW)
    assert (again.due, again.over_by) == ((), plan.over_by)
