"""An optimizer, a scorer and a target, each from one file and one line: checked, run, reported, replayed and shown like all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from clients.checks.costs.estimate import estimate
from clients.checks.findings import check_spec
from clients.http.access.security import Trust
from clients.http.app import serving_http
from clients.replay.temporal_histories import replay_histories
from clients.reports.history.entries import report_json
from clients.reports.history.files import history_text
from clients.reports.load import facts_of
from clients.reports.text.boxes import Verbosity, box
from clients.runs.service.servers import Servers
from store.read.reader import StoreReader
from tests.support.engines import Engines
from tests.support.one_file_extensions import known_extensions
from tests.support.replaying import differences_in_export, differences_in_store
from workflows.model.spec.request import spec_schema

SPEC: dict[str, Any] = {
    "name": "extended",
    "configuration": {"slope": {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 100}},
    "target": {"kind": "line", "slope": "{{factors.slope}}"},
    "dataset": {"items": [{"id": f"s{n}", "input": {"n": n}, "expected": 2 * n} for n in range(1, 7)], "splits": "none"},
    "scorers": [{"kind": "near", "name": "nearness", "reach": 50}],
    "objective": "nearness",
    "optimizer": {"name": "halving", "factor": "slope", "towards": 2},
    "seed": 7,
}


@pytest.fixture(autouse=True)
def extended() -> Iterator[None]:
    with known_extensions():
        yield


async def _findings(directory: Path, **changes: Any) -> list[str]:
    (directory / "spec.yaml").write_text(yaml.safe_dump({**SPEC, **changes}))
    return [finding.message for finding in (await check_spec(directory / "spec.yaml")).findings]


async def test_a_spec_that_names_them_is_checked_with_their_own_rules(tmp_path: Path) -> None:
    assert await _findings(tmp_path) == []
    checked = await check_spec(tmp_path / "spec.yaml")
    assert estimate(checked).trials == 4
    [problem] = await _findings(tmp_path, optimizer={"name": "halving", "factor": "nothing", "towards": 2})
    assert problem == "optimizer.factor: 'nothing' is no whole number that may change; name one"
    [problem] = await _findings(tmp_path, target={"kind": "line", "slope": "{{factors.steepness}}"})
    assert problem == "target.slope: placeholder {{factors.steepness}} names no factor; known are slope"
    [problem] = await _findings(
        tmp_path, dataset={"items": [{"id": "s", "input": {"n": 1}, "expected": "much"}], "splits": "none"}
    )
    assert problem.startswith("dataset.items[0].expected: is no number, which scorers[0] (near) needs")
    [problem] = await _findings(tmp_path, scorers=[{"kind": "near", "name": "nearness", "reach": 0}])
    assert problem.startswith("scorers[0].reach: ")


def test_the_schema_for_editors_describes_them() -> None:
    schema: Any = spec_schema()
    assert {"HalvingOptimizer", "NearScorer", "LineTarget"} <= set(schema["$defs"])
    assert schema["properties"]["optimizer"]["discriminator"]["mapping"]["halving"] == "#/$defs/HalvingOptimizer"


async def test_a_run_of_them_is_run_reported_replayed_and_shown(engines: Engines) -> None:
    handle = await engines.start(SPEC, run_id="extended")
    result = await handle.result()
    assert (result["status"], result["message"]) == ("completed", "Halved 3 times")
    assert result["best_configuration"] == {"slope": 3}
    assert result["baseline_score"] == pytest.approx(0.44)

    report = await StoreReader(engines.database).runs.report("extended")
    assert report is not None
    facts = facts_of(report)
    assert "slope" in box(facts, Verbosity.FULL)
    assert report_json(facts)["status"] == "completed"
    assert "Halving the way to 2" in history_text(facts)

    assert await differences_in_store(engines.database, "extended") == []
    assert await differences_in_export(engines.database, "extended") == []
    replayed = await replay_histories(engines.client, "extended", report.run.result)
    assert (replayed.executions, replayed.trials, replayed.failures, replayed.differences) == (1, 4, [], [])

    at = engines.addresses
    servers = Servers(engines.client, engines.database, at.database_url, at.temporal_address, at.namespace, None, embedded=True)
    async with (
        serving_http(servers, Trust.of("127.0.0.1", None), "optimization", port=0) as address,
        httpx.AsyncClient(base_url=f"{address.url}/v1/private", timeout=30) as http,
    ):
        shown = (await http.get("/optimizations/extended")).raise_for_status().json()
        assert shown["optimizer"] == "halving"
        trials = (await http.get("/optimizations/extended/trials")).raise_for_status().json()["items"]
        assert len(trials) == 4
        item = (
            (await http.get(f"/optimizations/extended/trials/{trials[0]['candidate_id']}/items"))
            .raise_for_status()
            .json()["items"][0]
        )
        assert set(item["scores"]) == {"nearness"}
        started = await http.post("/optimizations", json={**SPEC, "name": "extended-over-http"})
        assert started.status_code == 201, started.text
        again = await engines.client.get_workflow_handle(started.json()["optimization_id"]).result()
        assert again["best_score"] == result["best_score"]
