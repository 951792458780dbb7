"""A target that kills its process: the worker dies with it, is started again, and the run still ends with the reason."""

from __future__ import annotations

import asyncio

from tests.support.hostile_harness import Ended


async def test_a_target_that_kills_its_process_dies_alone_in_the_end(death: asyncio.Task[Ended]) -> None:
    end = await death
    assert (end.status, end.type) == ("failed", "baseline_failed"), str(end)
    assert "killed its process (exit code 17)" in end.message
    assert end.stored["status"] == "failed"
    assert end.rows["answers"] == 2
