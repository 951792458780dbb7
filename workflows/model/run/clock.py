"""The run's clock: it stands still while the run is paused, and while no worker serves it."""

from __future__ import annotations

from datetime import datetime, timedelta

from ratchet._frozen import Payload
from workflows.model.spec.durations import Duration


class ClockKey(Payload):
    """Whose clock is asked for."""

    run_id: str


class RunClock(Payload):
    """What the store says of a run's time. Durations only: they mean the same whatever clock a workflow goes by."""

    unserved: timedelta = timedelta(0)
    """For how long no worker has served the run since it started."""
    wall_time: Duration | None = None
    """The time budget in force; 0 is unlimited, None is not known."""


class TimeBudget(Payload):
    """A time budget that was changed while trials are in flight."""

    wall_time: Duration
    """0 is unlimited."""
    deadline: datetime | None = None
    """When it is over, as far as its run knows."""


class StoodStill(Payload):
    """How long a run has stood still, as it knows it; the store goes on counting from there."""

    paused_for: timedelta = timedelta(0)
    """Paused, or served by nobody."""
    unserved: timedelta | None = None
    """How much of the unserved time is part of it. None: all that there is by now."""
    resting_since: datetime | None = None
    """Set while the run is paused."""
