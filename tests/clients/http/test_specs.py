"""The spec of a run: as its author wrote it, and as it is run again."""

from __future__ import annotations

import os
import signal
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
import yaml
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from activities.datasets import InlineItems, ingest
from clients.checks.findings import check_spec
from clients.embedded.stack import stack_state
from clients.runs.lookup import LONGEST_WRITTEN
from clients.runs.service.servers import Servers
from clients.runs.start_plan import plan_run
from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec
from workflows.model.spec.dataset import Item


@pytest.mark.parametrize(("name", "comment", "is_kept"), [("short", "why 4?", True), ("long", "x" * LONGEST_WRITTEN, False)])
async def test_a_spec_is_shown_as_its_author_wrote_it(
    name: str, comment: str, is_kept: bool, http: httpx.AsyncClient, servers: Servers, engines: Engines, tmp_path: Path
) -> None:
    spec = hill_spec(name=name, dataset={"items": [{"input": 1}], "splits": "none"}, stop={"max_rounds": 1})
    written = f"# {comment}\n{yaml.safe_dump(spec, sort_keys=False)}"
    (tmp_path / "spec.yaml").write_text(written)
    (tmp_path / "plugged.py").write_text("# looked for beside the spec\n")
    plan = await plan_run(servers, await check_spec(tmp_path / "spec.yaml", endpoints=False))
    handle = await engines.client.start_workflow(
        "OptimizationWorkflow",
        spec,
        id=plan.run_id,
        task_queue="optimization",
        memo={"ratchet": plan.memo},
    )
    await handle.result()
    shown = (await http.get(f"/optimizations/{plan.run_id}/spec")).json()
    assert shown["written"] == (written if is_kept else None)
    assert "why" not in shown["text"] and yaml.safe_load(shown["text"])["name"] == name


async def test_a_spec_is_started_as_it_is_written(http: httpx.AsyncClient, engines: Engines) -> None:
    spec = hill_spec(name="written", dataset={"items": [{"input": 1}], "splits": "none"}, stop={"max_rounds": 1})
    text = f"# why 4?\n{yaml.safe_dump(spec, sort_keys=False)}"
    checked = (await http.post("/spec/check", json={"text": text})).json()
    started = await http.post("/spec/start", json={"text": text})
    run_id = checked["run_id"]
    assert (started.status_code, started.json()["optimization_id"], started.json()["created"]) == (201, run_id, True)
    await engines.client.get_workflow_handle(run_id).result()
    assert (await http.get(f"/optimizations/{run_id}/spec")).json()["written"] == text
    again = await http.post("/spec/start", json={"text": text})
    assert (again.status_code, again.json()) == (200, {**started.json(), "created": False, "status": "completed"})
    by_itself = await http.post("/optimizations", json=spec)
    assert (by_itself.status_code, by_itself.json()["optimization_id"]) == (200, run_id), "comments make no other run"
    anew = (await http.post("/spec/start?new=true", json={"text": text})).json()
    assert (anew["optimization_id"], anew["created"]) == (f"{run_id}-2", True)
    await engines.client.get_workflow_handle(f"{run_id}-2").result()
    retried = (await http.post(f"/optimizations/{run_id}/retry")).json()["optimization_id"]
    await engines.client.get_workflow_handle(retried).result()
    shown = (await http.get(f"/optimizations/{retried}/spec")).json()
    assert shown["written"] == text, "whoever retries has the author's text as well"
    assert shown["dataset_id"] == checked["dataset_id"] is not None, "it is seen that both have the same samples"


async def test_what_is_wrong_with_a_written_spec_is_refused_with_its_line(http: httpx.AsyncClient) -> None:
    before = (await http.get("/optimizations")).json()["total"]
    text = yaml.safe_dump(hill_spec(name="wrong", stop={"max_rounds": -1}), sort_keys=False)
    line = 1 + next(number for number, one in enumerate(text.split("\n")) if "max_rounds" in one)
    refused = await http.post("/spec/start", json={"text": text})
    assert refused.status_code == 422
    problem = refused.json()["error"]
    assert problem["field"] == "stop.max_rounds" and problem["message"].startswith(f"line {line}: stop.max_rounds: ")
    assert (await http.get("/optimizations")).json()["total"] == before


async def test_what_stored_samples_lack_is_found_before_a_run_is_started(http: httpx.AsyncClient, servers: Servers) -> None:
    await ingest(servers.database, InlineItems([Item(id="s0", input={"Ticket text": "?"}, expected=1)]), "renamed")
    chat = {"kind": "chat", "model": "m", "messages": [{"role": "user", "content": "{{input.ticket}}"}]}
    given = hill_spec(name="lacking", target=chat, scorers=[{"kind": "exact"}], objective="exact", dataset={"name": "renamed"})
    text = yaml.safe_dump(given, sort_keys=False)
    told = "dataset.name: sample 's0': input has no 'ticket', which the target needs"
    findings = (await http.post("/spec/check", json={"text": text})).json()["findings"]
    assert told in [finding["message"] for finding in findings]
    refused = await http.post("/spec/start", json={"text": text})
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "dataset.name")


@pytest.mark.parametrize(
    ("encoding", "data", "written"),
    [
        (b"binary/encrypted", b"\x9d", None),
        (b"json/plain", b"{", None),
        (b"text/unheard-of", b"a", None),
        (b"json/plain", b'{"written": 5}', None),
        (b"json/plain", b'{"written": "a \\ud800"}', None),
        (b"json/plain", b'{"written": "a"}', "a"),
    ],
)
async def test_whatever_a_memo_is_the_spec_is_shown(
    encoding: bytes, data: bytes, written: str | None, http: httpx.AsyncClient, engines: Engines
) -> None:
    run_id = f"memo-{sha256(encoding + data).hexdigest()[:8]}"
    handle = await engines.client.start_workflow(
        "OptimizationWorkflow",
        hill_spec(name=run_id, dataset={"items": [{"input": 1}], "splits": "none"}, stop={"max_rounds": 1}),
        id=run_id,
        task_queue="optimization",
        memo={"ratchet": RawValue(Payload(metadata={"encoding": encoding}, data=data))},
    )
    await handle.result()
    shown = (await http.get(f"/optimizations/{run_id}/spec")).json()
    assert (shown["written"], "name: " in shown["text"]) == (written, True)


async def test_one_that_was_never_a_file_is_shown_as_it_was_run(http: httpx.AsyncClient, finished: str) -> None:
    shown = (await http.get(f"/optimizations/{finished}/spec")).json()
    assert (shown["written"], "name: " in shown["text"]) == (None, True)


async def test_it_is_shown_while_temporal_stands_still(http: httpx.AsyncClient, engines: Engines, finished: str) -> None:
    temporal = stack_state(engines.addresses.home).temporal_pid
    assert temporal is not None
    os.kill(temporal, signal.SIGSTOP)
    try:
        shown = (await http.get(f"/optimizations/{finished}/spec", timeout=15)).json()
    finally:
        os.kill(temporal, signal.SIGCONT)
    assert (shown["written"], "name: " in shown["text"]) == (None, True)
