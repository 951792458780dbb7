"""JWTs of an issuer beside tokens: who it vouches for gets the role and the team that the operator gave its words."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from clients.commands.context import CommandError
from clients.http.access import oidc
from clients.http.access.oidc import OidcIssuer
from clients.http.access.security import Trust
from clients.http.access.token import entrance
from clients.http.app import serving_http
from clients.runs.service.servers import Servers
from store.read.access.access_tokens import Role
from store.write.access.teams import Teams
from tests.support.access_tokens import holding
from tests.support.http_api import TOKEN
from tests.support.oidc_issuer import AUDIENCE, LocalIssuer, local_issuer

ROLES = {"ml-team": Role.RUN, "leads": Role.RELEASE}


@dataclass(frozen=True)
class Vouched:
    """A server that takes the JWTs of an issuer, and the issuer."""

    url: str
    issuer: LocalIssuer

    @asynccontextmanager
    async def asked_with(self, token: str) -> AsyncIterator[httpx.AsyncClient]:
        async with holding(self.url, token) as client:
            yield client


@pytest.fixture
async def vouched(servers: Servers) -> AsyncIterator[Vouched]:
    await Teams(servers.database).create("vouched", [], "a test")
    async with local_issuer() as issuer:
        known = OidcIssuer(issuer.url, AUDIENCE, ROLES, role_claim="groups", team_claim="team")
        trust = replace(Trust.of("127.0.0.1", TOKEN), issuer=known)
        async with serving_http(servers, trust, "optimization", port=0) as address:
            yield Vouched(address.url, issuer)


async def test_who_the_issuer_vouches_for_has_the_highest_of_his_roles_in_his_team(vouched: Vouched) -> None:
    async with vouched.asked_with(vouched.issuer.token(team="vouched", groups=["others", "leads", "ml-team"])) as client:
        assert (await client.get("/session")).json() == {
            "name": "ann@example.com",
            "is_named": True,
            "role": "release",
            "team": "vouched",
        }
        assert (await client.get("/audit")).status_code == 403
    async with vouched.asked_with(TOKEN) as client:
        assert (await client.get("/session")).json()["role"] == "admin"


async def test_what_another_signed_or_for_others_or_too_late_lets_nobody_in(vouched: Vouched) -> None:
    issuer, stranger = vouched.issuer, ec.generate_private_key(ec.SECP256R1())
    for token, why in (
        (issuer.token(sign_with=stranger, team="vouched"), "signature"),
        (issuer.token(sign_with="k" * 64, algorithm="HS256", team="vouched"), "public key"),
        (issuer.token(sign_with="", algorithm="none", team="vouched"), "public key"),
        (issuer.token(team="vouched", aud="another"), "somebody else"),
        (issuer.token(team="vouched", iss="https://evil.example"), "another issuer"),
        (issuer.token(team="vouched", exp=time.time() - 600), "expired"),
        (issuer.token(team="vouched", exp=None), "missing"),
        (issuer.token(team="vouched", groups=["others"]), "RATCHET_OIDC_ROLES"),
        (issuer.token(team="vouched", groups=None), "RATCHET_OIDC_ROLES"),
        (issuer.token(team="nobody"), "team"),
        (issuer.token(), "names no team"),
        (issuer.token(team="vouched", sub="local"), "nobody may have"),
        (issuer.token(team="vouched", sub="two\nlines"), "no name"),
        ("a.b.c", "no JWT"),
    ):
        async with vouched.asked_with(token) as client:
            answer = await client.get("/optimizations")
            assert answer.status_code == 401, why
            assert why in answer.json()["error"]["message"]


async def test_keys_are_asked_for_anew_when_they_change_and_not_for_every_made_up_one(
    vouched: Vouched, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer = vouched.issuer
    async with vouched.asked_with(issuer.token(team="vouched")) as client:
        assert (await client.get("/session")).status_code == 200
    issuer.change_key()
    for _ in range(5):
        async with vouched.asked_with(issuer.token(team="vouched")) as client:
            assert (await client.get("/session")).status_code == 401
    assert issuer.asked_for_keys == 1
    monkeypatch.setattr(oidc, "ASK_AGAIN_AFTER", 0.0)
    async with vouched.asked_with(issuer.token(team="vouched")) as client:
        assert (await client.get("/session")).status_code == 200
    assert issuer.asked_for_keys == 2


async def test_an_issuer_that_is_away_is_told_and_tokens_go_on(servers: Servers) -> None:
    async with local_issuer() as issuer:
        token = issuer.token()
        trust = replace(Trust.of("127.0.0.1", TOKEN), issuer=OidcIssuer("http://127.0.0.1:1", AUDIENCE, ROLES))
        async with serving_http(servers, trust, "optimization", port=0) as address:
            async with holding(address.url, token) as client:
                assert (await client.get("/session")).status_code == 503
            async with holding(address.url, TOKEN) as client:
                assert (await client.get("/session")).status_code == 200


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"RATCHET_OIDC_ISSUER": "http://login.example.com"}, "RATCHET_OIDC_ISSUER: must be an address with https"),
        ({"RATCHET_OIDC_AUDIENCE": ""}, "RATCHET_OIDC_AUDIENCE"),
        ({"RATCHET_OIDC_ROLES": ""}, "RATCHET_OIDC_ROLES: is not set"),
        ({"RATCHET_OIDC_ROLES": "ml=owner"}, "RATCHET_OIDC_ROLES: 'ml=owner' is no VALUE=ROLE"),
    ],
)
def test_settings_that_let_everybody_or_nobody_in_are_refused(
    changed: dict[str, str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = {
        "RATCHET_SERVE_TOKEN": TOKEN,
        "RATCHET_OIDC_ISSUER": "https://login.example.com",
        "RATCHET_OIDC_AUDIENCE": "ratchet",
        "RATCHET_OIDC_ROLES": "ml=run, leads=release",
    }
    for name, value in usual.items():
        monkeypatch.setenv(name, value)
    issuer = entrance(tmp_path, "127.0.0.1", (), no_token=False).trust.issuer
    assert issuer is not None and issuer.roles == {"ml": Role.RUN, "leads": Role.RELEASE}
    for name, value in changed.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(CommandError, match=told):
        entrance(tmp_path, "127.0.0.1", (), no_token=False)
