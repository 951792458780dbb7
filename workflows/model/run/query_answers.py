"""What queries of a run answer, and its updates."""

from __future__ import annotations

from typing import Any

from ratchet._frozen import Payload
from workflows.model.run.rounds import Counts, RunStatus, Spend


class StopRule(Payload):
    """One stop rule and how near it is, from 0 (far) to 1 (triggered)."""

    rule: str
    nearness: float


class Progress(Payload):
    """The `progress` query."""

    optimization_id: str
    name: str
    status: RunStatus
    phase: str
    """What the run is doing, in words."""
    round: int
    counts: Counts
    best_candidate_id: str | None
    best_score: float | None
    baseline_score: float | None
    direction: str
    spend: Spend
    budget: dict[str, float]
    """The limits in force; 0 is unlimited."""
    elapsed_seconds: float
    trials_per_hour: float
    seconds_left: float | None
    """Until the rounds, or the first of the budgets, are used up at the rate of so far; a stop rule may end it sooner."""
    stop_rules: tuple[StopRule, ...]
    plan: str = ""
    """What the run can find out."""
    executions: int
    versions: dict[str, str]


class Newest(Payload):
    """A list query: totals, and the newest of what the store has in full."""

    total: int
    shown: int
    note: str = "the newest are shown; the whole is in the store: ratchet report ID --verbosity full"
    items: tuple[dict[str, Any], ...]


class Graph(Payload):
    """The `graph` query: true lineage, several parents included."""

    nodes: tuple[dict[str, Any], ...]
    edges: tuple[dict[str, str], ...]
    total: int
    note: str = "the newest trials are shown; the whole is in the store: ratchet report ID --verbosity full"


class UpdateAnswer(Payload):
    """What an update changed."""

    status: RunStatus
    message: str
