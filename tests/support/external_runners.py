"""The reference runner of the examples as a target."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from activities.settings import RUNNER_URLS
from tests.support.allowed import allow
from tests.support.engines import Engines
from tests.support.example_modules import example

runners = example("external-runner/runner.py")
ONE_TRIAL = {"trials": 1}


@asynccontextmanager
async def running(engines: Engines, **options: Any) -> AsyncIterator[tuple[Any, dict[str, Any]]]:
    """The reference runner, and a target that names it."""
    runner = runners.Runner(engines.client, **options)
    async with runners.serving(runner) as url:
        allow(RUNNER_URLS, url)
        yield runner, {"kind": "external", "url": url}
