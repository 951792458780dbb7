"""What an endpoint's complaints teach about the rate it takes, shared by all workers.

Between two complaints of an endpoint that is asked for all it takes, it took what it takes: that many calls in that much time.
So each complaint gives an estimate, and from a little below it the rate climbs back: quickly at first, hardly at all near the
estimate, and beyond it the faster the longer nobody complains, because limits are raised, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

SLOWEST_RATE = 0.5

FIRST_RATE = 5.0
"""Calls per second after a complaint that comes before anything is known of the endpoint."""

ENOUGH_TO_JUDGE_BY = 20
"""Calls from which a rate can be told; fewer may just be a burst that the endpoint allows."""

SHORTEST_JUDGED = 0.5
"""Seconds of which the same holds."""

FIRST_SHARE = 0.5
"""Of what the endpoint took in the second before the first complaint, most of it perhaps a burst that it allows once."""

BELOW_THE_ESTIMATE = 0.95
DECREASE = 0.7
"""Where nothing better is known than that the rate was too high."""

LEAST_BETWEEN_DECREASES = 0.2
"""Seconds. Calls let in before the last decrease still come back with complaints."""

JOINING = 1.0
"""Seconds within which the first complaints of several workers are about the same rate."""

REMEMBERED = 4.0
"""Seconds of calls that an estimate is made of; older ones fade."""

USED_UP = 0.25
"""Of a rate, that must be used for the rate to climb: one that nobody uses says nothing."""

SURE = 1.3
"""An estimate is one where the rate was hardly higher; otherwise the rate just climbed, and the endpoint may take more."""

QUICK, GENTLE = 2.0, 16.0
"""Seconds in which the rate climbs back to the estimate: after the first complaint, and after many that agree."""

BEYOND = 0.05
"""Of the estimate, that the rate has climbed beyond it after as many seconds again."""

CATCHING_UP = 0.05
"""Seconds of unused starts that may be used together later: endpoints that complain may allow no burst at all."""

LONGEST_STEP = 1.0
"""Seconds between two leases that count as used."""


Endpoint = tuple[str, str]
"""Base URL and model."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What is known of an endpoint since its last complaint."""

    revision: int
    lowest: float
    """Calls per second right after the complaint."""
    likely: float | None
    """What the endpoint probably takes; None when there was nothing to judge by."""
    recovery: float = QUICK
    used: float = 0.0
    """Seconds since the complaint in which the rate was used."""
    calls_let_in: float = 0.0
    """Calls in the last seconds, since the complaint from which on they are counted."""
    counted_seconds: float = 0.0
    """Seconds in which they were made."""

    @property
    def rate(self) -> float:
        """Calls per second, now."""
        if self.likely is None:
            return self.lowest * math.exp2(min(self.used, 30.0))
        way = self.used / self.recovery - 1.0
        if way < 0:
            return self.likely + (self.likely - self.lowest) * way**3
        return self.likely * (1.0 + BEYOND * way**3)

    @property
    def kept(self) -> float:
        """How much of the calls that are counted goes on counting."""
        return 0.5 if self.counted_seconds > REMEMBERED else 1.0

    @property
    def climbs(self) -> float:
        """How much of a second is a second of use."""
        return 1.0 if self.calls_let_in >= USED_UP * self.rate * self.counted_seconds else 0.0

    def used_by(self, calls: int, seconds: float) -> Learned:
        """After so many further calls in so much time; refused ones count below zero."""
        calls_let_in, counted_seconds = self.calls_let_in * self.kept + calls, self.counted_seconds * self.kept + seconds
        return replace(self, calls_let_in=calls_let_in, counted_seconds=counted_seconds, used=self.used + seconds * self.climbs)

    def joined_by(self, took: int) -> Learned:
        """The first complaint comes to all workers at once, and each knows only what it was calling itself."""
        return replace(self, lowest=self.lowest + took * FIRST_SHARE)

    def complained_again(self, ahead: float) -> Learned:
        """What another complaint teaches, about calls that were let in at this rate; `ahead` are seconds of calls that are
        counted and still to come."""
        rate = self.rate
        took = self.calls_let_in - ahead * rate
        if took <= 0:
            return self._lowered(rate, self.likely)
        if self.counted_seconds >= SHORTEST_JUDGED:
            rate = max(SLOWEST_RATE, min(rate, took / self.counted_seconds / USED_UP))
        if took < ENOUGH_TO_JUDGE_BY or self.counted_seconds < SHORTEST_JUDGED:
            return self._lowered(rate, rate)
        estimate = took / self.counted_seconds
        likely = (estimate + max(estimate, rate)) / 2
        lowest = max(estimate * BELOW_THE_ESTIMATE, rate / 2)
        sure = estimate * SURE > rate
        return Learned(self.revision + 1, lowest, likely, min(self.recovery * 2, GENTLE) if sure else QUICK)

    def _lowered(self, rate: float, likely: float | None) -> Learned:
        """Nothing better is known than that the rate was too high; calls are counted on."""
        lowest = max(SLOWEST_RATE, rate * DECREASE)
        likely = None if likely is None else max(lowest, likely)
        return replace(self, revision=self.revision + 1, lowest=lowest, likely=likely, recovery=QUICK, used=0.0)


def first_complaint(took: int) -> Learned:
    """What the first complaint teaches; the endpoint took so many calls in the second before it."""
    return Learned(1, max(FIRST_RATE, took * FIRST_SHARE), None)


@dataclass(frozen=True, slots=True)
class Throttle:
    """What one worker tells the others when an endpoint complains."""

    revision: int
    """Of what was known when the call was let in; 0 when nothing was."""
    took: int
    """Calls of this worker in the second before."""
    retry_after: float
    refused: int = 0
    """Further calls that were refused since the last lease."""


def after(known: Learned | None, throttle: Throttle, *, ahead: float, age: float, closed: float) -> Learned:
    """What is known after a complaint; `ahead` are seconds of starts that are leased and still to come, `age` are those since
    the complaint before that taught something, `closed` those to come in which nobody calls."""
    taught = _taught(known, throttle, ahead, age)
    return replace(taught, counted_seconds=taught.counted_seconds + closed)


def _taught(known: Learned | None, throttle: Throttle, ahead: float, age: float) -> Learned:
    if known is None:
        return first_complaint(throttle.took)
    if known.revision == throttle.revision and age >= LEAST_BETWEEN_DECREASES:
        return known.complained_again(ahead)
    if throttle.revision == 0 and known.revision == 1 and age < JOINING:
        return known.joined_by(throttle.took)
    return known
