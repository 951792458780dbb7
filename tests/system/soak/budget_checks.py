"""Budgets are never over: by what the store counts, and by what the targets' own log counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.system.soak.recorded_history import History, Violation


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
