"""What a soak comes to, in Markdown: faults by kind, runs by optimizer and target, growth, and every violation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from tests.system.soak.answer_checks import answers_are_kept, repeats_are_told, repeats_have_a_fault
from tests.system.soak.batch_checks import batched_requests_are_paid_once, batches_are_taken
from tests.system.soak.budget_checks import budgets_hold, spending_is_that_of_answers, team_months_hold
from tests.system.soak.decision_checks import best_follows_from_scores, scores_follow_from_answers, verdicts_follow_from_means
from tests.system.soak.ending_checks import events_are_in_order, runs_ended, temporal_agrees
from tests.system.soak.growth_checks import WARM_UP, growth_of, memory_and_connections_are_flat, nothing_is_left
from tests.system.soak.recorded_history import Check, History, Row, Violation
from tests.system.soak.release_checks import releases_are_decided, tags_are_linear
from tests.system.soak.turn_checks import effects_happen_once, turns_are_repeated_by_faults_alone, turns_go_with_their_answer

CHECKS: tuple[Check, ...] = (
    answers_are_kept,
    repeats_have_a_fault,
    repeats_are_told,
    scores_follow_from_answers,
    best_follows_from_scores,
    verdicts_follow_from_means,
    budgets_hold,
    spending_is_that_of_answers,
    team_months_hold,
    batched_requests_are_paid_once,
    batches_are_taken,
    effects_happen_once,
    turns_are_repeated_by_faults_alone,
    turns_go_with_their_answer,
    tags_are_linear,
    releases_are_decided,
    runs_ended,
    temporal_agrees,
    events_are_in_order,
    memory_and_connections_are_flat,
    nothing_is_left,
)


def violations_of(history: History) -> list[Violation]:
    """Everything that any check finds."""
    return [violation for check in CHECKS for violation in check(history)]


def report_of(
    history: History, violations: Sequence[Violation], *, seed: int, minutes: float, began: float, skipped: dict[str, str]
) -> str:
    """The report; `minutes` are those of faults."""
    faults = history.faults
    under_way = sum(fault["in_flight"] > 0 for fault in faults)
    attempts = history.attempts()
    calls, repeated = sum(map(len, attempts.values())), sum(len(tried) - 1 for tried in attempts.values())
    lines = [
        f"# Soak of {minutes:g} minutes, seed {seed}",
        "",
        f"{len(faults)} faults, {under_way} of them while calls were under way; {len(history.tables['runs'])} runs,"
        f" {calls} logged calls, {repeated} of them repeated; {len(history.tables['answers'])} answers stored."
        f" **{len(violations)} violations.**",
        "",
        "## Faults",
        "",
        "| kind | times | with calls under way | longest |",
        "|---|---|---|---|",
        *(_fault_line(kind, rows) for kind, rows in sorted(_by_kind(faults).items())),
        *(f"| {kind} | skipped: {why} | | |" for kind, why in skipped.items()),
        "",
        "## Runs",
        "",
        "| optimizer and target | runs | ended as |",
        "|---|---|---|",
        *_run_lines(history.tables["runs"]),
        "",
        "## Growth",
        "",
        *_growth_lines(history),
        "",
        "## Violations",
        "",
        *([f"- {_told(one, began)}" for one in violations] or ["None."]),
    ]
    return "\n".join(lines) + "\n"


def _by_kind(faults: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for fault in faults:
        found[fault["kind"]].append(fault)
    return found


def _fault_line(kind: str, rows: Sequence[Row]) -> str:
    longest = max(row["until"] - row["at"] for row in rows)
    return f"| {kind} | {len(rows)} | {sum(row['in_flight'] > 0 for row in rows)} | {longest:.1f} s |"


def _run_lines(runs: Sequence[Row]) -> list[str]:
    by_design: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        by_design[run["name"].rpartition("-")[0] or run["name"]][f"{run['status']} ({run['stop_reason']})"] += 1
    return [
        f"| {name} | {ends.total()} | {', '.join(f'{count} × {end}' for end, count in ends.most_common())} |"
        for name, ends in sorted(by_design.items())
    ]


def _growth_lines(history: History) -> list[str]:
    lines = []
    for name in ("steady_rss_mb", "connections"):
        points = [(point["at"], float(point[name])) for point in history.series if point.get(name) is not None]
        if len(points) > 1:
            later = points[int(len(points) * WARM_UP) :]
            growth, mean = growth_of(later)
            first, last, most = points[0][1], points[-1][1], max(value for _, value in points)
            lines.append(
                f"- {name}: first {first:.0f}, last {last:.0f}, most {most:.0f}; mean of the second half {mean:.0f},"
                f" fitted growth {growth:+.1f} over {len(later)} points"
            )
    left = history.left_over
    lines.append(
        f"- left over: {len(left.get('processes', []))} processes, {left.get('connections', 0)} connections,"
        f" {len(left.get('files', []))} files after {left.get('killed_workers', 0)} killed workers"
    )
    return lines


def _told(one: Violation, began: float) -> str:
    at = "" if one.at is None else f" at {one.at - began:.1f} s"
    return f"**{one.check}**, `{one.run_id}`{at}: {one.what}"
