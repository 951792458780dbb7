"""A workflow that does what no workflow may."""

from __future__ import annotations

import time
from typing import Any

from temporalio import workflow


@workflow.defn
class ReadsTheClock:
    """Runs on the clock of the machine, which says something else at every replay."""

    @workflow.run
    async def run(self, request: dict[str, Any]) -> float:
        return time.time()
