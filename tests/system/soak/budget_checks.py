"""Budgets of runs and of teams are never over: by what the store counts, and by what the targets' own log counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.system.soak.recorded_history import History, Row, Violation, same


def budgets_hold(history: History) -> Iterator[Violation]:
    """What was spent and lost stays within every limit, unless a call took more than it was said to take at most."""
    begun = Counter[str]()
    for key, tried in history.attempts().items():
        begun[key[0]] += sum(one.can_be_paid for one in tried)
    for row in history.tables["budgets"]:
        run_id = row["run_id"]
        for kind in ("samples", "tokens", "cost"):
            limit, taken = row[f"limit_{kind}"], row[f"spent_{kind}"] + row[f"lost_{kind}"]
            if limit and taken > limit + 1e-9 and not row["exceeded"]:
                yield Violation("budget over", run_id, f"{taken} {kind} taken, {limit} allowed")
        if row["limit_samples"] and begun[run_id] > row["limit_samples"]:
            yield Violation("budget over", run_id, f"{begun[run_id]} calls in the log, {row['limit_samples']} allowed")
        if begun[run_id] > row["spent_samples"] + row["lost_samples"]:
            told = f"{begun[run_id]} calls in the log, {row['spent_samples']} told as spent and {row['lost_samples']} as lost"
            yield Violation("call not accounted for", run_id, told)


def spending_is_that_of_answers(history: History) -> Iterator[Violation]:
    """As many samples are spent as there are answers that the run paid for; nothing is set aside any more."""
    paid = Counter(row["run_id"] for row in history.tables["answers"] if row["reused_from"] is None)
    over = {run["run_id"] for run in history.tables["runs"] if run["finished_at"] is not None}
    for row in history.tables["budgets"]:
        if row["run_id"] in over and row["spent_samples"] != paid[row["run_id"]]:
            told = f"{row['spent_samples']} samples spent, {paid[row['run_id']]} answers paid for"
            yield Violation("spending", row["run_id"], told)
    for lease in history.tables["budget_leases"]:
        if lease["run_id"] in over:
            yield Violation("lease left over", lease["run_id"], f"{lease['holder']} holds {lease['held_samples']} samples")


def team_months_hold(history: History) -> Iterator[Violation]:
    """What all runs of a team took together stays within what it has for a month, and is what its runs took one by one."""
    runs_of: dict[str, list[str]] = defaultdict(list)
    for row in history.rows("run_teams"):
        runs_of[row["team"]].append(row["run_id"])
    budgets = {row["run_id"]: row for row in history.tables["budgets"]}
    months: dict[str, list[Row]] = defaultdict(list)
    for row in history.rows("team_months"):
        months[row["team"]].append(row)
    begun = Counter(key[0] for key, tried in history.attempts().items() for one in tried if one.can_be_paid)
    for limits in history.rows("team_budgets"):
        team, runs = limits["team"], [run for run in runs_of[limits["team"]] if run in budgets]
        exceeded = any(budgets[run]["exceeded"] for run in runs)
        for kind in ("samples", "tokens", "cost"):
            taken = sum(budgets[run][f"spent_{kind}"] + budgets[run][f"lost_{kind}"] for run in runs)
            counted = [row[f"spent_{kind}"] + row[f"lost_{kind}"] for row in months[team]]
            for row, of_month in zip(months[team], counted, strict=True):
                if limits[f"limit_{kind}"] and of_month > limits[f"limit_{kind}"] + 1e-9 and not exceeded:
                    told = f"{of_month} {kind} taken in {row['month']}, {limits[f'limit_{kind}']} allowed"
                    yield Violation("team budget over", team, told)
            if not same(taken, sum(counted), 1e-6):
                told = f"{taken} {kind} taken by its runs, {sum(counted)} counted in its months"
                yield Violation("team month does not add up", team, told)
        called = sum(begun[run] for run in runs)
        counted_calls = sum(row["spent_samples"] + row["lost_samples"] for row in months[team])
        if called > counted_calls:
            yield Violation("call not accounted for", team, f"{called} calls in the log, {counted_calls} counted in its months")
