"""The OpenAPI document is what the server does: schemathesis asks the real one whatever it allows, and what it does not."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from activities.datasets import InlineItems, ingest
from clients.runs.service.servers import Servers
from ratchet.prompts import open_store
from tests.support.http_api import TOKEN
from tests.support.pictures import png
from tests.support.prompt_examples import template
from workflows.model.spec.dataset import Item

CONFIGURATION = """
continue-on-failure = true
request-timeout = 120

[generation]
deterministic = true
max-examples = {examples}

[parameters]
optimization_id = "{run}"
candidate_id = "{candidate}"
candidate = "{candidate}"
digest = "{digest}"
prompt = "{prompt}"
dataset_id = "{dataset}"
against = "{dataset}"
number = {number}
question_id = {question}
position = 0

# Streams never end; test_stream.py reads them.
[[operations]]
include-path-regex = "/events$"
enabled = false

# `against` is a dataset there; elsewhere it is a candidate.
[[operations]]
include-operation-id = "compareTrials"
parameters = {{ against = "{candidate}" }}

[[operations]]
include-operation-id = "getPromptContent"
parameters = {{ at = "stable" }}

[[operations]]
include-operation-id = "comparePrompt"
parameters = {{ before = "source", after = "stable" }}

[[operations]]
include-operation-id = "getMatrix"
parameters = {{ by = "{candidate}" }}

# A budget of a team that is there would hold up the runs of other tests; its name is in what other operations answer.
[[operations]]
include-path-regex = "/teams/"
parameters = {{ team = "nobody" }}

# Names have a slash, which schemathesis encodes but where it tries methods that are not there: those paths then are others.
[[operations]]
include-path-regex = "/prompts/"
[operations.checks.unsupported_method]
enabled = false

# There are no keys; tests/system/end_to_end/test_encryption.py has some.
[[operations]]
include-path-regex = "^/codec/"
enabled = false

[[operations]]
include-operation-id = "deleteOptimization"
parameters = {{ optimization_id = "nowhere" }}

# A mark can be taken away once.
[[operations]]
include-operation-id = "removeMark"
parameters = {{ number = 1 }}

[[operations]]
include-operation-id = "removeQuestion"
parameters = {{ question_id = 1 }}

[[operations]]
include-operation-id = "compareOptimizations"
parameters = {{ of = ["{run}", "{run}/{candidate}"] }}

[[operations]]
include-operation-id = "getReportOfRuns"
parameters = {{ of = ["{run}"] }}

# Covering the schema of a spec, which is deep, takes thousands of requests: specs are only fuzzed.
[[operations]]
include-operation-id = "startOptimization"
[operations.phases.coverage]
enabled = false

[[operations]]
include-operation-id = "storeDataset"
[operations.phases.coverage]
enabled = false

[[operations]]
include-operation-id = "rescoreOptimization"
[operations.phases.coverage]
enabled = false

# What its schema lets through may still make no sense as a whole, or come at the wrong time.
[[operations]]
include-operation-id = "label"
[operations.checks.positive_data_acceptance]
enabled = false

[[operations]]
include-method = "POST"
[operations.checks.positive_data_acceptance]
enabled = false
"""

NOT_THERE = {
    # What is deleted must not be there; a mark is there once, and so is a label.
    "DELETE /v1/private/optimizations/{optimization_id}",
    "DELETE /v1/private/optimizations/{optimization_id}/marks/{number}",
    "DELETE /v1/private/optimizations/{optimization_id}/questions/{question_id}",
    "DELETE /v1/private/optimizations/{optimization_id}/questions/{question_id}/items/{position}/label",
    # What can be said is the question's own, which no generated body is.
    "PUT /v1/private/optimizations/{optimization_id}/questions/{question_id}/items/{position}/label",
    # A team that is not there.
    "PUT /v1/private/teams/{team}/budget",
    "GET /v1/private/teams/{team}/months",
    # The run has rejected nothing.
    "GET /v1/private/optimizations/{optimization_id}/rejections/{round}/{proposed_index}",
    # Asked with the slash of a name as it is, these paths are others.
    "POST /v1/private/prompts/{prompt}/release",
    "POST /v1/private/prompts/{prompt}/render",
    "POST /v1/private/prompts/{prompt}/rollback",
}
"""Operations that answer nothing but 404 here."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("phases", ["fuzzing", "coverage,fuzzing"])
async def test_the_server_does_what_its_openapi_document_says(
    guarded_url: str, finished: str, servers: Servers, tmp_path: Path, phases: str
) -> None:
    (tmp_path / "a.png").write_bytes(png())
    seen = await ingest(servers.database, InlineItems([Item(input={"$file": "a.png"})], folder=tmp_path))
    async with await open_store(database_url=servers.database_url) as prompts:
        await prompts.seed(template("tests/contract"))
    async with httpx.AsyncClient(base_url=guarded_url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as client:
        await client.get("/v1/private/openapi.json")  # built once, in longer than schemathesis waits on a busy machine
        best = (await client.get(f"/v1/private/optimizations/{finished}")).json()["best_candidate_id"]
        note = (await client.post(f"/v1/private/optimizations/{finished}/marks", json={"kind": "note", "text": "x"})).json()
        asked = {"kind": "right_or_wrong", "words": "Is it right?"}
        question = (await client.post(f"/v1/private/optimizations/{finished}/questions", json=asked)).json()["question_id"]
        said = f"/v1/private/optimizations/{finished}/questions/{question}/items/0/label"
        (await client.put(said, json={"label": "right"})).raise_for_status()
    configuration = tmp_path / "schemathesis.toml"
    given = {"run": finished, "candidate": best, "digest": sha256(png()).hexdigest(), "number": note["number"]}
    given |= {"prompt": "tests/contract", "dataset": seen.dataset_id, "question": question}
    configuration.write_text(CONFIGURATION.format(examples=3, **given))
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(configuration), "--no-color", "run"]
    command += [f"{guarded_url}/v1/private/openapi.json", "--header", f"Authorization: Bearer {TOKEN}"]
    command += ["--phases", phases]
    asking = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await asking.communicate()
    assert asking.returncode == 0, output.decode()[-8000:]
    told = output.decode()
    missing = told.partition("Missing test data: ")[2].partition("Schema validation mismatch")[0]
    # Other tests of the session may have made what some of them would find.
    assert set(re.findall(r"^\s*- ([A-Z]+ /v1/\S+)$", missing, re.MULTILINE)) <= NOT_THERE, told[-4000:]


async def test_the_document_describes_every_path_parameter_and_answer(guarded_url: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=guarded_url, headers=headers, timeout=60) as client:
        document = (await client.get("/v1/private/openapi.json")).json()
    operations = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if path.startswith("/v1/")
    ]
    assert len(operations) > 20
    assert '"format": "duration"' not in json.dumps(document)  # a measured time has fractions, which that format has not
    for path, method, operation in operations:
        where = f"{method} {path}"
        assert len(operation["description"]) > 10, where
        assert {"401", "403", "422", "503"} <= set(operation["responses"]), where
        assert all(parameter.get("description") for parameter in operation.get("parameters", [])), where
