"""What a worker that evaluates counts: answers, calls and what they take, waiting, and what was lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from temporalio.common import MetricMeter

from workflows.metrics import (
    ANSWERS,
    ANSWERS_FOUND,
    ANSWERS_MISSING,
    CALL_COST,
    CALL_SECONDS,
    GATE_WAIT,
    LOST_CALLS,
    OTHER,
    RESERVATION_WAIT,
    RESERVATIONS,
    SCORES,
    TOKENS,
    TRIALS,
    Count,
    Spread,
)
from workflows.model.suite import Outcome, UnscoredAnswer


class WorkerMeters:
    """The meters of one worker process. Without metrics Temporal's meter is one that does nothing, and so are they."""

    def __init__(self, meter: MetricMeter = MetricMeter.noop, models: Collection[str] = ()) -> None:
        """`models` are those that the operator names; all others share one label, since a spec may name any."""
        self._models = frozenset(models)
        self.answers = Count(meter, ANSWERS)
        self.answers_found = Count(meter, ANSWERS_FOUND)
        self.answers_missing = Count(meter, ANSWERS_MISSING)
        self.scores = Count(meter, SCORES)
        self.trials = Count(meter, TRIALS)
        self.call_seconds = Spread(meter, CALL_SECONDS)
        self.tokens = Count(meter, TOKENS)
        self.call_cost = Spread(meter, CALL_COST)
        self.gate_wait = Spread(meter, GATE_WAIT)
        self.reservations = Count(meter, RESERVATIONS)
        self.reservation_wait = Spread(meter, RESERVATION_WAIT)
        self.lost_calls = Count(meter, LOST_CALLS)

    def begin_at_zero(self, targets: Sequence[str]) -> None:
        """Show what can be counted before any of it happens."""
        self.answers.begin_at_zero(target=targets)
        for counter in (self.answers_found, self.answers_missing, self.scores, self.trials, self.reservations, self.lost_calls):
            counter.begin_at_zero()

    def model_label(self, model: str) -> str:
        """The model's name, where the operator gave it; few people name few models."""
        return model if model in self._models else OTHER

    def took(self, call: str, tokens: int, cost: float, model: str = OTHER, split: tuple[int, int] | None = None) -> None:
        """Count what a call took; `split` are its tokens in and out, where that is known."""
        read, written = split or (0, 0)
        for direction, number in (("input", read), ("output", written), ("unsplit", tokens - read - written)):
            if number > 0:
                self.tokens.add(number, call, direction, model)
        if tokens or cost:
            self.call_cost.record(cost, call, model)

    def waited_for_budget(self, seconds: float, result: str) -> None:
        """Count what had to wait to be set aside."""
        self.reservations.add(1, result)
        self.reservation_wait.record(seconds)

    def stored(self, target: str, batch: Sequence[Outcome | UnscoredAnswer], *, elsewhere: bool) -> None:
        """Count answers and scores that are in the store now; `elsewhere` says that no call of ours brought them."""
        answers, scores = Counter[str](), Counter[str]()
        for entry in batch:
            if isinstance(entry, UnscoredAnswer):
                answers["answered"] += 1
            else:
                if not entry.was_kept:
                    answers["failed" if entry.status == "failed" else "answered"] += 1
                if entry.status != "failed":
                    scores["failed" if entry.status == "unscored" else "scored"] += 1
            if elsewhere and (isinstance(entry, UnscoredAnswer) or not entry.was_kept):
                self.took("elsewhere", entry.tokens, entry.cost)
        for status, number in answers.items():
            self.answers.add(number, target, status)
        for status, number in scores.items():
            self.scores.add(number, status)


UNSEEN: Final = WorkerMeters()
"""Where nobody asked for metrics."""
