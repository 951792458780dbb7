"""The run's time: since when it goes on, and how long it stood still, paused or served by nobody."""

from __future__ import annotations

from datetime import datetime, timedelta

from workflows.model.run.clock import RunClock, StoodStill


class RunTime:
    """What is known of it. What nobody served within a pause counts once."""

    def __init__(
        self,
        started_at: datetime,
        paused_for: timedelta = timedelta(0),
        unserved: timedelta | None = None,
        opened_in: timedelta = timedelta(0),
    ) -> None:
        self.started_at = started_at
        self.paused_for = paused_for
        """How long the run has stood still: paused, or served by nobody."""
        self.unserved = unserved
        """For how long nobody had served it when the store was last asked."""
        self.opened_in = opened_in
        """What it took until the baseline was measured."""
        self.resting_since: datetime | None = None

    def elapsed(self, now: datetime) -> timedelta:
        """Time since the start during which the run was served, and not paused."""
        return max((self.resting_since or now) - self.started_at - self.paused_for, timedelta(0))

    def end_of(self, allowed: timedelta | None) -> datetime | None:
        """When so much of it is over; None where it is unlimited."""
        return self.started_at + self.paused_for + allowed if allowed else None

    def clock(self, allowed: timedelta | None) -> RunClock | None:
        """What a trial is told of the clock; None while nobody has asked the store about it."""
        return None if self.unserved is None else RunClock(unserved=self.unserved, wall_time=allowed)

    @property
    def stood_still(self) -> StoodStill:
        """What the store is told of the clock."""
        return StoodStill(paused_for=self.paused_for, unserved=self.unserved, resting_since=self.resting_since)

    def note_unserved(self, unserved: timedelta | None) -> None:
        """For so long has nobody served the run in all, as the store says. While it rests the clock stands still anyway."""
        if unserved is None:
            return
        known = self.unserved or timedelta(0)
        if unserved > known and self.resting_since is None:
            self.paused_for += unserved - known
        self.unserved = max(unserved, known)

    def end_rest(self, now: datetime) -> None:
        """Count the rest. What nobody served of it counts once: until the clock goes on, nothing more is added."""
        assert self.resting_since
        self.paused_for += now - self.resting_since
        self.resting_since = now
