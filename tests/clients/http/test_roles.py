"""Tokens with names and roles: what each may do over HTTP, under which name, and until when."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from clients.http.access.roles import RULES, RUN, RUNS, matched
from clients.http.app import api_of
from clients.http.routes.runs import streams
from clients.runs.service.servers import Servers
from store.read.access.access_tokens import Role
from store.write.access.access_tokens import AccessTokens
from tests.support.access_tokens import holding, made_token
from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec
from tests.support.http_api import TOKEN
from tests.support.release_runs import tried_prompt

LIST = "/v1/private/optimizations"
BODIES: dict[str, Any] = {"approve": {}, "reject": {}, "adjust": {"max_rounds": 3}, "proposals": {"configuration": {}}}


def documented() -> set[tuple[str, str]]:
    nowhere: Any = None  # the paths are described without servers
    paths = api_of(nowhere).openapi()["paths"]
    return {(method.upper(), path) for path, methods in paths.items() for method in methods if path != "/health"}


def test_every_path_of_the_api_has_a_rule_and_every_rule_a_path() -> None:
    assert documented() | {("GET", "/v1/private/openapi.json")} == set(RULES)


def test_what_is_in_no_rule_is_for_admins() -> None:
    for method, path in (("GET", "/v1/private/new"), ("PUT", LIST), ("POST", f"{LIST}/x/stop\n"), ("POST", f"{LIST}/x/y/stop")):
        assert matched(method, path).rule.role is Role.ADMIN, path
    assert matched("POST", f"{LIST}/x/stop").parameters == {"optimization_id": "x"}


def test_reading_changes_nothing_and_changing_is_not_for_readers() -> None:
    for (method, path), rule in RULES.items():
        reads = method == "GET" or path.endswith("/render")  # whose input may be too long for an address
        assert rule.role in (None, Role.ADMIN) or (rule.role is Role.READ) == reads, path
    admins = {path for (_, path), rule in RULES.items() if rule.role is Role.ADMIN}
    assert admins == {"/v1/private/audit", "/v1/private/teams/{team}/budget", "/codec/encode", "/codec/decode"}


@pytest.mark.parametrize("role", list(Role))
async def test_each_role_passes_where_it_is_enough_and_is_told_which_one_is_missing(
    guarded_url: str, servers: Servers, role: Role
) -> None:
    async with holding(guarded_url, await made_token(servers.database, f"a-{role.value}", role)) as client:
        for (method, path), rule in RULES.items():
            if rule.role is None or path.endswith("/events"):
                continue
            known = {"optimization_id": "nowhere", "candidate_id": "c", "digest": "0" * 64, "number": 1, "team": "default"}
            known |= {"prompt": "none%2Fsuch", "dataset_id": "0" * 64, "question_id": 1, "position": 0, "round": 1}
            known |= {"proposed_index": 0}
            at = guarded_url + path.format(**known)
            body = BODIES.get(path.rpartition("/")[2], {}) if method == "POST" else None
            answer = await client.request(method, at, json=body)
            if role.covers(rule.role):
                assert answer.status_code not in (401, 403), (path, answer.text)
            else:
                told = answer.json()["error"]["message"]
                assert (answer.status_code, f"'{rule.role.value}'" in told, f"'a-{role.value}'" in told) == (403, True, True)


async def test_a_token_that_is_unknown_expired_or_revoked_lets_nobody_in(guarded_url: str, servers: Servers) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    expired = await made_token(servers.database, "late", Role.ADMIN, expires_at=past)
    revoked = await made_token(servers.database, "gone", Role.ADMIN)
    await AccessTokens(servers.database).revoke("gone", "a test")
    for secret, why in (
        (expired, "expired"),
        (revoked, "revoked"),
        (f"{revoked}x", "ratchet tokens create"),
        ("none", "send a token"),
    ):
        async with holding(guarded_url, secret) as client:
            answer = await client.get("/optimizations")
            assert (answer.status_code, why in answer.json()["error"]["message"]) == (401, True), why


async def test_the_page_signs_in_with_a_named_token_until_it_is_revoked(guarded_url: str, servers: Servers) -> None:
    secret = await made_token(servers.database, "mara", Role.READ)
    async with httpx.AsyncClient(base_url=guarded_url) as browser:
        opened = await browser.post("/v1/private/session", json={"token": secret})
        assert (opened.status_code, secret in opened.headers["set-cookie"]) == (204, False)
        assert (await browser.get("/v1/private/session")).json() == {
            "name": "mara",
            "is_named": True,
            "role": "read",
            "team": "default",
        }
        assert (await browser.get(LIST)).status_code == 200
        assert (await browser.post(f"{LIST}/x/cancel")).status_code == 403
        await AccessTokens(servers.database).revoke("mara", "a test")
        assert (await browser.get(LIST)).status_code == 401


async def test_a_stream_ends_when_its_token_is_revoked(
    guarded_url: str, servers: Servers, finished: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "STILL_ADMITTED_EVERY", 0.05)
    async with holding(guarded_url, await made_token(servers.database, "listener", Role.READ)) as client, asyncio.timeout(30):
        async with client.stream("GET", f"/optimizations/{finished}/events") as stream:
            await AccessTokens(servers.database).revoke("listener", "a test")
            async for _ in stream.aiter_bytes():
                pass  # it ends by itself
        assert (await client.get(f"/optimizations/{finished}/events")).status_code == 401


async def test_only_who_may_release_starts_a_run_that_releases_by_itself(guarded_url: str, servers: Servers) -> None:
    spec = hill_spec(name="own-release", release={"mode": "automatic", "prompt": "team/unknown"})
    async with holding(guarded_url, await made_token(servers.database, "starter", Role.RUN)) as client:
        refused = await client.post("/optimizations", json=spec)
        assert (refused.status_code, refused.json()["error"]["field"]) == (403, "release.mode")
        assert "'release'" in refused.json()["error"]["message"]
        answers = await client.post("/optimizations/any/rescore", json=spec)
        assert (answers.status_code, answers.json()["error"]["field"]) == (403, "release.mode")
    async with holding(guarded_url, await made_token(servers.database, "releaser", Role.RELEASE)) as client:
        assert (await client.post("/optimizations", json=spec)).status_code != 403


async def test_a_release_is_approved_under_the_name_of_the_token_and_no_other(
    guarded_url: str, servers: Servers, engines: Engines
) -> None:
    async with (
        tried_prompt(engines, hill_spec(name="ruled")) as prompt,
        holding(guarded_url, await made_token(servers.database, "carla", Role.RELEASE)) as carla,
        holding(guarded_url, TOKEN) as somebody,
    ):
        asked = await prompt.ask(await prompt.tried(x=70), approval=True, approvers=["carla"])
        at = f"/optimizations/{prompt.run_id}/approve"
        nameless = await somebody.post(at, json={})
        assert (nameless.status_code, nameless.json()["error"]["field"]) == (422, "by")
        assert (await somebody.post(at, json={"by": "bea"})).status_code == 409
        pretended = await carla.post(at, json={"by": "bea"})
        assert (pretended.status_code, pretended.json()["error"]["field"]) == (422, "by")
        done = (await carla.post(at, json={"comment": "fine"})).json()
        assert (done["release_id"], done["status"], done["decided_by"]) == (asked.release_id, "released", "carla")
        assert done["decided_through"] == "HTTP, by the token 'carla'"


async def test_the_store_keeps_no_secret_of_a_token(engines: Engines, servers: Servers) -> None:
    secret = await made_token(servers.database, "hidden", Role.READ)
    async with engines.database.connection() as connection:
        kept = str(await connection.fetch("SELECT t::text FROM access_tokens t"))
    assert "hidden" in kept and secret not in kept and secret.removeprefix("ratchet_") not in kept


async def test_the_servers_own_token_says_who_it_is_and_may_do_all(guarded_url: str) -> None:
    async with holding(guarded_url, TOKEN) as client:
        assert (await client.get("/session")).json() == {
            "name": "the server's token",
            "is_named": False,
            "role": "admin",
            "team": None,
        }


def test_a_path_is_told_by_its_whole_text() -> None:
    assert matched("GET", RUN.format(optimization_id="a")).rule.role is Role.READ
    assert matched("GET", f"{RUNS}/").rule.role is Role.ADMIN
