"""The cleanup removes what nothing needs any more, and never what a release, a tag or a live run refers to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from temporalio.testing import ActivityEnvironment

from activities.cleanup import StoreCleanup, WorkflowRun
from activities.releases.override_stores import Overrides
from ratchet._formats.canonical import content_hash
from ratchet.prompts import Change, PromptTemplate
from store.connection import Database
from store.write.releases import NewRelease, Settlement
from store.write.repositories import Store
from tests.support.store_examples import ExampleRun
from workflows.model.activities.cleanup import CleanupInput
from workflows.model.spec.release import ReleaseState
from workflows.rules.retention_policy import parse_retention

GRACE = timedelta(days=1)
NOW = datetime(2030, 1, 10, tzinfo=UTC)
FATES = ("running", "closed long ago", "closed just now", "vanished")
_numbers = count()
FATE_OF: dict[str, str] = {}
"""Of every example's runs: they share one database."""

TEMPLATE = """
prompt: swept/prompt-{number}
sections: [{{path: text, body: "Say it."}}]
parameters: {{x: {{type: integer, value: 0, min: 0, max: 1000}}}}
"""

tags = st.lists(
    st.tuples(
        st.sampled_from(FATES),
        st.booleans(),  # temporary
        st.sampled_from(["no", "pending", "decided"]),  # release
        st.booleans(),  # made long ago
    ),
    min_size=1,
    max_size=8,
)


@given(made=tags)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_only_temporary_tags_of_runs_that_are_over_go(database: Database, database_url: str, made: list[Any]) -> None:
    number = next(_numbers)
    template = PromptTemplate.from_yaml(TEMPLATE.format(number=number))
    overrides = Overrides("postgres", database_url)
    store, rows = await overrides.store(), Store(database)
    for place, (fate, temporary, release, old) in enumerate(made):
        configuration = template.configuration() | {"param:x": place + 1}
        owner = f"run-{number}-{place}"
        FATE_OF[owner] = fate
        state = await store.store(
            template,
            template.overrides_of(configuration),
            tag=f"tag-{place}",
            expected=None,
            change=Change(at=NOW - (timedelta(days=3) if old else timedelta(hours=1))),
            temporary=temporary,
            owner=owner if temporary else None,
        )
        assert state.config_hash == content_hash(configuration)
        if release != "no":
            await asked(rows, template.name, f"{owner}-release", configuration, decided=release == "decided")

    async def executions(runs: Sequence[str]) -> Mapping[str, WorkflowRun]:
        known = {
            "running": WorkflowRun(True),
            "closed long ago": WorkflowRun(False, NOW - timedelta(days=2)),
            "closed just now": WorkflowRun(False, NOW - timedelta(hours=1)),
        }
        return {run: known[FATE_OF[run]] for run in runs if FATE_OF[run] != "vanished"}

    cleanup = StoreCleanup(database, overrides)
    swept = await cleanup.remove_unneeded(GRACE, NOW, executions)
    left = {state.tag for state in await store.list_tags(template.name)}
    goes = {
        f"tag-{place}"
        for place, (fate, temporary, release, old) in enumerate(made)
        if temporary and old and release != "pending" and fate in ("closed long ago", "vanished")
    }
    assert left == {f"tag-{place}" for place in range(len(made))} - goes
    assert swept.tags >= len(goes)
    for release in await rows.release_log.listed(prompt=template.name):
        assert await rows.overlays.load(release.overlay_hash), "what a release refers to stays, decided or not"
        assert await rows.overlays.load(release.base_hash)
    assert (await cleanup.remove_unneeded(GRACE, NOW, executions)).tags == 0
    await overrides.close()


async def asked(rows: Store, prompt: str, release_id: str, configuration: dict[str, Any], *, decided: bool) -> None:
    base = {**configuration, "param:x": 0}
    state = ReleaseState(
        release_id=release_id,
        prompt=prompt,
        kind="promote",
        tag="stable",
        status="pending",
        base_hash=content_hash(base),
        overlay_hash=content_hash(configuration),
        asked_at=NOW,
    )
    configurations = {content_hash(one): one for one in (base, configuration)}
    await rows.releases.open(NewRelease(state, "stable", configurations))
    if decided:
        await rows.releases.settle(release_id, Settlement("rejected", "no", "ann", NOW))


async def test_overlays_go_that_nothing_refers_to_and_no_others(database: Database, database_url: str, example: Any) -> None:
    rows = Store(database)
    await example.open()
    lonely: dict[str, Any] = {"x": "nobody tried this"}
    await rows.overlays.store(content_hash(lonely), lonely)
    async with database.connection() as connection:
        await connection.execute("UPDATE overlays SET created_at = $1", NOW - timedelta(days=2))
        before = {row["config_hash"] for row in await connection.fetch("SELECT config_hash FROM overlays")}

    async def nobody(runs: Sequence[str]) -> Mapping[str, WorkflowRun]:
        return {}

    overrides = Overrides("postgres", database_url)
    swept = await StoreCleanup(database, overrides).remove_unneeded(GRACE, NOW, nobody)
    async with database.connection() as connection:
        after = {row["config_hash"] for row in await connection.fetch("SELECT config_hash FROM overlays")}
    assert (swept.overlays, before - after) == (1, {content_hash(lonely)})
    await overrides.close()
    with pytest.raises(Exception, match="not in the store"):
        await rows.overlays.load(content_hash(lonely))


async def test_the_activity_carries_out_the_policy_of_its_worker(
    database: Database, database_url: str, example: ExampleRun
) -> None:
    run = await example.open()
    await run.store.trials.begin(run.trial())
    await run.answer_everything()
    await run.store.runs.finish(run.finish())
    await run.execute("UPDATE runs SET finished_at = now() - interval '2 hours'")

    async def nobody(runs: Sequence[str]) -> Mapping[str, WorkflowRun]:
        return {}

    overrides = Overrides("postgres", database_url)
    results = []
    for policy in ("texts=3h", "texts=1h", "texts=1h"):
        cleanup = StoreCleanup(database, overrides, nobody, retention=parse_retention(policy))
        results.append(await ActivityEnvironment().run(cleanup.clean_up, CleanupInput()))
    await overrides.close()
    assert [result.texts for result in results] == [0, 1, 0]
    assert await run.values("SELECT count(*) FROM answers WHERE output IS NULL") == [10]
