"""The frame in which a test runs an attempt at an activity."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

from temporalio.testing import ActivityEnvironment


def activity_environment(
    *, attempt: int = 1, heartbeat_timeout: timedelta | None = None, lost: int | None = None
) -> ActivityEnvironment:
    """An attempt after others, of which so many were lost with their worker, as they died in the middle of a call."""
    environment = ActivityEnvironment()
    lost = attempt - 1 if lost is None else lost
    told = [{"attempts": {"lost": lost, "begun": 0}}, {"calls": {"place": "elsewhere", "killed": lost}}] if lost else []
    environment.info = dataclasses.replace(
        environment.info, attempt=attempt, heartbeat_timeout=heartbeat_timeout, heartbeat_details=told
    )
    return environment
