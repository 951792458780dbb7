"""Reading runs over HTTP: the words of the API, pages, and what is told when there is nothing to read."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from clients.reports.headline import headline_of
from clients.reports.load import facts_of
from store.read.reader import StoreReader
from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec, split_items


async def read(http: httpx.AsyncClient, path: str, status: int = 200) -> Any:
    answer = await http.get(f"/optimizations{path}")
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_the_list_has_the_newest_runs_first_with_their_limits(
    http: httpx.AsyncClient, engines: Engines, finished: str
) -> None:
    await engines.run(
        hill_spec(name="younger", budget={"cost": 5, "wall_time": "2h"}, stop={"max_rounds": 1}), run_id="younger"
    )
    older = {run["optimization_id"]: run for run in (await read(http, f"?search={finished}"))["items"]}[finished]
    listed = await read(http, "")
    ids = [run["optimization_id"] for run in listed["items"]]
    younger = listed["items"][ids.index("younger")]
    assert younger["started_at"] > older["started_at"]
    assert [run["started_at"] for run in listed["items"]] == sorted(
        (run["started_at"] for run in listed["items"]), reverse=True
    )
    assert (younger["max_rounds"], younger["budget"]["cost"], younger["budget"]["wall_time"]) == (1, 5.0, 7200.0)
    assert younger["objective_name"] == "height"
    assert listed["total"] >= len(ids)
    assert [run["optimization_id"] for run in (await read(http, "?search=OUNGE"))["items"]] == ["younger"]
    assert [run["optimization_id"] for run in (await read(http, "?limit=1&offset=1"))["items"]] == [ids[1]]
    assert (await read(http, "?status=failed&search=younger"))["items"] == []


async def test_a_run_is_shown_with_its_spec_its_result_and_what_was_confirmed(http: httpx.AsyncClient, finished: str) -> None:
    run = await read(http, f"/{finished}")
    assert run["status"] == "completed"
    assert run["spec"]["configuration"]["x"]["value"] == 10
    assert run["result"]["best_candidate_id"] == run["best_candidate_id"]
    assert run["confirmation"]["judged"]["verdict"] == "better"
    assert run["execution"] == "closed"
    assert run["stop"]["max_rounds"] == 6
    assert run["in_flight"] == {"answered": 0, "expected": 0, "trials": []}


async def test_trials_come_in_the_words_of_the_contract_and_in_pages(http: httpx.AsyncClient, finished: str) -> None:
    page = await read(http, f"/{finished}/trials?limit=2&offset=1")
    assert (page["total"], [trial["round"] for trial in page["items"]]) == (9, [1, 2])
    trial = page["items"][0]
    assert set(trial) >= {
        "optimization_id",
        "candidate_id",
        "mask_id",
        "experiment_id",
        "status",
        "objective_score",
        "summary",
        "error",
    }
    assert set(trial["summary"]) >= {"total", "passed", "failed", "pass_rate", "total_cost", "avg_latency_ms", "avg_ttft_ms"}
    newest = await read(http, f"/{finished}/trials?limit=1&newest_first=true")
    assert newest["items"][0]["purpose"] == "confirmation"
    whole = await read(http, f"/{finished}/trials/{trial['candidate_id']}")
    assert whole["configuration"]["x"] != 10
    assert len(whole["sample_means"]) == 6


async def test_the_outline_has_every_trial_and_later_only_those_that_changed(http: httpx.AsyncClient, finished: str) -> None:
    outline = await read(http, f"/{finished}/outline")
    assert len(outline["trials"]) == 9
    baseline = outline["trials"][0]
    assert baseline["low"] < baseline["objective_score"] < baseline["high"]
    assert "error" not in baseline
    assert outline["trials"][2]["parents"]
    assert (await read(http, f"/{finished}/outline?since={outline['last_event_id']}"))["trials"] == []
    since_the_middle = await read(http, f"/{finished}/outline?since={outline['last_event_id'] - 10}")
    assert 0 < len(since_the_middle["trials"]) < 9


async def test_a_candidate_says_what_it_changes_of_the_baseline_and_of_its_parents(
    http: httpx.AsyncClient, finished: str
) -> None:
    trials = (await read(http, f"/{finished}/trials"))["items"]
    last = next(trial for trial in trials if trial["round"] == 3)
    candidate = await read(http, f"/{finished}/candidates/{last['candidate_id']}")
    [parent] = candidate["parents"]
    assert parent["candidate_id"] == last["parent_candidate_ids"][0] != candidate["baseline"]["candidate_id"]
    [change] = candidate["baseline"]["changes"]
    assert (change["factor"], change["before"], change["after"]) == ("x", 10, candidate["configuration"]["x"])
    assert {segment["kind"] for segment in change["segments"]} == {"removed", "added"}


async def test_two_trials_are_compared_sample_by_sample_on_either_split(http: httpx.AsyncClient, finished: str) -> None:
    run = await read(http, f"/{finished}")
    best = run["best_candidate_id"]
    compared = await read(http, f"/{finished}/comparison?candidate={best}&limit=2")
    assert compared["baseline"]["candidate_id"] == run["baseline_candidate_id"]
    assert sum(compared["counts"].values()) == compared["total"] == len(compared["turns"]) == 6
    assert compared["judged"]["evidence"]["effect"] > 0.05
    sample = compared["items"][0]
    assert sample["baseline_answers"][0]["output"]["height"] < sample["candidate_answers"][0]["output"]["height"]
    assert len(compared["items"]) == 2
    confirmed = await read(http, f"/{finished}/comparison?candidate={best}&purpose=confirmation")
    assert confirmed["baseline"]["split"] == "test"
    assert confirmed["judged"]["evidence"]["effect"] == pytest.approx(run["confirmation"]["judged"]["evidence"]["effect"])
    assert (await read(http, f"/{finished}/comparison?candidate={best}&only=broken"))["items"] == []


async def test_a_trial_is_shown_by_slice_beside_the_baseline(http: httpx.AsyncClient, finished: str) -> None:
    best = (await read(http, f"/{finished}"))["best_candidate_id"]
    sliced = await read(http, f"/{finished}/trials/{best}/slices")
    assert {part["name"] for part in sliced["slices"]} == {"even", "odd"}
    trial = await read(http, f"/{finished}/trials/{best}")
    parts = sliced["slices"]
    assert sum(part["samples"] for part in parts) == 6
    whole = sum(part["objective_score"] * part["samples"] for part in parts) / 6
    assert whole == pytest.approx(trial["objective_score"])
    assert all(part["baseline_score"] < part["objective_score"] for part in parts)
    confirmed = await read(http, f"/{finished}/trials/{best}/slices?purpose=confirmation&field=tags&field=input")
    assert confirmed["split"] == "test"
    assert len([part for part in confirmed["slices"] if part["name"].startswith("input=")]) == 6
    told = (await read(http, f"/{finished}/trials/{best}/slices?field=id", 422))["error"]
    assert told["field"] == "field[0]"


async def test_a_run_leads_with_what_was_confirmed_in_the_list_in_full_and_in_its_report(
    http: httpx.AsyncClient, engines: Engines, finished: str
) -> None:
    run = await read(http, f"/{finished}")
    told, confirmation = run["headline"], run["confirmation"]
    assert (told["outcome"], told["verdict"], told["how"]) == ("better", confirmation["judged"]["verdict"], "test_split")
    assert (told["score"], told["baseline_score"]) == (confirmation["winner_score"], confirmation["baseline_score"])
    assert told["p_value"] == confirmation["judged"]["adjusted_p"]
    assert told["in_search"]["best_score"] == run["best_score"]
    report = await StoreReader(engines.database).runs.report(finished)
    assert report is not None
    assert headline_of(facts_of(report)).model_dump(mode="json") == told
    trial = await read(http, f"/{finished}/trials/{run['best_candidate_id']}")
    assert run["search_verdict"] == trial["judged"]["verdict"]
    [listed] = (await read(http, f"?search={finished}&limit=1"))["items"]
    assert listed["headline"] == told


async def test_whole_runs_are_compared_with_who_fixed_what_and_what_differs(
    http: httpx.AsyncClient, engines: Engines, finished: str
) -> None:
    dataset = split_items()
    await engines.run(hill_spec(name="short", dataset=dataset, stop={"max_rounds": 2, "no_improvement": 0}), run_id="short")
    told = await compare(http, "short", finished)
    assert told["samples"] == "held-back"
    [other] = told["compared"]
    run, short = await read(http, f"/{finished}"), await read(http, "/short")
    assert (told["reference"]["optimization_id"], other["optimization_id"]) == ("short", finished)
    assert other["score"] == run["confirmation"]["winner_score"]
    assert sum(other["counts"].values()) == 6
    effect = other["judged"]["evidence"]["effect"]
    assert effect == pytest.approx(run["confirmation"]["winner_score"] - short["confirmation"]["winner_score"])
    assert [change["factor"] for change in other["changes"]] == ["x"]
    candidate = f"{finished}/{run['baseline_candidate_id']}"
    [worse, same] = (await compare(http, finished, candidate, finished))["compared"]
    assert (worse["judged"]["verdict"], same["judged"]["evidence"]["effect"]) == ("worse", 0)
    path = f"/{finished}/comparison?candidate={run['best_candidate_id']}&against={short['best_candidate_id']}&against_run=short"
    pairs = await read(http, f"{path}&purpose=confirmation")
    assert pairs["judged"]["evidence"]["effect"] == pytest.approx(effect)
    assert (await read(http, f"/{finished}/comparison?candidate=x&against_run=nowhere", 404))["error"]["message"]


async def test_what_cannot_be_compared_is_refused_with_the_reason(
    http: httpx.AsyncClient, engines: Engines, finished: str
) -> None:
    await engines.run(hill_spec(name="elsewhere", stop={"max_rounds": 1}), run_id="elsewhere")
    assert "share no sample" in (await compare(http, finished, "elsewhere", status=409))["error"]["message"]
    assert "no run 'nowhere'" in (await compare(http, finished, "nowhere", status=404))["error"]["message"]
    assert "no candidate 'x'" in (await compare(http, finished, f"{finished}/x", status=404))["error"]["message"]
    assert (await compare(http, finished, status=422))["error"]["field"] == "of"


async def compare(http: httpx.AsyncClient, *names: str, status: int = 200) -> Any:
    answer = await http.get("/comparison", params=[("of", name) for name in names])
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_items_rounds_graph_rejections_and_history_are_there(http: httpx.AsyncClient, finished: str) -> None:
    run = await read(http, f"/{finished}")
    items = await read(http, f"/{finished}/trials/{run['best_candidate_id']}/items?limit=2&offset=4")
    assert (items["total"], len(items["items"])) == (6, 2)
    rounds = await read(http, f"/{finished}/rounds")
    assert [item["round_index"] for item in rounds["items"]] == list(range(7))
    assert rounds["items"][-1]["stopped"]
    graph = await read(http, f"/{finished}/graph")
    assert {node["candidate_id"] for node in graph["nodes"]} >= {edge["parent"] for edge in graph["edges"]}
    assert await read(http, f"/{finished}/rejections") == {"total": 0, "items": []}
    history = await read(http, f"/{finished}/history")
    assert [entry["round_index"] for entry in history] == list(range(7))


async def test_rejections_say_why(http: httpx.AsyncClient, engines: Engines) -> None:
    proposer = {"kind": "python", "ref": "plugged:wild_proposer"}
    await engines.run(hill_spec(name="wild", optimizer={"name": "refine", "proposer": proposer}), run_id="wild")
    rejected = await read(http, "/wild/rejections")
    assert rejected["total"] >= 3
    assert rejected["items"][0]["reason_code"] == "out_of_range"
    assert "1000" in rejected["items"][0]["message"]


PATHS = """
/trials /outline /log /rounds /graph /rejections /history /events /trials/x /trials/x/items /trials/x/slices
/candidates/x /comparison?candidate=x /slices /slices/scores?field=tags
"""


@pytest.mark.parametrize("path", ["", *PATHS.split()])
async def test_a_run_that_is_not_there_is_not_found_on_any_path(http: httpx.AsyncClient, path: str) -> None:
    told = (await read(http, f"/nowhere{path}", 404))["error"]
    assert (told["field"], "no run 'nowhere'" in told["message"]) == ("optimization_id", True)


async def test_a_candidate_that_is_not_there_is_named(http: httpx.AsyncClient, finished: str) -> None:
    for path in ("/trials/x", "/trials/x/items", "/trials/x/slices", "/candidates/x", "/comparison?candidate=x"):
        told = (await read(http, f"/{finished}{path}", 404))["error"]
        assert told["field"] == "candidate_id"
        assert "'x'" in told["message"]


async def test_wrong_parameters_are_named_with_what_is_allowed(http: httpx.AsyncClient, finished: str) -> None:
    for query, field in (("limit=0", "limit"), ("offset=-1", "offset"), ("status=lost", "status"), ("search=%00", "search")):
        told = (await read(http, f"?{query}", 422))["error"]
        assert told["field"] == field, told
    assert (await read(http, "/a%00b", 422))["error"]["field"] == "optimization_id"
    both = await read(http, f"/{finished}/comparison?only=x&limit=900", 422)
    assert {problem["field"] for problem in both["problems"]} == {"candidate", "only", "limit"}


async def test_a_refused_spec_and_a_run_that_waits_are_told_apart_from_nothing(
    http: httpx.AsyncClient, engines: Engines
) -> None:
    broken = hill_spec(name="broken", dataset={"name": "never-added"})
    handle = await engines.start(broken, run_id="broken")
    with pytest.raises(Exception, match="failed"):
        await handle.result()
    refused = await read(http, "/broken")
    assert (refused["status"], refused["execution"], refused["last_event_id"]) == ("failed", "closed", 0)
    assert "refused before it began" in refused["message"]
    assert "never-added" in refused["message"]
    told = (await read(http, "/broken/replay", 409))["error"]["message"]
    assert "refused before it began" in told
    assert (await http.delete("/optimizations/broken")).status_code == 409
    kept = await read(http, "/broken/spec")
    assert "never-added" in kept["text"] and (kept["written"], kept["dataset_id"]) == (None, None)
    with pytest.raises(Exception, match="failed"):
        await (await engines.start({"name": "no spec", "deep": [[["dish"]]]}, run_id="nothing-of-a-spec")).result()
    assert "dish" in (await read(http, "/nothing-of-a-spec/spec"))["text"], "it is shown as it was sent"


async def test_a_run_is_there_as_soon_as_it_was_accepted(http: httpx.AsyncClient, engines: Engines) -> None:
    spec = hill_spec(name="unserved", stop={"max_rounds": 3})
    await engines.client.start_workflow("OptimizationWorkflow", spec, id="waits", task_queue="nobody-serves-this")
    waits = await read(http, "/waits")
    assert (waits["status"], waits["execution"], waits["name"]) == ("initialized", "open", "unserved")
    assert waits["waits_for"] == ["nobody-serves-this"]
    assert "has not begun: it waits for a worker on task queue 'nobody-serves-this'" in waits["message"]
    assert (waits["max_rounds"], waits["spec"]["name"], waits["last_event_id"]) == (3, "unserved", 0)
    for path, answer in (
        ("rounds", {"total": 0, "items": []}),
        ("trials", {"total": 0, "items": []}),
        ("rejections", {"total": 0, "items": []}),
        ("graph", {"nodes": [], "edges": []}),
        ("outline", {"last_event_id": 0, "trials": []}),
        ("log", {"items": [], "has_more": False}),
        ("history", []),
        ("releases", []),
    ):
        assert await read(http, f"/waits/{path}") == answer, path
    for path in ("replay", "slices", "comparison?candidate=x"):
        refused = await http.get(f"/optimizations/waits/{path}")
        assert (refused.status_code, refused.headers["retry-after"]) == (409, "1"), path
    await engines.client.get_workflow_handle("waits").terminate()


async def test_a_run_whose_input_is_no_spec_is_shown_all_the_same(http: httpx.AsyncClient, engines: Engines) -> None:
    for number, given in enumerate(({"name": ["x"]}, [1], "text", {"name": "n", "stop": "never"})):
        run_id = f"odd-{number}"
        await engines.client.start_workflow("OptimizationWorkflow", given, id=run_id, task_queue="nobody-serves-this")
        assert ((await read(http, f"/{run_id}"))["status"]) == "initialized"
        await engines.client.get_workflow_handle(run_id).terminate()


async def test_a_run_that_was_just_accepted_is_in_the_list(http: httpx.AsyncClient) -> None:
    await read(http, "")  # what is found now is kept for a while
    spec = hill_spec(name="listed-at-once", stop={"max_rounds": 1})
    run_id = (await http.post("/optimizations", json=spec)).json()["optimization_id"]
    listed = await read(http, "?search=listed-at-once")
    assert [run["optimization_id"] for run in listed["items"]] == [run_id]


async def test_the_log_goes_back_from_the_newest_event_to_the_first(http: httpx.AsyncClient, finished: str) -> None:
    newest = await read(http, f"/{finished}/log?limit=5&trials=true")
    assert (newest["items"][0]["type"], newest["has_more"]) == ("run_finished", True)
    seen = newest["items"]
    while newest["has_more"]:
        newest = await read(http, f"/{finished}/log?limit=5&trials=true&before={seen[-1]['id']}")
        seen += newest["items"]
    ids = [event["id"] for event in seen]
    assert ids == sorted(set(ids), reverse=True)
    assert seen[-1]["facts"] == {"status": "initialized"}
    decided = await read(http, f"/{finished}/log")
    assert [event for event in seen if event["type"] != "trial_added_or_updated"] == decided["items"]
    assert any("beats" in told["explanation"] for event in seen for told in event["facts"].get("decisions", []))


async def test_what_a_round_decided_about_trials_is_among_what_changed_since(http: httpx.AsyncClient, finished: str) -> None:
    log = await read(http, f"/{finished}/log")
    decided = next(event for event in log["items"] if event["type"] == "progress_changed")
    since = await read(http, f"/{finished}/outline?since={decided['id'] - 1}")
    about = {told["candidate_id"] for told in decided["facts"]["decisions"]}
    assert about <= {trial["candidate_id"] for trial in since["trials"]}


async def test_who_has_the_spec_need_not_be_sent_it_again(http: httpx.AsyncClient, finished: str) -> None:
    whole, brief = await read(http, f"/{finished}"), await read(http, f"/{finished}?spec=false")
    assert whole["spec"]["name"] == "seen"
    assert brief == whole | {"spec": {}}


async def test_a_finished_run_is_gone_through_again(http: httpx.AsyncClient, engines: Engines, finished: str) -> None:
    told = await read(http, f"/{finished}/replay")
    assert (told["differences"], told["not_recomputed"]) == ([], [])
    assert told["trials"] > 2 and told["answers"] > 0
    change = "UPDATE runs SET best_score = best_score + $2 WHERE run_id = $1"
    async with engines.database.connection() as connection:
        await connection.execute(change, finished, 0.5)
        try:
            [found] = (await read(http, f"/{finished}/replay"))["differences"]
            assert (found["field"], found["stored"]) == ("runs.best_score", pytest.approx(found["recomputed"] + 0.5))
        finally:
            await connection.execute(change, finished, -0.5)
    assert "there is no run" in (await read(http, "/nobody/replay", 404))["error"]["message"]
