"""No answer is lost, and none is paid twice beyond what was in flight; whatever is repeated is told."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.system.soak.recorded_history import Attempt, CallKey, History, Row, Violation

HARMLESS = {"throttle", "refuse", "lie"}
"""Faults that lose no call: what they do to one stands in the log itself."""

LONGEST_UNTIL_STORED = 10.0
"""Seconds that an answer may wait for a store that has just come back. What was answered longer ago is not in flight."""


def answers_are_kept(history: History) -> Iterator[Violation]:
    """What was answered, and was counted, is in the store; and nothing is in the store that nobody answered."""
    paid, attempts = history.paid_answers(), history.attempts()
    whole, logged = _whole_trials(history), _logged_runs(history)
    placed = {row["config_hash"]: str(row["configuration"].get("x")) for row in history.tables["overlays"]}
    for key, tried in attempts.items():
        if tried[-1].outcome == "answered" and key not in paid and key[:2] in whole:
            yield Violation("answer lost", key[0], f"{_told(key)} was answered and is not stored", tried[-1].over)
    for key, row in paid.items():
        asked_by_endpoint = key[3] == -1
        if asked_by_endpoint or row["status"] != "answered":
            continue
        tried = [*attempts.get(key, []), *attempts.get((key[0], placed.get(key[1], ""), key[2], -1), [])]
        if not any(one.outcome == "answered" for one in tried) and key[0] in logged:
            yield Violation("answer from nowhere", key[0], f"{_told(key)} is stored, and no target answered it")


def repeats_have_a_fault(history: History) -> Iterator[Violation]:
    """Who asks again was in the way of a fault; and of one fault, a run asks again at most as much as it has in flight."""
    most = {run["run_id"]: run["spec"].get("execution", {}).get("concurrent_samples", 16) for run in history.tables["runs"]}
    blamed: Counter[tuple[str, int]] = Counter()
    faults = [fault for fault in history.faults if fault["kind"] not in HARMLESS]
    for key, tried in history.attempts().items():
        for before, after in pairwise(tried):
            if before.outcome in {"refused", "failed", "lied", "left"}:
                continue
            latest = math.inf if before.over is None else before.over + LONGEST_UNTIL_STORED
            between = [n for n, f in enumerate(faults) if f["at"] <= min(after.begun, latest) and f["until"] >= before.begun]
            if not between:
                yield Violation("paid twice", key[0], f"{_told(key)} was asked again, and nothing had happened", after.begun)
                continue
            blamed[key[0], between[0]] += 1
    for (run_id, number), count in blamed.items():
        fault = faults[number]
        if count > most.get(run_id, 16) * fault.get("callers", 1):
            told = f"{count} calls repeated by {fault['kind']} of {fault['victim']}, {most.get(run_id, 16)} may be in flight"
            yield Violation("more repeated than in flight", run_id, told, fault["at"])


def repeats_are_told(history: History) -> Iterator[Violation]:
    """What was asked and gave no answer of its own counts as lost, or more does."""
    lost = {row["run_id"]: row["lost_samples"] for row in history.tables["budgets"]}
    paid = history.paid_answers()
    over: dict[str, int] = defaultdict(int)
    for key, tried in history.attempts().items():
        answers = 1 if key in paid else 0
        over[key[0]] += max(0, sum(one.can_be_paid and one.outcome in {"answered", "open"} for one in tried) - answers)
    for run_id, count in over.items():
        if run_id in lost and count > lost[run_id]:
            yield Violation("repeats not told", run_id, f"{count} calls gave no answer, {lost[run_id]} are told as lost")


def _whole_trials(history: History) -> set[tuple[str, str]]:
    """Runs with their configurations, by hash and by `x`, of which every answer counts."""
    x = {row["config_hash"]: str(row["configuration"].get("x")) for row in history.tables["overlays"]}
    trials: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in history.tables["trials"]:
        trials[row["run_id"], row["config_hash"]].append(row)
    found = set()
    for (run_id, config), rows in trials.items():
        if all(row["status"] == "completed" and not row["exhausted"] and not row["stopped_early"] for row in rows):
            found |= {(run_id, config), (run_id, x.get(config, ""))}
    return found


def _logged_runs(history: History) -> set[str]:
    """Those whose targets keep a log: not those of an external runner."""
    return {line["run"] for line in history.calls if line["what"] == "begun"}


def _told(key: CallKey) -> str:
    run_id, config, item, replicate = key
    return f"{run_id}: {config[:12]} {item}" + ("" if replicate < 0 else f" #{replicate}")


def in_flight(attempts: dict[CallKey, list[Attempt]], at: float) -> int:
    """How many calls were under way at a moment."""
    return sum(1 for tried in attempts.values() for one in tried if one.begun <= at and (one.over is None or one.over > at))
