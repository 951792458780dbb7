"""The cleanup comes by a schedule that every worker sets up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from ratchet.prompts import Change, Overrides, OverrideStore, PromptTemplate, open_store
from tests.support.engines import Engines

TEMPLATE = PromptTemplate.from_yaml('prompt: swept/e2e\nsections: [{path: text, body: "Say it."}]\n')


async def put(store: OverrideStore, tag: str, owner: str | None) -> None:
    """A tag that was made three days ago; one with an owner is temporary."""
    await store.store(
        TEMPLATE,
        Overrides(),
        tag=tag,
        expected=None,
        change=Change(at=datetime.now(UTC) - timedelta(days=3)),
        temporary=owner is not None,
        owner=owner,
    )


async def test_the_schedule_is_there_and_its_workflow_sweeps(engines: Engines, spec: Callable[..., dict[str, Any]]) -> None:
    result = await engines.run(spec(name="swept"))
    async with await open_store("postgres", database_url=engines.addresses.database_url) as store:
        await put(store, "of-a-vanished-run", "never-was")
        await put(store, "of-a-run-that-just-ended", result["optimization_id"])
        await put(store, "lasting", None)
        await engines.client.get_schedule_handle("cleanup-optimization").trigger()
        async with asyncio.timeout(40):
            while "of-a-vanished-run" in await tags(store):
                await asyncio.sleep(0.1)
        assert await tags(store) == {"of-a-run-that-just-ended", "lasting"}
        swept = await engines.client.execute_workflow(
            "CleanupWorkflow", {"grace": 0}, id="cleanup-now", task_queue="optimization"
        )
        assert swept["tags"] >= 1  # tests that share the stack leave tags of their own
        assert await tags(store) == {"lasting"}


async def tags(store: OverrideStore) -> set[str]:
    return {state.tag for state in await store.list_tags("swept/e2e")}
