"""Starting and steering runs over HTTP: real workflows do what is asked, or say why not."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.engines import Engines
from tests.support.hill_specs import gated_spec, hill_spec
from tests.support.http_api import ask, until
from tests.support.release_runs import CONFIGURATION


async def test_a_spec_is_started_once_and_found_again(http: httpx.AsyncClient) -> None:
    spec = hill_spec(name="posted", stop={"max_rounds": 1})
    first = await ask(http, "", spec, 201)
    assert first["created"]
    await until(http, first["optimization_id"], "completed")
    again = await ask(http, "", spec, 200)
    assert (again["optimization_id"], again["created"], again["status"]) == (first["optimization_id"], False, "completed")
    another = await ask(http, "?new=true", spec, 201)
    assert another["optimization_id"] == f"{first['optimization_id']}-2"
    await until(http, another["optimization_id"], "completed")


async def test_a_finished_run_is_rescored_once_and_only_by_a_spec_with_its_answers(http: httpx.AsyncClient) -> None:
    spec = hill_spec(name="measured", stop={"max_rounds": 1})
    first = (await ask(http, "", spec, 201))["optimization_id"]
    await until(http, first, "completed")
    lower = {**spec, "objective": {"metric": "height", "direction": "minimize"}}
    anew = await ask(http, f"/{first}/rescore", lower, 201)
    await until(http, anew["optimization_id"], "completed")
    assert (await ask(http, f"/{first}/rescore", lower, 200))["optimization_id"] == anew["optimization_id"] != first
    assert (await http.get(f"/optimizations/{anew['optimization_id']}")).json()["spend"]["samples"] == 0
    refused = await http.post(f"/optimizations/{first}/rescore", json={**lower, "seed": 8})
    assert (refused.status_code, refused.json()["error"]["message"].partition(":")[0]) == (409, "seed")
    assert (await http.post("/optimizations/unknown/rescore", json=lower)).status_code == 404


async def test_a_winner_is_released_by_the_rules_of_the_command_line(http: httpx.AsyncClient, engines: Engines) -> None:
    items = {"items": [{"id": f"s{n}", "input": n} for n in range(12)], "splits": {"validation": 0.5, "test": 0.5}}
    worse = {"kind": "python", "ref": "plugged:hill_of_the_searched"}
    parts = {"configuration": CONFIGURATION, "dataset": items, "stop": {"max_rounds": 12, "no_improvement": 0}}
    run_id = (await engines.run(hill_spec(name="http-regressed", target=worse, **parts)))["optimization_id"]

    async def refused(status: int, field: str, **asked: Any) -> str:
        answer = await http.post(f"/optimizations/{run_id}/release", json=asked)
        assert (answer.status_code, answer.json()["error"]["field"]) == (status, field), answer.text
        return str(answer.json()["error"]["message"])

    assert "the confirmation shows a regression" in await refused(409, "force", by="bea", prompt="http/regressed")
    assert "names no prompt" in await refused(422, "prompt", by="bea", force=True)
    await refused(422, "prompt", by="bea", force=True, prompt="no slash")
    await refused(422, "by", prompt="http/regressed")
    assert (await http.get("/prompts/http%2Fregressed")).status_code == 404, "nothing is made before it is released"
    done = (
        await http.post(f"/optimizations/{run_id}/release", json={"by": "bea", "prompt": "http/regressed", "force": True})
    ).json()
    assert (done["status"], done["tag"], done["asked_by"]) == ("released", "stable", "bea")
    assert (await http.post("/optimizations/nowhere/release", json={"by": "bea"})).status_code == 404


async def test_the_same_spec_posted_by_many_at_once_is_one_run(http: httpx.AsyncClient) -> None:
    spec = hill_spec(name="crowd", stop={"max_rounds": 1})
    answers = await asyncio.gather(*(http.post("/optimizations", json=spec) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert len({answer.json()["optimization_id"] for answer in answers}) == 1


async def test_a_spec_with_mistakes_is_refused_field_by_field_and_nothing_begins(
    http: httpx.AsyncClient, engines: Engines
) -> None:
    spec = hill_spec(name="wrong", optimiser="x", replicates=0)
    answer = await http.post("/optimizations", json=spec)
    assert answer.status_code == 422
    assert {problem["field"] for problem in answer.json()["problems"]} == {"optimiser", "replicates"}
    unknown = await http.post("/optimizations", json=hill_spec(name="wrong", dataset={"name": "never-added"}))
    assert (unknown.status_code, unknown.json()["error"]["field"]) == (422, "dataset.name")
    inconsistent = await http.post("/optimizations", json=hill_spec(name="wrong", objective={"metric": "height", "kind": "f1"}))
    assert inconsistent.status_code == 422
    assert "classification" in inconsistent.json()["error"]["message"]
    assert (await http.get("/optimizations?search=wrong")).json()["total"] == 0


async def test_a_run_pauses_is_adjusted_takes_a_proposal_goes_on_and_stops(http: httpx.AsyncClient, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    spec = gated_spec(gate, name="steered", stop={"max_rounds": 50, "no_improvement": 0})
    run_id = (await ask(http, "", spec, 201))["optimization_id"]
    await until(http, run_id, "running")
    assert "pausing" in (await ask(http, f"/{run_id}/pause"))["message"]
    gate.touch()
    await until(http, run_id, "paused")
    adjusted = await ask(http, f"/{run_id}/adjust", {"max_rounds": 40, "budget": {"cost": 3.5}})
    assert "adjusted" in adjusted["message"]
    shown = await until(http, run_id, "paused")
    assert (shown["max_rounds"], shown["budget"]["cost"]) == (40, 3.5)
    proposal = {"configuration": {"x": 600}, "rationale": "further up"}
    assert "queued" in (await ask(http, f"/{run_id}/proposals", proposal))["message"]
    await ask(http, f"/{run_id}/resume")
    async with asyncio.timeout(30):
        while (best := (await http.get(f"/optimizations/{run_id}")).json())["best_score"] < 0.89:
            await asyncio.sleep(0.05)
    candidate = (await http.get(f"/optimizations/{run_id}/candidates/{best['best_candidate_id']}")).json()
    assert candidate["configuration"]["x"] >= 600
    assert "asked to stop" in (await ask(http, f"/{run_id}/stop", {"reason": "high enough"}))["message"]
    ended = await until(http, run_id, "completed")
    assert (ended["stop_reason"], ended["message"]) == ("stopped_early", "Stopped early: high enough")
    for wish in ("stop", "cancel", "pause", "resume"):
        told = await ask(http, f"/{run_id}/{wish}", status=409)
        # The store knows of the end a moment before Temporal does.
        assert re.search("completed already|has just ended", told["error"]["message"])


async def test_a_run_is_cancelled_with_what_it_knows(http: httpx.AsyncClient, tmp_path: Path) -> None:
    run_id = (await ask(http, "", gated_spec(tmp_path / "gate", name="cut"), 201))["optimization_id"]
    await until(http, run_id, "running")
    async with asyncio.timeout(30):
        while not (trials := (await http.get(f"/optimizations/{run_id}/outline")).json()["trials"]):
            await asyncio.sleep(0.05)
    trial_id = f"{run_id}/{trials[0]['candidate_id'].replace('-', '/', 1)}"
    announced = {"workflow_id": trial_id, "experiment_id": "e1"}
    assert "announced" in (await ask(http, f"/{run_id}/experiments", announced))["message"]
    await ask(http, f"/{run_id}/experiments", {**announced, "workflow_id": "other/r0/1"}, 422)
    await ask(http, f"/{run_id}/experiments", {**announced, "workflow_id": f"{run_id}/r9/1"}, 409)
    await ask(http, f"/{run_id}/cancel")
    ended = await until(http, run_id, "cancelled")
    assert ended["stop_reason"] == "cancelled"
    outline = (await http.get(f"/optimizations/{run_id}/outline")).json()
    assert [trial["status"] for trial in outline["trials"]] == ["cancelled"]


@pytest.mark.parametrize(
    ("wish", "body", "field"),
    [
        ("adjust", {}, None),
        ("adjust", {"max_rounds": -1}, "max_rounds"),
        ("adjust", {"budget": {"cots": 1}}, "budget.cots"),
        ("proposals", {"configuration": {"y": 1}}, None),
        ("proposals", {"configuration": {"x": 10**6}}, None),
    ],
)
async def test_wishes_that_make_no_sense_are_refused(
    http: httpx.AsyncClient, tmp_path: Path, wish: str, body: dict[str, Any], field: str | None
) -> None:
    run_id = (await ask(http, "", gated_spec(tmp_path / "gate", name="firm"), 201))["optimization_id"]
    await until(http, run_id, "running")
    told = await ask(http, f"/{run_id}/{wish}", body, 422)
    assert told["error"]["field"] == field, told
    (tmp_path / "gate").touch()
    await ask(http, f"/{run_id}/cancel")


async def test_the_same_wish_with_the_same_key_is_asked_once(http: httpx.AsyncClient, engines: Engines, tmp_path: Path) -> None:
    run_id = (await ask(http, "", gated_spec(tmp_path / "gate", name="keyed"), 201))["optimization_id"]
    await until(http, run_id, "running")
    proposal = {"configuration": {"x": 77}}
    for _ in range(3):
        answer = await http.post(f"/optimizations/{run_id}/proposals", json=proposal, headers={"Idempotency-Key": "once"})
        assert answer.status_code == 200, answer.text
    history = await engines.client.get_workflow_handle(run_id).fetch_history()
    assert sum(event.HasField("workflow_execution_update_accepted_event_attributes") for event in history.events) == 1
    await ask(http, f"/{run_id}/cancel")


async def test_a_run_that_asked_for_no_release_has_none_to_rule_on(http: httpx.AsyncClient, finished: str) -> None:
    for ruling in ("approve", "reject"):
        told = await ask(http, f"/{finished}/{ruling}", {"by": "ada"}, 409)
        assert "waits for approval" in told["error"]["message"]
        assert (await ask(http, f"/{finished}/{ruling}", {}, 422))["error"]["field"] == "by"
        await ask(http, f"/nowhere/{ruling}", {"by": "ada"}, 404)
    assert (await http.get(f"/optimizations/{finished}/releases")).json() == []


async def test_only_finished_runs_are_deleted(http: httpx.AsyncClient, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    run_id = (await ask(http, "", gated_spec(gate, name="gone", stop={"max_rounds": 1}), 201))["optimization_id"]
    await until(http, run_id, "running")
    assert (await http.delete(f"/optimizations/{run_id}")).status_code == 409
    gate.touch()
    await until(http, run_id, "completed")
    async with asyncio.timeout(60):  # what is stored as completed is closed in Temporal a moment later
        while (deleted := await http.delete(f"/optimizations/{run_id}")).status_code == 409:
            await asyncio.sleep(0.05)
    assert deleted.status_code == 200
    assert (await http.get(f"/optimizations/{run_id}")).status_code == 404
