"""Agents: no effect happens twice, only turns in flight are asked for again, and no conversation stays beside its answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tests.system.soak.answer_checks import HARMLESS, LONGEST_UNTIL_STORED
from tests.system.soak.recorded_history import History, Row, Violation


def effects_happen_once(history: History) -> Iterator[Violation]:
    """A tool with effects is called once for each place in a conversation, whoever is killed."""
    called: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for line in history.calls:
        if line["what"] == "effect":
            called[line["run"], line["config"], line["item"], line["replicate"], line["amount"]].append(line)
    for (run, config, item, replicate, _), lines in called.items():
        if len(lines) > 1:
            told = f"{config[:12]} {item} #{replicate} paid {len(lines)} times"
            yield Violation("effect twice", run, told, float(lines[1]["at"]))


def turns_are_repeated_by_faults_alone(history: History) -> Iterator[Violation]:
    """A turn that the model has answered is asked for again only if a fault came before it can have been stored."""
    said: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for line in sorted((one for one in history.calls if one["what"] == "turn"), key=lambda one: float(one["at"])):
        said[line["run"], line["x"], line["item"], line["turn"]].append(line)
    faults = [fault for fault in history.faults if fault["kind"] not in HARMLESS]
    for (run, x, item, turn), lines in said.items():
        for before, after in pairwise(lines):
            latest = min(after["at"], before["until"] + LONGEST_UNTIL_STORED)
            if not any(fault["at"] <= latest and fault["until"] >= before["at"] for fault in faults):
                told = f"x={x} {item}, turn {turn} was asked for again, and nothing had happened"
                yield Violation("turn paid twice", run, told, float(after["at"]))


def turns_go_with_their_answer(history: History) -> Iterator[Violation]:
    """Once an answer is stored its turns are in its trace, and nowhere else."""
    key = ("run_id", "config_hash", "target", "item_hash", "replicate")
    answered = {tuple(row[name] for name in key) for row in history.tables["answers"]}
    for row in history.rows("turns"):
        if tuple(row[name] for name in key) in answered:
            yield Violation("turns left over", row["run_id"], f"{row['config_hash'][:12]}, turn {row['turn']}")
