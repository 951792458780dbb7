"""The metrics of a run, in one place: what each counts, what splits it, and who shows it.

Workflows, activities and the HTTP side record them with the meter of Temporal's SDK. So they come out where the SDK's own do,
by the same settings, and nothing is counted again when a workflow replays. What splits a metric has few values, all known
beforehand: never the id of a run or a sample, nor a text that a spec is free in.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from temporalio.common import MetricCounter, MetricHistogramFloat, MetricMeter

from ratchet.optimizer import StopReason, TrialStatus
from workflows.model.spec.judgement import Verdict

ShownBy = Literal["workers that decide", "workers that evaluate", "servers of the page"]

OTHER: Final = "other"
"""Stands for every model that the operator does not name."""

CALLS: Final = ("chat", "embeddings", "http", "python", "tool", "elsewhere")
"""Where an answer is asked for. Tool: what an agent calls. Elsewhere: by an activity of others, or an external runner."""

OUTCOMES: Final = ("answered", "failed", "throttled", "unreachable", "refused", "given_up")
"""How a call ended. Failed: an answer came that cannot be used, or the code raised. Given up: nobody waited for its end."""

SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
COSTS: Final = (0.00001, 0.0001, 0.001, 0.01, 0.1, 1.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: a counter, or with `buckets` a histogram."""

    name: str
    meaning: str
    shown_by: ShownBy
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What splits it, with the values there are; none where the operator or a registry says them."""
    buckets: tuple[float, ...] = ()

    @property
    def shown_as(self) -> str:
        """Its name where Prometheus reads it."""
        return self.name if self.buckets else f"{self.name}_total"


ANSWERS: Final = Metric(
    "ratchet_answers",
    "Answers that were stored. Failed ones were answered, too, with something that cannot be used.",
    "workers that evaluate",
    {"target": (), "status": ("answered", "failed")},
)
ANSWERS_FOUND: Final = Metric(
    "ratchet_answers_found", "Answers that were in the store already, and were not paid again.", "workers that evaluate"
)
ANSWERS_MISSING: Final = Metric(
    "ratchet_answers_missing", "Samples that a shard left without an answer, through nobody's fault.", "workers that evaluate"
)
SCORES: Final = Metric(
    "ratchet_scores",
    "Answers that were scored, and those that a scorer failed on, which are kept.",
    "workers that evaluate",
    {"status": ("scored", "failed")},
)
TRIALS: Final = Metric("ratchet_trials", "Trials that ended.", "workers that evaluate", {"status": get_args(TrialStatus)})
CALL_SECONDS: Final = Metric(
    "ratchet_call_duration_seconds",
    "What one call took, from its beginning to its end; each try counts.",
    "workers that evaluate",
    {"call": CALLS, "outcome": OUTCOMES},
    SECONDS,
)
TOKENS: Final = Metric(
    "ratchet_tokens",
    "Tokens that calls took, where the endpoint says so; unsplit where it does not say which way.",
    "workers that evaluate",
    {"call": CALLS, "direction": ("input", "output", "unsplit"), "model": ()},
)
CALL_COST: Final = Metric(
    "ratchet_call_cost",
    "What one call cost, by the prices of its spec; the sum is what was spent.",
    "workers that evaluate",
    {"call": CALLS, "model": ()},
    COSTS,
)
GATE_WAIT: Final = Metric(
    "ratchet_gate_wait_seconds",
    "How long a call waited for the limits and the learned pace of its endpoint.",
    "workers that evaluate",
    {"model": ()},
    SECONDS,
)
RESERVATIONS: Final = Metric(
    "ratchet_reservations",
    "Budget that was set aside before calls, and what was refused because too little was left.",
    "workers that evaluate",
    {"result": ("granted", "refused")},
)
RESERVATION_WAIT: Final = Metric(
    "ratchet_reservation_wait_seconds",
    "How long those that had to wait for budget waited, until it was granted or refused.",
    "workers that evaluate",
    {},
    SECONDS,
)
LOST_CALLS: Final = Metric(
    "ratchet_lost_calls",
    "Calls that were begun and left no answer, such as by a worker that was killed; most are made and paid again.",
    "workers that evaluate",
)
ROUNDS: Final = Metric(
    "ratchet_rounds", "Rounds that were decided, round 0 among them.", "workers that decide", {"optimizer": ()}
)
VERDICTS: Final = Metric(
    "ratchet_verdicts",
    "Verdicts on candidates.",
    "workers that decide",
    {"optimizer": (), "verdict": tuple(map(str, Verdict))},
)
RUNS_BEGUN: Final = Metric("ratchet_runs_begun", "Runs that were prepared.", "workers that decide", {"optimizer": ()})
RUNS_ENDED: Final = Metric(
    "ratchet_runs_ended",
    "Runs that ended by themselves, by how and why. Not counted: specs that were refused, and runs that were terminated.",
    "workers that decide",
    {"optimizer": (), "status": ("completed", "failed", "cancelled"), "reason": tuple(map(str, StopReason))},
)
EVENT_LAG: Final = Metric(
    "ratchet_event_lag_seconds",
    "From the moment that an event was stored to when whoever follows its run is shown it.",
    "servers of the page",
    {},
    SECONDS,
)

METRICS: Final = (
    ANSWERS,
    ANSWERS_FOUND,
    ANSWERS_MISSING,
    SCORES,
    TRIALS,
    CALL_SECONDS,
    TOKENS,
    CALL_COST,
    GATE_WAIT,
    RESERVATIONS,
    RESERVATION_WAIT,
    LOST_CALLS,
    RUNS_BEGUN,
    ROUNDS,
    VERDICTS,
    RUNS_ENDED,
    EVENT_LAG,
)
"""In the order in which they are documented."""


class Count:
    """A counter of one meter. It makes what Temporal's SDK needs for each way to split it once, since that costs as much as
    counting."""

    def __init__(self, meter: MetricMeter, metric: Metric) -> None:
        self._metric = metric
        self._counter = meter.create_counter(metric.name, metric.meaning)
        self._split: dict[tuple[str, ...], MetricCounter] = {}

    def add(self, number: int, *labels: str) -> None:
        """Count so many, with a value for each label."""
        split = self._split.get(labels)
        if split is None:
            split = self._split[labels] = self._counter.with_additional_attributes(_named(self._metric, labels))
        split.add(number)

    def begin_at_zero(self, **named: Sequence[str]) -> None:
        """Show every value of its labels from the start: what first appears as 1 did not grow, for whoever watches it."""
        values = [named.get(label, known) for label, known in self._metric.labels.items()]
        for labels in itertools.product(*values):
            self.add(0, *labels)


class Spread:
    """A histogram of one meter, of durations or amounts."""

    def __init__(self, meter: MetricMeter, metric: Metric) -> None:
        self._metric = metric
        self._histogram = meter.create_histogram_float(metric.name, metric.meaning)
        self._split: dict[tuple[str, ...], MetricHistogramFloat] = {}

    def record(self, value: float, *labels: str) -> None:
        """Take one value in, with a value for each label."""
        split = self._split.get(labels)
        if split is None:
            split = self._split[labels] = self._histogram.with_additional_attributes(_named(self._metric, labels))
        split.record(value)


def _named(metric: Metric, labels: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(metric.labels, labels, strict=True))
