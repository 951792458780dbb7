"""What a spec of somebody else may not make a worker do: read, call or use what its operator did not list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from activities.datasets import DatasetError
from activities.datasets.run_dataset import dataset_of
from activities.settings import HTTP_URLS, OBJECT_MB, OBJECTS, DatasetSettings
from tests.support.activity_targets import height, theirs
from tests.support.allowed import allow
from tests.support.engines import Engines
from tests.support.http_endpoints import climbing, hill, json_endpoint
from tests.support.object_store import ObjectStore, object_store
from workflows.model.spec.request import OptimizationRequest

Spec = Callable[..., dict[str, Any]]
SECRET = "wJalrXUtnFEMI"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("objects") / "buckets") as store:
        yield store


@pytest.fixture
def s3(server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


async def refusal(engines: Engines, spec: dict[str, Any]) -> str:
    handle = await engines.start(spec)
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    return failed.value.cause.message


async def test_an_object_that_no_list_names_is_not_read_with_the_workers_credentials(
    engines: Engines, spec: Spec, s3: ObjectStore
) -> None:
    url = s3.put("secrets", "tickets.jsonl", b'{"input": 1}\n')
    told = await refusal(engines, spec(dataset={"path": url}))
    assert told == f"dataset.path: this worker reads no object {url}; its operator can add s3://bucket/prefix to {OBJECTS}"


async def test_an_object_that_is_listed_is_read_and_not_quoted(engines: Engines, spec: Spec, s3: ObjectStore) -> None:
    allow(OBJECTS, "s3://team")
    url = s3.put("team", "credentials.jsonl", f"aws_secret_access_key = {SECRET}\n".encode())
    told = await refusal(engines, spec(dataset={"path": url}))
    assert "credentials.jsonl line 1: is not JSON (Expecting value at column 1)" in told
    assert SECRET not in told
    fine = s3.put("team", "fine.jsonl", b"".join(b'{"input": %d}\n' % n for n in range(8)))
    assert (await engines.run(spec(dataset={"path": fine})))["status"] == "completed"


async def test_an_object_that_is_too_large_is_not_fetched(engines: Engines, spec: Spec, s3: ObjectStore) -> None:
    url = s3.put("team", "large.jsonl", b'{"input": 1}\n' * 100_000)
    request = OptimizationRequest.model_validate(spec(dataset={"path": url}))
    with pytest.raises(DatasetError) as told:
        await dataset_of(engines.database, request, DatasetSettings(largest_object_mb=1))
    assert f"{url} has more than 1 MB; make it smaller, or raise {OBJECT_MB}" in str(told.value)


BROKEN = {
    "lines.jsonl": f"{SECRET}\n",
    "twice.jsonl": f'{{"input": 1, "{SECRET}": 1, "{SECRET}": 2}}\n',
    "list.jsonl": f'["{SECRET}"]\n',
    "unknown.jsonl": f'{{"input": 1, "{SECRET}": 2}}\n',
    "weight.jsonl": f'{{"input": 1, "weight": "{SECRET}"}}\n',
    "tags.jsonl": f'{{"input": 1, "tags": {{"{SECRET}": 2}}}}\n',
    "id.jsonl": f'{{"id": "{SECRET}", "input": 1}}\n{{"id": "{SECRET}", "input": 2}}\n',
    "text.json": f"{SECRET}\n",
    "number.json": f'[1, "{SECRET}"]',
    "item.json": f'["{SECRET}"]',
    "comma.json": '[{"input": 1} W]',
    "rest.json": '[{"input": 1}] W',
    "twice.json": f'[{{"input": 1, "{SECRET}": 1, "{SECRET}": 2}}]',
    "cells.csv": f"input,expected\n1,2,{SECRET}\n",
    "single.csv": f"{SECRET};input\n1;2\n",
    "columns.csv": f"{SECRET},input,{SECRET}\n1,2,3\n",
    "quotes.csv": f'input,expected\n"1{SECRET}"x,2\n',
    "weights.csv": f"input,weight\n1,{SECRET}\n",
}


@pytest.mark.parametrize("name", BROKEN)
async def test_no_content_of_a_workers_file_is_told_to_who_started_the_run(
    engines: Engines, spec: Spec, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text(BROKEN[name])
    for columns in (None, {"input": "no such column"}):
        request = OptimizationRequest.model_validate(spec(dataset={"path": name, **({"columns": columns} if columns else {})}))
        with pytest.raises(DatasetError) as told:
            await dataset_of(engines.database, request, DatasetSettings(data_dir=tmp_path))
        assert SECRET not in str(told.value)
        assert "'W'" not in str(told.value)
        assert name in str(told.value)


async def test_no_activity_of_others_is_called_on_a_task_queue_that_is_not_listed(engines: Engines, spec: Spec) -> None:
    calls: list[Any] = []

    def answer(call: dict[str, Any]) -> Any:
        calls.append(call)
        return height(call)

    async with theirs(engines, answer, allowed=False) as target:
        told = await refusal(engines, spec(target=target))
    assert told.startswith(f"target.task_queue: this worker calls no activities on task queue {target['task_queue']!r}; ")
    assert "RATCHET_ACTIVITY_QUEUES" in told
    assert not calls


async def test_a_spec_cannot_use_a_colleagues_worker_for_its_evaluations(engines: Engines, spec: Spec) -> None:
    handle = await engines.start(spec(execution={"evaluation_task_queue": "colleague-evaluation"}))
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    told = str(failed.value.cause)
    assert "execution.evaluation_task_queue: this worker has no runs evaluated on task queue 'colleague-evaluation'" in told
    assert "RATCHET_EVALUATION_QUEUES" in told
    scheduled = [
        event.activity_task_scheduled_event_attributes.task_queue.name for event in (await handle.fetch_history()).events
    ]
    assert "colleague-evaluation" not in scheduled


async def test_a_spec_cannot_have_loopback_called(engines: Engines, spec: Spec) -> None:
    async with json_endpoint(hill, allowed=False) as endpoint:
        told = await refusal(engines, climbing(spec, endpoint.url))
    assert f"will not call it; its operator can add it to {HTTP_URLS}" in told
    assert not endpoint.asked
