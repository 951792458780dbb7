"""When the time of a trial is over, once more is known of the run's clock than when its deadline was set."""

from __future__ import annotations

from datetime import datetime, timedelta

from workflows.model.run.clock import RunClock


def moved_deadline(deadline: datetime, before: RunClock, now: RunClock) -> datetime | None:
    """The deadline, later by what nobody served since it was set, and by what the time budget grew. None: there is none."""
    if now.wall_time is not None and before.wall_time is not None:
        if not now.wall_time:
            return None
        deadline += now.wall_time - before.wall_time
    return deadline + max(now.unserved - before.unserved, timedelta(0))
