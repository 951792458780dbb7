"""Every run ended with a status and a reason, in the store as in Temporal, and its events tell it in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.system.soak.recorded_history import History, Row, Violation

ENDED = {"completed", "failed", "cancelled", "terminated"}
OPEN = {"initialized", "running", "paused"}
CLOSED_AS = {
    "completed": {"COMPLETED"},
    "failed": {"COMPLETED", "FAILED"},
    "cancelled": {"COMPLETED", "CANCELED"},
    "terminated": {"TERMINATED", "FAILED", "TIMED_OUT"},
}


def runs_ended(history: History) -> Iterator[Violation]:
    """With a status, a reason and a time; and none of their trials is under way."""
    for run in history.tables["runs"]:
        if run["status"] not in ENDED:
            yield Violation("run did not end", run["run_id"], f"it is {run['status']}")
        elif not run["stop_reason"] or run["finished_at"] is None:
            yield Violation("run without a reason", run["run_id"], f"{run['status']}, {run['stop_reason']!r}")
    for trial in history.tables["trials"]:
        if trial["status"] == "running":
            yield Violation("trial did not end", trial["run_id"], trial["trial_id"])


def temporal_agrees(history: History) -> Iterator[Violation]:
    """Whatever the store calls ended is closed in Temporal, in the same way, and nothing is open there that is not a writer."""
    status: dict[str, set[str]] = {}
    for one in history.executions:
        status.setdefault(one["id"], set()).add(one["status"])
    for run in history.tables["runs"]:
        found = status.get(run["run_id"], set()) - {"CONTINUED_AS_NEW"}
        if not found & CLOSED_AS.get(run["status"], {"RUNNING"}):
            told = f"{run['status']} in the store, {', '.join(sorted(found)) or 'unknown'} in Temporal"
            yield Violation("store and Temporal differ", run["run_id"], told)
    stored = {run["run_id"] for run in history.tables["runs"]}
    began = {line.get("run") for line in history.calls}
    began |= {one["id"].partition("/")[0] for one in history.executions if one["type"] == "TrialWorkflow"}
    for one in history.executions:
        if one["type"] in {"OptimizationWorkflow", "TrialWorkflow"} and one["status"] == "RUNNING":
            yield Violation("workflow left open", one["id"], one["type"])
        before_it_began = one["status"] == "CANCELED" and one["id"] not in began
        if one["type"] == "OptimizationWorkflow" and one["id"] not in stored and not before_it_began:
            yield Violation("store and Temporal differ", one["id"], f"{one['status']} in Temporal, not in the store")


def events_are_in_order(history: History) -> Iterator[Violation]:
    """Keys are unique, statuses follow from each other, rounds come in order, trials begin before they end, the end is last."""
    rows = history.of_run("events")
    rounds, trials = history.of_run("rounds"), history.of_run("trials")
    for run in history.tables["runs"]:
        run_id, events = run["run_id"], sorted(rows[run["run_id"]], key=lambda one: int(one["id"]))
        twice = [key for key, count in Counter(event["event_key"] for event in events).items() if count > 1]
        for key in twice:
            yield Violation("event told twice", run_id, key)
        told = [int(_key(event).split("/")[1]) for event in events if _key(event).startswith("progress/")]
        if told != sorted(told):
            yield Violation("events out of order", run_id, f"rounds {told}")
        if run["status"] in {"completed", "failed"} and (missing := {row["round"] for row in rounds[run_id]} - set(told)):
            yield Violation("round without event", run_id, f"{sorted(missing)}")
        yield from _statuses(run, events)
        yield from _trial_events(run_id, trials[run_id], events)


def _statuses(run: Row, events: list[Row]) -> Iterator[Violation]:
    status = None
    for event in (one for one in events if one["type"] == "run_status_changed"):
        before = event["payload"].get("before")
        if status is not None and before is not None and before != status:
            yield Violation("events out of order", run["run_id"], f"{event['event_key']} comes from {before}, it was {status}")
        status = event["payload"]["status"]
    if run["status"] in ENDED and status != run["status"]:
        yield Violation("events and row differ", run["run_id"], f"the last status told is {status}, the row is {run['status']}")
    finished = [place for place, event in enumerate(events) if event["type"] == "run_finished"]
    if run["status"] in ENDED and len(finished) != 1:
        yield Violation("end not told once", run["run_id"], f"{len(finished)} ends are told")


def _trial_events(run_id: str, trials: list[Row], events: list[Row]) -> Iterator[Violation]:
    place = {_key(event): number for number, event in enumerate(events)}
    for trial in trials:
        name = f"trial/{trial['purpose']}/{trial['candidate_id']}" + (f"/{trial['part']}" if trial["part"] else "")
        began = place.get(f"{name}/running")
        ended = place.get(f"{name}/{trial['status']}", place.get(f"{name}/{trial['status']}/rest"))
        if began is None or (trial["status"] != "running" and (ended is None or ended < began)):
            yield Violation("trial not told", run_id, f"{name}: {trial['status']}, begun at {began}, ended at {ended}")


def _key(event: Row) -> str:
    """Without the number of the run's start."""
    key: str = event["event_key"]
    return key.partition("/")[2]
