"""Teams: what one has is not there for another, whichever path asks for it, and whatever a spec names."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import WorkflowFailureError

from activities.datasets import InlineItems, ingest
from clients.http.access.roles import RULES
from clients.http.app import api_of
from clients.runs.service.servers import Servers
from ratchet.prompts import open_store
from store.read.access.access_tokens import Role
from store.write.access.teams import Teams
from tests.support.access_tokens import holding, made_token
from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec, split_items
from tests.support.http_api import TOKEN, ask, until
from tests.support.pictures import png
from tests.support.prompt_examples import template
from tests.support.release_runs import CONFIGURATION
from workflows.model.spec.dataset import Item

NAME_NO_RUN = {
    *("status", "search", "offset", "limit", "newest_first", "spec", "since", "before", "trials", "new", "last_event_id"),
    *("pinned", "q", "purpose", "part", "only_failed", "field", "format", "full", "candidate", "against", "only"),
    *("confirmation", "by", "slice", "after", "skip", "position", "at", "tag", "split", "round", "sample", "replicate"),
}
"""Parameters of queries: whoever adds one says here that it names no run, or gives it a rule."""
BODIES: dict[str, Any] = {"approve": {"comment": "x"}, "adjust": {"max_rounds": 3}, "proposals": {"configuration": {}}}


@dataclass(frozen=True)
class TwoTeams:
    """Two teams with a token each, and a finished run of the first."""

    alpha: httpx.AsyncClient
    beta: httpx.AsyncClient
    default: httpx.AsyncClient
    admin: httpx.AsyncClient
    run_id: str
    spec: dict[str, Any]


@pytest.fixture(scope="session")
async def two(guarded_url: str, servers: Servers) -> AsyncIterator[TwoTeams]:
    for team in ("alpha", "beta"):
        await Teams(servers.database).create(team, [f"{team}-prompts"], "a test")
    secrets = [
        await made_token(servers.database, f"of-{team}", Role.RELEASE, team=team) for team in ("alpha", "beta", "default")
    ]
    spec = hill_spec(name="apart", dataset=split_items(), stop={"max_rounds": 2}, reuse="always")
    async with (
        holding(guarded_url, secrets[0]) as alpha,
        holding(guarded_url, secrets[1]) as beta,
        holding(guarded_url, secrets[2]) as default,
        holding(guarded_url, TOKEN) as admin,
    ):
        run_id = (await ask(alpha, "", spec, 201))["optimization_id"]
        await until(alpha, run_id, "completed")
        yield TwoTeams(alpha, beta, default, admin, run_id, spec)


def paths_of_a_run() -> list[tuple[str, str]]:
    return [(method, path) for method, path in RULES if "{optimization_id}" in path]


def test_every_parameter_of_a_query_names_no_run_or_is_known_to_the_rules() -> None:
    nowhere: Any = None  # the paths are described without servers
    found = {
        (method.upper(), path, parameter["name"])
        for path, methods in api_of(nowhere).openapi()["paths"].items()
        for method, operation in methods.items()
        for parameter in operation.get("parameters", [])
        if parameter["in"] == "query" and parameter["name"] not in NAME_NO_RUN
    }
    ruled = {(*at, name) for at, rule in RULES.items() for name in (*rule.runs, *rule.entrants)}
    assert found - {("GET", "/v1/private/audit", "run")} == ruled  # which admins alone may ask


@pytest.mark.parametrize(("method", "path"), paths_of_a_run())
async def test_a_run_of_another_team_is_not_there(two: TwoTeams, method: str, path: str) -> None:
    body = BODIES.get(path.rpartition("/")[2], {}) if method == "POST" else None
    told = set()
    for client in (two.beta, two.default):
        at = path.removeprefix("/v1/private").format(
            optimization_id=two.run_id, candidate_id="r0-1", number=1, question_id=1, position=0, round=1, proposed_index=0
        )
        answer = await client.request(method, at, json=body)
        assert answer.status_code == 404, answer.text
        told.add(answer.json()["error"]["message"].replace(two.run_id, "…"))
    elsewhere = await two.beta.request(method, at.replace(two.run_id, "nowhere"), json=body)
    told.add(elsewhere.json()["error"]["message"].replace("nowhere", "…"))
    assert len(told) == 1, "nobody is told whether there is such a run"


async def test_its_own_team_and_admins_see_and_steer_it(two: TwoTeams) -> None:
    for client in (two.alpha, two.admin):
        assert (await client.get(f"/optimizations/{two.run_id}/trials")).status_code == 200
        assert (await client.post(f"/optimizations/{two.run_id}/stop")).status_code == 409
        assert (await client.get("/optimizations?search=apart")).json()["total"] >= 1
        assert two.run_id in [one["run_id"] for one in (await client.get("/search?q=apart")).json()["items"]]
    for client in (two.beta, two.default):
        assert (await client.get("/optimizations?search=apart")).json()["total"] == 0
        assert (await client.get("/search?q=apart")).json() == {"items": []}
    detail = (await two.alpha.get(f"/optimizations/{two.run_id}")).json()
    best = detail["best_candidate_id"]
    own = await two.alpha.get("/comparison", params={"of": [two.run_id, f"{two.run_id}/{best}"]})
    assert own.status_code == 200, own.text


async def test_a_run_that_is_compared_with_is_one_of_the_team(two: TwoTeams) -> None:
    mine = (await ask(two.beta, "", hill_spec(name="beside", stop={"max_rounds": 1}), 201))["optimization_id"]
    await until(two.beta, mine, "completed")
    for of in ([mine, two.run_id], [mine, f"{two.run_id}/r0-1"], [f"{two.run_id}/best", mine]):
        assert (await two.beta.get("/comparison", params={"of": of})).status_code == 404
    both = {"of": [mine, two.run_id]}
    assert (await two.beta.get("/report", params=both)).status_code == 404
    assert (await two.admin.get("/report", params=both)).status_code == 200
    query = {"candidate": "r0-1", "against_run": two.run_id}
    assert (await two.beta.get(f"/optimizations/{mine}/comparison", params=query)).status_code == 404
    for part, position in (("", ""), ("/answers", "0")):
        at, beside = f"/optimizations/{mine}/matrix{part}", {"other": f"{two.run_id}/baseline", "position": position}
        assert (await two.beta.get(at, params=beside)).status_code == 404
        assert (await two.admin.get(at, params=beside)).status_code == 200


async def test_the_same_spec_is_a_run_of_its_own_for_each_team_and_answers_are_not_shared(two: TwoTeams) -> None:
    again = await ask(two.alpha, "", two.spec, 200)
    assert again["optimization_id"] == two.run_id
    other = (await ask(two.beta, "", two.spec, 201))["optimization_id"]
    assert other != two.run_id
    paid = (await until(two.beta, other, "completed"))["spend"]["samples"]
    assert paid == (await until(two.alpha, two.run_id, "completed"))["spend"]["samples"] > 0


async def test_what_a_spec_names_of_another_team_is_not_there(two: TwoTeams, servers: Servers) -> None:
    items = [{"input": {"n": n, "only": "alpha"}} for n in range(8)]
    mine = hill_spec(name="whole", dataset={"items": items}, stop={"max_rounds": 1})
    whole = (await ask(two.alpha, "", mine, 201))["optimization_id"]
    dataset_id = (await until(two.alpha, whole, "completed"))["dataset_id"]
    versions = await servers.reader.datasets.load(dataset_id)
    assert versions is not None
    for field, part in (
        ("dataset.id", {"dataset": {"id": dataset_id}}),
        ("dataset.name", {"dataset": {"name": versions.versions[0].name}}),
        ("retry_of", {"retry_of": two.run_id}),
        ("prompt.name", {"prompt": "alpha-prompts/triage", "configuration": {}}),
        ("release.prompt", {"release": {"prompt": "alpha-prompts/triage"}, "configuration": CONFIGURATION}),
    ):
        answer = await two.beta.post("/optimizations", json=hill_spec(name="reaching", **part))
        assert answer.status_code == 422, answer.text
        assert answer.json()["error"]["field"] == field
    for dataset in ({"id": dataset_id}, {"name": versions.versions[0].name}):
        own = await two.alpha.post("/optimizations", json=hill_spec(name="own", dataset=dataset, stop={"max_rounds": 1}))
        assert own.status_code in (200, 201), own.text


async def test_workers_keep_teams_apart_whoever_starts_a_run(two: TwoTeams, engines: Engines) -> None:
    with pytest.raises(WorkflowFailureError) as failed:
        await engines.run(hill_spec(name="thief", retry_of=two.run_id), run_id="thief")
    assert "retry_of: there is no run" in str(failed.value.cause)


async def test_an_image_is_there_for_teams_whose_datasets_name_it(two: TwoTeams, servers: Servers, tmp_path: Path) -> None:
    (tmp_path / "seen.png").write_bytes(png(77))
    digest = sha256(png(77)).hexdigest()
    found = await ingest(servers.database, InlineItems([Item(input={"$file": "seen.png"})], folder=tmp_path))
    await Teams(servers.database).claim_dataset(found.dataset_id, "alpha")
    seen = [(await client.get(f"/files/{digest}")).status_code for client in (two.alpha, two.admin, two.beta, two.default)]
    assert seen == [200, 200, 404, 404]


async def test_prompts_and_datasets_of_another_team_are_not_there(two: TwoTeams, servers: Servers) -> None:
    async with await open_store(database_url=servers.database_url) as prompts:
        await prompts.seed(template("alpha-prompts/triage"))
    found = await ingest(servers.database, InlineItems([Item(input={"n": 1, "is": "alpha's"})], name="alphas"))
    other = await ingest(servers.database, InlineItems([Item(input={"n": 2, "is": "beta's"})], name="betas"))
    await Teams(servers.database).claim_dataset(found.dataset_id, "alpha")
    await Teams(servers.database).claim_dataset(other.dataset_id, "beta")
    of_prompt, of_dataset = "/prompts/alpha-prompts%2Ftriage", f"/datasets/{found.dataset_id}"
    paths = [of_prompt, f"{of_prompt}/content", f"{of_prompt}/differences", f"{of_prompt}/history", of_dataset]
    paths += [f"{of_dataset}/{part}" for part in ("samples", "use", "copies", f"differences?against={found.dataset_id}")]
    for path in paths:
        seen = [(await client.get(path)).status_code for client in (two.alpha, two.admin, two.beta, two.default)]
        assert seen == [200, 200, 404, 404], path
    assert (await two.beta.post(f"{of_prompt}/rollback", json={"version": "1.0.0"})).status_code == 404
    assert (await two.beta.post(f"{of_prompt}/render", json={"input": {"ticket": "x"}})).status_code == 404
    assert (await two.beta.get(f"/datasets/{other.dataset_id}/differences?against={found.dataset_id}")).status_code == 404
    for client, prompt, dataset in ((two.alpha, 1, 1), (two.beta, 0, 0), (two.admin, 1, 1)):
        assert (await client.get("/prompts?search=alpha-prompts")).json()["total"] == prompt
        assert (await client.get("/datasets?search=alphas")).json()["total"] == dataset


async def test_who_brings_the_same_samples_has_them_too(two: TwoTeams, servers: Servers) -> None:
    dataset_id = (await two.alpha.get(f"/optimizations/{two.run_id}")).json()["dataset_id"]
    assert await servers.reader.teams.has_dataset("alpha", dataset_id)
    assert not await servers.reader.teams.has_dataset("gamma", dataset_id)
    with pytest.raises(Exception, match="ratchet teams create gamma"):
        await Teams(servers.database).claim_dataset(dataset_id, "gamma")


async def test_an_admin_gives_a_team_a_budget_and_only_the_team_sees_its_months(two: TwoTeams, servers: Servers) -> None:
    given = await two.admin.put("/teams/alpha/budget", json={"cost": 12.5})
    assert given.status_code == 200, given.text
    [month] = given.json()
    assert (month["team"], month["budget"]["cost"], month["left"]["cost"]) == ("alpha", 12.5, 12.5)
    [noted] = [one for one in await servers.reader.audit.newest() if (one.action, one.subject) == ("budget", "alpha")]
    assert noted.outcome == "done"
    seen = [{one["team"] for one in (await client.get("/teams/months")).json()} for client in (two.alpha, two.beta, two.admin)]
    assert (seen[0], seen[1], seen[2] >= {"alpha"}) == ({"alpha"}, set(), True)
    assert (await two.alpha.get("/teams/alpha/months")).json() == [month]
    assert (await two.alpha.put("/teams/alpha/budget", json={"cost": 99})).status_code == 403
    nowhere = [await two.beta.get(f"/teams/{name}/months") for name in ("alpha", "nobody")]
    assert [one.status_code for one in nowhere] == [404, 404]
    assert (await two.admin.put("/teams/nobody/budget", json={"cost": 1})).status_code == 404
    assert (await two.admin.put("/teams/alpha/budget", json={"cost": -1})).status_code == 422
    assert (await two.admin.put("/teams/alpha/budget", json={"samples": 2})).status_code == 200
    for client, warned in ((two.alpha, True), (two.beta, False)):
        checked = (await client.post("/spec/check", json={"text": json.dumps(two.spec)})).json()
        told = [one["message"] for one in checked["findings"]]
        assert any("team alpha has 2 of 2 target calls left" in one for one in told) == warned, told
    assert (await two.admin.put("/teams/alpha/budget", json={})).json() == []


async def test_an_id_never_changes_hands(two: TwoTeams, servers: Servers) -> None:
    teams = Teams(servers.database)
    assert await teams.claim_run(two.run_id, "alpha")
    assert not await teams.claim_run(two.run_id, "beta")
    assert not await teams.claim_run(two.run_id, "default")
