"""What is removed of runs that are over, and when: texts of answers first, decisions last.

An operator states it in one line, such as `texts=30d,answers=180d,runs=730d,size=200GB`. What follows from it for the runs of a
store is a pure function, so that a dry run shows what a cleanup does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, Literal

Removed = Literal["texts", "answers", "runs"]
"""What goes. texts: what targets and scorers wrote. answers: the rest of answers and scores. runs: everything of a run."""

STAGES: Final[tuple[Removed, ...]] = ("texts", "answers", "runs")
EXAMPLE: Final = "texts=30d,answers=180d,runs=730d,size=200GB"
LONGEST_DAYS: Final = 36_500
YOUNGEST: Final = timedelta(days=1)
"""So long a run keeps everything, however full the store is."""

_AGE: Final = re.compile(r"([0-9]{1,6})([hdw])")
_UNITS: Final = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_SIZE: Final = re.compile(r"([0-9]{1,6})(MB|GB|TB)")
_BYTES: Final = {"MB": 10**6, "GB": 10**9, "TB": 10**12}


class BadRetention(ValueError):
    """A policy that cannot be meant; the message says which part, and what to write."""


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """One part of a policy: after an age, something goes."""

    removed: Removed
    age: timedelta
    words: str
    """As it was stated: `texts=30d`."""


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """All parts. Without any, nothing is ever removed."""

    rules: tuple[RetentionRule, ...] = ()
    """In the order of the stages."""
    size: int | None = None
    """Bytes that answers of runs that are over may take."""
    size_words: str = ""

    @property
    def words(self) -> str:
        """The policy in one line; empty where there is none."""
        return ",".join([*(rule.words for rule in self.rules), *([self.size_words] if self.size_words else [])])

    def __bool__(self) -> bool:
        return bool(self.rules) or self.size is not None


@dataclass(frozen=True, slots=True)
class SizedRun:
    """A run that is over, and what of it is there."""

    run_id: str
    ended_at: datetime
    answers: int
    text_bytes: int
    answer_bytes: int
    has_texts: bool = True
    has_answers: bool = True
    kept: str = ""
    """Why nothing of it may go now; empty where it may."""


@dataclass(frozen=True, slots=True)
class DueRemoval:
    """What goes of one run."""

    run_id: str
    removed: Removed
    policy: str
    """The rule that asks for it."""
    answers: int
    bytes: int
    """About."""


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """What a policy asks for now."""

    due: tuple[DueRemoval, ...]
    """Texts first, decisions last, and of each the oldest first."""
    bytes_before: int
    over_by: int = 0
    """Bytes beyond the size that nothing may be removed for."""


def parse_retention(text: str) -> RetentionPolicy:
    """Read a policy. Raise BadRetention for whatever cannot be meant."""
    rules: dict[Removed, RetentionRule] = {}
    size, size_words = None, ""
    for part in (part.strip() for part in text.split(",")):
        name, separator, value = (piece.strip() for piece in part.partition("="))
        if not separator or name not in (*STAGES, "size"):
            raise BadRetention(f"{part!r} is no rule; write texts, answers, runs or size, each with a value: {EXAMPLE}")
        if name in rules or (name == "size" and size is not None):
            raise BadRetention(f"{name} is stated twice; leave one of them out")
        words = f"{name}={value}"
        if name == "size":
            size, size_words = _size(value, words), words
        for stage in STAGES:
            if stage == name:
                rules[stage] = RetentionRule(stage, _age(value, words), words)
    ordered = tuple(rules[stage] for stage in STAGES if stage in rules)
    for earlier, later in pairwise(ordered):
        if later.age < earlier.age:
            raise BadRetention(f"{later.words} is sooner than {earlier.words}; {later.removed} go last: give them more time")
    return RetentionPolicy(ordered, size, size_words)


def _age(value: str, words: str) -> timedelta:
    found = _AGE.fullmatch(value)
    age = None if found is None else int(found[1]) * _UNITS[found[2]]
    if age is None or not timedelta(0) < age <= timedelta(days=LONGEST_DAYS):
        raise BadRetention(f"{words!r} has no age between 1h and {LONGEST_DAYS}d; write hours, days or weeks: 12h, 30d, 8w")
    return age


def _size(value: str, words: str) -> int:
    found = _SIZE.fullmatch(value)
    if found is None or not int(found[1]):
        raise BadRetention(f"{words!r} has no size; write whole MB, GB or TB: 500MB, 200GB")
    return int(found[1]) * _BYTES[found[2]]


def retention_plan(policy: RetentionPolicy, runs: Sequence[SizedRun], now: datetime) -> RetentionPlan:
    """Say what a policy asks for now: by age, and then by size, from the oldest run on."""
    oldest_first = sorted(runs, key=lambda run: (run.ended_at, run.run_id))
    before = sum(_size_of(run) for run in oldest_first)
    due: dict[str, DueRemoval] = {}
    left: list[SizedRun] = []
    for run in oldest_first:
        rule = next((rule for rule in reversed(policy.rules) if _asks_for(rule, run, now)), None)
        if rule is None:
            left.append(run)
        else:
            due[run.run_id] = _due(run, rule.removed, rule.words)
            left.extend(_what_stays(run, rule.removed))
    over = 0 if policy.size is None else _make_room(policy.size, policy.size_words, left, due, now)
    ordered = sorted(due.values(), key=lambda one: STAGES.index(one.removed))  # stable: the oldest stay first
    return RetentionPlan(tuple(ordered), before, over)


def _asks_for(rule: RetentionRule, run: SizedRun, now: datetime) -> bool:
    return not run.kept and run.ended_at <= now - rule.age and _is_there(run, rule.removed)


def _is_there(run: SizedRun, removed: Removed) -> bool:
    return {"texts": run.has_texts and run.has_answers, "answers": run.has_answers, "runs": True}[removed]


def _due(run: SizedRun, removed: Removed, policy: str) -> DueRemoval:
    size = run.text_bytes if removed == "texts" else _size_of(run)
    return DueRemoval(run.run_id, removed, policy, run.answers, size)


def _what_stays(run: SizedRun, removed: Removed) -> Iterator[SizedRun]:
    if removed == "texts":
        yield replace(run, has_texts=False, text_bytes=0)
    elif removed == "answers":
        yield replace(run, has_texts=False, has_answers=False, answers=0, text_bytes=0, answer_bytes=0)


def _make_room(size: int, words: str, runs: Sequence[SizedRun], due: dict[str, DueRemoval], now: datetime) -> int:
    """Add to `due` what goes because the store is too full: texts, then answers. What was decided is small, and stays.

    Return the bytes that are too many even then.
    """
    over = sum(_size_of(run) for run in runs) - size
    left = {run.run_id: run for run in runs}
    stages: tuple[Removed, ...] = ("texts", "answers")
    for stage in stages:
        for run in list(left.values()):
            if over <= 0:
                return 0
            if run.kept or run.ended_at > now - YOUNGEST or not _is_there(run, stage):
                continue
            one, earlier = _due(run, stage, words), due.get(run.run_id)
            due[run.run_id] = one if earlier is None else replace(one, bytes=one.bytes + earlier.bytes)
            [left[run.run_id]] = _what_stays(run, stage)
            over -= one.bytes
    return max(over, 0)


def _size_of(run: SizedRun) -> int:
    return run.text_bytes + run.answer_bytes
