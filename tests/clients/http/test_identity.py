"""One identity: a spec gets the same run id from the command line and over HTTP, and another one when what it names changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from clients.checks.findings import check_spec
from clients.checks.plan_summary import summary_of
from clients.runs.service.servers import Servers
from clients.runs.start_plan import plan_run
from ratchet.prompts import open_store
from tests.support.engines import PLUGINS
from tests.support.hill_specs import hill_spec
from tests.support.http_api import ask, until
from tests.support.pictures import png
from tests.support.prompt_examples import template, toned

OWN = """
from own_words import WORDS

def answer(configuration, sample, context):
    return WORDS.get(sample.input["n"], "no")
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a spec lies with its data and its code, which the operator of the server lets it read."""
    (tmp_path / "plugged.py").write_bytes((PLUGINS / "plugged.py").read_bytes())
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "own_words.py").write_text("WORDS = {1: 'yes'}\n")
    (tmp_path / "data.jsonl").write_text("".join(f'{{"id": "s{n}", "input": {n}}}\n' for n in range(8)))
    for name in ("RATCHET_DATA_DIR", "RATCHET_PLUGIN_PATH"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("RATCHET_PLUGINS", raising=False)
    return tmp_path


def own_spec(**parts: Any) -> dict[str, Any]:
    """A spec that names code of its own, which no worker of the tests imports."""
    items = [{"input": {"n": n}, "expected": "yes"} for n in range(3)]
    return {
        "name": "owned",
        "configuration": {"k": {"value": 1, "change": "structured", "type": "integer", "min": 0, "max": 9}},
        "target": {"kind": "python", "ref": "own:answer"},
        "dataset": {"items": items, "splits": "none"},
        "objective": "exact",
        "optimizer": {"proposer": {"kind": "step"}},
        **parts,
    }


async def by_command(servers: Servers, directory: Path, spec: dict[str, Any]) -> str:
    """The id that `ratchet run` would start it under."""
    (directory / "spec.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    checked = await check_spec(directory / "spec.yaml", endpoints=False)
    assert checked.errors == []
    planned = await plan_run(servers, checked)
    foreseen: Any = summary_of(checked)[1]["run_id"]
    assert foreseen in (planned.run_id, None), "`ratchet check` tells the same id, for those who start it through Temporal"
    return planned.run_id


async def by_http(http: httpx.AsyncClient, spec: dict[str, Any]) -> str:
    answer = await http.post("/optimizations", json=spec)
    assert answer.status_code in (200, 201), answer.text
    assert answer.json()["unseen"] == []
    return str(answer.json()["optimization_id"])


async def test_both_doors_lead_to_one_run(http: httpx.AsyncClient, servers: Servers, directory: Path) -> None:
    spec = hill_spec(name="one", dataset={"path": "data.jsonl"}, stop={"max_rounds": 1})
    first = await ask(http, "", spec, 201)
    await until(http, first["optimization_id"], "completed")
    assert first["unseen"] == []
    assert await by_command(servers, directory, spec) == first["optimization_id"]
    assert (await ask(http, "", spec, 200))["optimization_id"] == first["optimization_id"]


async def test_other_data_is_another_run(http: httpx.AsyncClient, servers: Servers, directory: Path) -> None:
    spec = hill_spec(name="data", dataset={"path": "data.jsonl"}, stop={"max_rounds": 1})
    before = await by_http(http, spec)
    with (directory / "data.jsonl").open("a") as more:
        more.write('{"id": "s8", "input": 8}\n')
    after = await by_http(http, spec)
    assert before != after == await by_command(servers, directory, spec)
    detail = await until(http, after, "completed")
    assert detail["dataset_count"] == 9, "what was read is what is run"
    (directory / "data.jsonl").unlink()
    gone = await ask(http, "", spec, 422)
    assert (gone["error"]["field"], "RATCHET_DATA_DIR" in gone["error"]["message"]) == ("dataset.path", True)


async def test_one_file_for_each_split_counts_by_what_is_in_them(
    http: httpx.AsyncClient, servers: Servers, directory: Path
) -> None:
    (directory / "dev.jsonl").write_text('{"input": 100}\n{"input": 101}\n')
    spec = hill_spec(
        name="parted", dataset={"paths": {"validation": "data.jsonl", "test": "dev.jsonl"}}, stop={"max_rounds": 1}
    )
    before = await by_http(http, spec)
    assert before == await by_command(servers, directory, spec)
    (directory / "dev.jsonl").write_text('{"input": 102}\n')
    assert before != await by_http(http, spec) == await by_command(servers, directory, spec)
    other = {"validation": "dev.jsonl", "test": "data.jsonl"}
    assert await by_http(http, {**spec, "dataset": {"paths": other}}) not in (before, await by_http(http, spec))


async def test_another_picture_under_the_same_name_is_another_run(
    http: httpx.AsyncClient, servers: Servers, directory: Path
) -> None:
    (directory / "a.png").write_bytes(png(1))
    items = [{"input": {"n": n, "picture": {"$file": "a.png"}}, "expected": "yes"} for n in range(3)]
    spec = own_spec(name="pictured", dataset={"items": items, "splits": "none"})
    factors = {**spec["configuration"], "style": {"value": {"$file": "a.png"}}}
    styled = {**own_spec(name="styled"), "configuration": factors}
    before = [await by_http(http, one) for one in (spec, styled)]
    assert before == [await by_command(servers, directory, one) for one in (spec, styled)]
    (directory / "a.png").write_bytes(png(2))
    for run_id, one in zip(before, (spec, styled), strict=True):
        assert run_id != await by_http(http, one) == await by_command(servers, directory, one)


@pytest.mark.parametrize("changed", ["own.py", "own_words.py"])
async def test_other_code_is_another_run(http: httpx.AsyncClient, servers: Servers, directory: Path, changed: str) -> None:
    spec = own_spec(name=f"code-{changed.partition('.')[0]}")
    before = await by_http(http, spec)
    assert before == await by_http(http, spec) == await by_command(servers, directory, spec)
    with (directory / changed).open("a") as more:
        more.write("LATER = True\n")
    after = await by_http(http, spec)
    assert before != after == await by_command(servers, directory, spec)


async def test_code_that_lies_elsewhere_counts_wherever_it_is_imported_from(
    http: httpx.AsyncClient, servers: Servers, directory: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: Any
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    spec = own_spec(name="elsewhere")
    there = await by_command(servers, directory, spec)
    for name in ("own.py", "own_words.py"):
        (directory / name).rename(elsewhere / name)
    monkeypatch.setenv("PYTHONPATH", str(elsewhere))
    monkeypatch.setenv("RATCHET_PLUGINS", "own")
    assert await by_command(servers, directory, spec) == there == await by_http(http, spec)
    (elsewhere / "own_words.py").write_text("WORDS = {}\n")
    assert await by_command(servers, directory, spec) != there


async def test_another_prompt_at_its_tag_is_another_run(http: httpx.AsyncClient, servers: Servers, directory: Path) -> None:
    prompt = template("doors/triage")
    spec = own_spec(
        name="prompted",
        prompt="doors/triage",
        dataset={"items": [{"input": {"ticket": "Where is it?"}, "expected": "yes"}], "splits": "none"},
        optimizer={"proposer": {"kind": "step"}, "factors": ["param:risk", "param:tries"]},
    )
    del spec["configuration"]
    async with await open_store(servers.database_url) as store:
        await store.seed(prompt)
        before = await by_http(http, spec)
        assert before == await by_command(servers, directory, spec)
        await store.store(prompt, toned("Be polite.", prompt), tag="stable", expected=1)
        after = await by_http(http, spec)
        assert before != after == await by_command(servers, directory, spec)
    lost = await ask(http, "", {**spec, "prompt": "doors/nobody"}, 422)
    assert (lost["error"]["field"], "the store has no prompt" in lost["error"]["message"]) == ("prompt.name", True)


async def test_a_prompt_from_a_file_counts_by_its_content(http: httpx.AsyncClient, servers: Servers, directory: Path) -> None:
    file = directory / "triage.yaml"
    file.write_text(yaml.safe_dump(template().model_dump(mode="json", by_alias=True)))
    spec = own_spec(
        name="filed",
        prompt={"file": "triage.yaml"},
        dataset={"items": [{"input": {"ticket": "Where is it?"}, "expected": "yes"}], "splits": "none"},
        optimizer={"proposer": {"kind": "step"}, "factors": ["param:risk", "param:tries"]},
    )
    del spec["configuration"]
    before = await by_http(http, spec)
    assert before == await by_command(servers, directory, spec)
    file.write_text(file.read_text().replace("brief", "short"))
    assert before != await by_http(http, spec) == await by_command(servers, directory, spec)


async def test_what_only_workers_may_read_is_told(
    http: httpx.AsyncClient, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RATCHET_DATA_DIR", "RATCHET_PLUGIN_PATH"):
        monkeypatch.delenv(name)
    spec = own_spec(name="unseen", dataset={"path": "data.jsonl"}, scorers=[{"kind": "exact"}])
    assert (await ask(http, "", spec, 201))["unseen"] == ["dataset.path", "target.ref"]
    versioned = {**spec, "name": "stated", "target": {**spec["target"], "version": "3"}}
    assert (await ask(http, "", versioned, 201))["unseen"] == ["dataset.path"]


async def test_how_samples_are_grouped_is_part_of_the_identity(
    http: httpx.AsyncClient, servers: Servers, directory: Path
) -> None:
    rows = [{"input": {"n": n, "customer": n % 3}, "expected": "yes"} for n in range(9)]
    (directory / "grouped.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    apart = own_spec(name="grouped", dataset={"path": "grouped.jsonl"})
    together = own_spec(name="grouped", dataset={"path": "grouped.jsonl", "group_by": "input.customer"})
    assert await by_http(http, apart) != await by_http(http, together) == await by_command(servers, directory, together)
