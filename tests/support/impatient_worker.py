"""A worker for evaluations whose patience with endpoints is short, on a task queue of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

import pytest

import worker
from activities.endpoints.chat_models import ChatModels
from activities.endpoints.retry_policy import Patience
from activities.settings import EVALUATION_QUEUES, OperatorSettings, Settings
from tests.support.allowed import OPERATOR, allow
from tests.support.engines import PLUGINS, Engines

QUICK = Patience(seconds=10.0, attempts=8, first_delay=0.01, longest_delay=0.05)


@asynccontextmanager
async def impatient_worker(engines: Engines, task_queue: str, operator: OperatorSettings = OPERATOR) -> AsyncIterator[str]:
    allow(EVALUATION_QUEUES, task_queue)
    settings = Settings(
        engines.addresses.database_url,
        operator=operator,
        evaluation_task_queue=task_queue,
        role="evaluation",
        plugins="plugged",
        plugin_path=PLUGINS,
        grace=timedelta(seconds=1),
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(worker, "ChatModels", partial(ChatModels, patience=QUICK))
        serving = worker.serving(engines.client, settings)
        await serving.__aenter__()
    try:
        yield task_queue
    finally:
        await serving.__aexit__(None, None, None)
