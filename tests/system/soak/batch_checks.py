"""Batches: no request is answered twice by the provider, and none is left there when its run is over."""

from __future__ import annotations

from collections.abc import Iterator

from tests.system.soak.recorded_history import History, Violation

OVER = {"taken", "lost", "withdrawn"}


def batched_requests_are_paid_once(history: History) -> Iterator[Violation]:
    """Whatever is killed: a request that the provider has answered in a batch never goes again."""
    batched = _batched_runs(history)
    for key, tried in history.attempts().items():
        answered = [one for one in tried if one.outcome == "answered"]
        if key[0] in batched and len(answered) > 1:
            told = f"x={key[1]} {key[2]} was answered {len(answered)} times in batches"
            yield Violation("batch paid twice", key[0], told, answered[1].begun)


def batches_are_taken(history: History) -> Iterator[Violation]:
    """Of a run that is over no batch is on its way, and what was answered is stored, whether the run was cancelled or not."""
    over = {run["run_id"] for run in history.tables["runs"] if run["finished_at"] is not None}
    paid, batched = history.paid_answers(), _batched_runs(history)
    for row in history.rows("batches"):
        if row["run_id"] in over and row["state"] not in OVER:
            yield Violation("batch left open", row["run_id"], f"{row['provider_id']} of {row['trial_id']} is {row['state']}")
    for key, tried in history.attempts().items():
        if key[0] in batched & over and key not in paid and any(one.outcome == "answered" for one in tried):
            yield Violation(
                "batched answer lost", key[0], f"x={key[1]} {key[2]} was answered and is not stored", tried[-1].over
            )


def _batched_runs(history: History) -> set[str]:
    runs = history.tables["runs"]
    return {run["run_id"] for run in runs if run["spec"].get("execution", {}).get("mode") == "batch"}
