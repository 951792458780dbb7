"""A run whose contents are secret: neither Temporal nor PostgreSQL has them in clear, and keys are changed while it goes on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from temporalio.client import Client, WorkflowFailureError

from clients.embedded.stack import StackAddresses, embedded_stack
from clients.embedded.temporal_server import temporal_binary
from clients.http.access.security import Trust
from clients.http.app import serving_http
from clients.runs.service.servers import Servers
from clients.settings import encryption_keys
from clients.temporal import connect
from ratchet.prompts import open_store
from store.connection import Database
from tests.support.forked_commands import ROOT, run_forked
from tests.support.http_api import TOKEN
from tests.support.patience import PATIENCE_SECONDS
from tests.support.prompt_examples import NAME, template
from tests.support.replaying import nothing_differs
from tests.support.worker_processes import WorkerProcess, until

VARIABLE = "RATCHET_ENCRYPTION_KEYS"
OLD, NEW = (f"{name}:{b64encode(bytes([number]) * 32).decode()}" for number, name in enumerate(("old", "new"), start=1))
SECRETS = ("xylophone", "zeppelin", "quagmire", "bassoon", "harpsichord")
"""Of the prompt, of the samples, of the failing baseline's samples, of who stops a run, and of a prompt that is registered."""
UI = "http://127.0.0.1:8233"


def secret_spec(name: str, gate: Path, **parts: Any) -> dict[str, Any]:
    items = [{"id": f"s{n}", "input": {"text": f"zeppelin {n}", "kind": f"k{n % 2}", "raises": n == 0}} for n in range(6)]
    return {
        "name": name,
        "configuration": {"prompt": {"value": "the xylophone", "change": "text", "max_length": 200}, "gate": str(gate)},
        "target": {"kind": "python", "ref": "plugged:secretive"},
        "dataset": {"items": items, "splits": "none", "slices": ["input.kind"]},
        "scorers": [{"kind": "python", "name": "height", "ref": "plugged:secretive_height"}],
        "objective": {"metric": "height"},
        "optimizer": {"name": "refine", "proposer": {"kind": "python", "ref": "plugged:says_it_again"}},
        "stop": {"max_rounds": 2, "no_improvement": 0},
    } | parts


@dataclass
class Secret:
    """Runs that ended, one of them with another key than it began with."""

    stack: StackAddresses
    client: Client
    database: Database
    result: dict[str, Any]
    refusal: str
    """What a worker said that lacks a key."""
    failure: WorkflowFailureError


@pytest.fixture(scope="module")
async def secret(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Secret]:
    folder = tmp_path_factory.mktemp("secret")
    calls, gate = folder / "calls", folder / "gate"
    async with embedded_stack(folder / "home", ui=False) as stack:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv(VARIABLE, OLD)
            first = await connect(stack.temporal_address)
            worker = await started(stack, calls)
            await first.start_workflow(
                "OptimizationWorkflow", secret_spec("rotated", gate), id="rotated", task_queue="optimization"
            )
            await until(lambda: calls.exists() and "candidate" in calls.read_text())
            async with await open_store(stack.database_url) as prompts:
                await prompts.seed(template(sections=[{"path": "task", "body": "Tune the harpsichord."}]))
            await worker.kill(signal.SIGTERM)

            environment.setenv(VARIABLE, NEW)
            lacking = await started(stack, folder / "lacking")
            assert await lacking.ended() == 5
            refusal = (folder / "lacking.log").read_text()

            environment.setenv(VARIABLE, f"{NEW},{OLD}")
            gate.touch()
            worker = await started(stack, calls)
            client = await connect(stack.temporal_address)
            async with asyncio.timeout(PATIENCE_SECONDS):
                result: dict[str, Any] = await client.get_workflow_handle("rotated").result()
            failing = secret_spec("failing", gate, dataset={"items": [{"input": {"text": "quagmire", "raises": True}}]})
            with pytest.raises(WorkflowFailureError) as caught:
                await client.execute_workflow("OptimizationWorkflow", failing, id="failing", task_queue="optimization")
            database = await Database.open(stack.database_url, keys=encryption_keys(), most_connections=4)
            yield Secret(stack, client, database, result, refusal, caught.value)
            await database.close()
            await worker.kill(signal.SIGTERM)


async def started(stack: StackAddresses, calls: Path) -> WorkerProcess:
    worker = WorkerProcess(stack, calls)
    await worker.start()
    return worker


async def test_a_run_ends_with_another_key_than_it_began_with_and_follows_from_what_is_stored(secret: Secret) -> None:
    assert secret.result["best_configuration"]["prompt"] == "the xylophone and again and again"
    assert secret.result["spend"]["samples"] == 3 * 6
    await nothing_differs(secret.database, "rotated")


async def test_a_worker_without_the_key_refuses_to_serve_and_names_it(secret: Secret) -> None:
    assert "key 'old' is missing" in secret.refusal
    assert f"{VARIABLE} holds new" in secret.refusal
    assert NEW.partition(":")[2] not in secret.refusal


async def test_a_failure_is_told_to_who_has_the_key(secret: Secret) -> None:
    assert "quagmire" in str(secret.failure.cause)


async def test_postgresql_holds_nothing_in_clear(secret: Secret) -> None:
    assert await keys_of_answers(secret) == {"old", "new"}


async def keys_of_answers(secret: Secret) -> set[str]:
    """The keys of the answers, once it is sure that no table has a secret."""
    connection = await asyncpg.connect(secret.stack.database_url)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for table in (row["tablename"] for row in tables):
            lines = [row["line"] for row in await connection.fetch(f'SELECT t::text AS line FROM "{table}" t')]
            assert not [line for word in SECRETS for line in lines if word in line], table
        answers = await connection.fetch("SELECT output::text FROM answers WHERE output IS NOT NULL")
    finally:
        await connection.close()
    return {row["output"].partition(":")[2].partition(":")[0].strip(' "') for row in answers}


async def test_temporal_holds_nothing_in_clear(secret: Secret) -> None:
    raw = await Client.connect(secret.stack.temporal_address)
    async for execution in raw.list_workflows():
        history = await raw.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history()
        assert not [word for word in SECRETS if word in history.to_json()], execution.id
    files = [path for path in secret.stack.home.rglob("*") if "temporal" in path.name and path.is_file()]
    assert sum(path.stat().st_size for path in files) > 100_000
    for path in files:
        content = path.read_bytes()
        assert not [word for word in SECRETS if word.encode() in content], path.name


async def test_commands_read_it_with_the_keys_and_without_say_which_one_is_missing(secret: Secret, tmp_path: Path) -> None:
    servers = {"TEMPORAL_ADDRESS": secret.stack.temporal_address, "DATABASE_URL": secret.stack.database_url}
    environment = {**os.environ, **servers, "PYTHONPATH": str(ROOT)}
    replayed = await asyncio.to_thread(run_forked, ("replay", "rotated"), tmp_path, environment, PATIENCE_SECONDS)
    assert replayed.returncode == 0, replayed.stderr
    assert b"replayed with this version's code: as recorded" in replayed.stdout
    exported = await asyncio.to_thread(run_forked, ("answers", "rotated"), tmp_path, environment, PATIENCE_SECONDS)
    assert b"zeppelin" in exported.stdout
    del environment[VARIABLE]
    refused = await asyncio.to_thread(run_forked, ("list",), tmp_path, environment, PATIENCE_SECONDS)
    assert refused.returncode == 5
    assert b"encrypted with key 'old', and neither RATCHET_ENCRYPTION_KEYS nor RATCHET_ENCRYPTION_KEYS_FILE" in refused.stderr


async def test_slices_and_the_outline_are_as_those_of_a_plain_run(secret: Secret) -> None:
    servers = of(secret, None)
    sliced = await servers.reader.slices.of_run("rotated")
    assert sliced is not None
    assert len(sliced.slices) == 2
    outline = await servers.reader.outlines.load("rotated")
    assert outline is not None
    assert [trial.purpose for trial in outline.trials] == ["baseline", "candidate", "candidate"]


def of(secret: Secret, ui_url: str | None) -> Servers:
    at = secret.stack
    return Servers(secret.client, secret.database, at.database_url, at.temporal_address, at.namespace, ui_url, embedded=True)


async def temporal(secret: Secret, *arguments: str) -> str:
    """Temporal's own command line."""
    asked = await asyncio.create_subprocess_exec(
        *(str(temporal_binary()), "workflow", *arguments, "--address", secret.stack.temporal_address),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    return (await asked.communicate())[0].decode()


async def test_temporals_command_line_reads_and_writes_through_the_codec_server(secret: Secret, tmp_path: Path) -> None:
    show = ("result", "--workflow-id", "rotated")
    async with serving_http(of(secret, UI), Trust.of("127.0.0.1", TOKEN), "optimization", port=0) as address:
        through = ("--codec-endpoint", f"{address.url}/codec", "--codec-auth")
        assert "xylophone" not in await temporal(secret, *show)
        assert "xylophone" in await temporal(secret, *show, *through, f"Bearer {TOKEN}")
        waiting = secret_spec("stopped", tmp_path / "gate", stop={"max_rounds": 9})
        handle = await secret.client.start_workflow("OptimizationWorkflow", waiting, id="stopped", task_queue="optimization")
        reason = ("--name", "stop_early", "--input", '"the bassoon is out of tune"')
        sent = await temporal(secret, "signal", "--workflow-id", "stopped", *reason, *through, f"Bearer {TOKEN}")
        assert "succeeded" in sent
        (tmp_path / "gate").touch()
        assert "bassoon" in (await handle.result())["message"]
    await test_temporal_holds_nothing_in_clear(secret)


async def test_a_browser_shows_payloads_to_temporals_ui_alone(secret: Secret) -> None:
    [payload] = await secret.client.data_converter.encode(["the xylophone"])
    given = {name: b64encode(value).decode() for name, value in payload.metadata.items()}
    body = {"payloads": [{"metadata": given, "data": b64encode(payload.data).decode()}]}
    asking = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,x-namespace"}
    async with (
        serving_http(of(secret, UI), Trust.of("127.0.0.1", TOKEN), "optimization", port=0) as address,
        httpx.AsyncClient(base_url=address.url) as browser,
    ):
        permitted = await browser.options("/codec/decode", headers={"Origin": UI, **asking})
        assert permitted.status_code == 204
        assert permitted.headers["access-control-allow-origin"] == UI
        assert "x-namespace" in permitted.headers["access-control-allow-headers"]
        assert (await browser.post("/codec/decode", json=body, headers={"Origin": UI})).status_code == 401
        await browser.post("/v1/private/session", json={"token": TOKEN})
        decoded = await browser.post("/codec/decode", json=body, headers={"Origin": UI, "X-Namespace": "default"})
        assert decoded.status_code == 200
        assert decoded.headers["access-control-allow-credentials"] == "true"
        assert decoded.json()["payloads"][0]["data"] == b64encode(b'"the xylophone"').decode()
        encoded = (await browser.post("/codec/encode", json=decoded.json())).json()
        assert "xylophone" not in json.dumps(encoded)
        assert (await browser.post("/codec/decode", json=encoded)).json() == decoded.json()
        for origin in ("http://127.0.0.1:9999", "https://evil.example", "null"):
            for answer in (
                await browser.post("/codec/decode", json=body, headers={"Origin": origin}),
                await browser.options("/codec/decode", headers={"Origin": origin, **asking}),
            ):
                assert answer.status_code == 403
                assert "access-control-allow-origin" not in answer.headers
        elsewhere = await browser.get("/v1/private/optimizations", headers={"Origin": UI})
        assert elsewhere.status_code == 403
        broken = await browser.post("/codec/decode", json={"payloads": [{"metadata": {"encoding": "%"}}]})
        assert broken.status_code == 422
        body["payloads"][0]["metadata"]["encryption-key-id"] = b64encode(b"gone").decode()  # type: ignore[index]
        missing = await browser.post("/codec/decode", json=body)
        assert "key 'gone' is missing" in missing.json()["error"]["message"]


async def test_everything_is_brought_to_the_new_key_beside_a_worker_and_read_without_the_old_one(
    secret: Secret, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test of this file: it retires the old key."""
    servers = {"TEMPORAL_ADDRESS": secret.stack.temporal_address, "DATABASE_URL": secret.stack.database_url}
    environment = {**os.environ, **servers, "PYTHONPATH": str(ROOT)}

    async def told(*arguments: str) -> dict[str, Any]:
        asked = ("reencrypt", *arguments, "--json")
        ended = await asyncio.to_thread(run_forked, asked, tmp_path, environment, PATIENCE_SECONDS)
        assert ended.returncode == 0, ended.stderr
        found: dict[str, Any] = json.loads(ended.stdout)
        return found

    before = await told("--dry-run")
    assert before["key"] == "new" and {one["key"] for one in before["keys"]} == {"old", "new"}
    assert before["left"] == sum(one["contents"] for one in before["keys"] if one["key"] == "old") > 20
    after = await told()
    assert (after["left"], after["unreadable"]) == (0, [])
    assert after["contents"] >= before["contents"]
    assert after["changed_rows"]["prompt_templates"] == 1
    assert (await told("--retire", "old"))["was_known"]

    monkeypatch.setenv(VARIABLE, NEW)
    database = await Database.open(secret.stack.database_url, keys=encryption_keys(), most_connections=2)
    for run_id in ("rotated", "failing"):
        await nothing_differs(database, run_id)
    await database.close()
    async with await open_store(secret.stack.database_url) as prompts:
        [section] = (await prompts.resolve(NAME, tag="stable")).template.sections
    assert "harpsichord" in repr(section)
    assert await keys_of_answers(secret) == {"new"}
