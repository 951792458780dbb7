"""Who may use the HTTP side: requests as browsers, neighbours and strangers send them."""

from __future__ import annotations

import httpx
import pytest

from clients.http.access.security import LARGEST_BODY, NotTrustworthy, Trust
from tests.support.http_api import TOKEN

LIST = "/v1/private/optimizations"


async def get(url: str, path: str = LIST, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        return await client.get(path, headers=headers)


def test_beyond_this_machine_a_token_is_demanded_before_anything_is_bound() -> None:
    for host in ("0.0.0.0", "192.168.1.7", "::", "ratchet.internal"):
        with pytest.raises(NotTrustworthy, match="RATCHET_SERVE_TOKEN"):
            Trust.of(host, None)
        assert Trust.of(host, TOKEN).token == TOKEN
    with pytest.raises(NotTrustworthy, match="16"):
        Trust.of("127.0.0.1", "short")
    for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"):
        assert Trust.of(host, None).token is None


async def test_without_the_token_nothing_is_told_and_with_it_everything(guarded_url: str) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": "ratchet_session=x"},
    ):
        answer = await get(guarded_url, **headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert answer.json()["error"]["field"] == "Authorization"
    for path in (LIST, "/v1/private/openapi.json"):
        assert (await get(guarded_url, path)).status_code == 401
        assert (await get(guarded_url, path, Authorization=f"Bearer {TOKEN}")).status_code == 200
    assert (await get(guarded_url, "/health")).json() == {"status": "ok"}


async def test_the_page_exchanges_the_token_for_a_cookie_that_scripts_cannot_read(guarded_url: str) -> None:
    async with httpx.AsyncClient(base_url=guarded_url) as client:
        assert (await client.post("/v1/private/session", json={"token": "wrong"})).status_code == 401
        opened = await client.post("/v1/private/session", json={"token": TOKEN})
        assert opened.status_code == 204
        cookie = opened.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        assert (await client.get(LIST)).status_code == 200
        await client.delete("/v1/private/session")
        assert (await client.get(LIST)).status_code == 401


async def test_a_name_that_is_not_ours_is_refused_so_that_no_rebinding_reaches_us(url: str) -> None:
    port = httpx.URL(url).port
    for name in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", ""):
        answer = await get(url, Host=name)
        assert answer.status_code in (400, 403), name
    for name in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
        assert (await get(url, Host=name)).status_code == 200, name


async def test_other_sites_neither_read_nor_write(url: str) -> None:
    async with httpx.AsyncClient(base_url=url) as client:
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
            assert (await client.get(LIST, headers=headers)).status_code == 403
            assert (await client.post(f"{LIST}/x/cancel", headers=headers)).status_code == 403
        own = await client.get(LIST, headers={"Origin": url, "Sec-Fetch-Site": "same-origin"})
        assert own.status_code == 200
        assert "access-control-allow-origin" not in own.headers


async def test_writes_are_json_and_bounded(url: str) -> None:
    async with httpx.AsyncClient(base_url=url) as client:
        form = await client.post(f"{LIST}/x/stop", content="reason=x", headers={"Content-Type": "text/plain"})
        assert (form.status_code, form.json()["error"]["field"]) == (415, "Content-Type")
        assert (await client.post(LIST, content=b"{", headers={"Content-Type": "application/json"})).status_code == 400
        large = await client.post(LIST, content=b"x" * (LARGEST_BODY + 1), headers={"Content-Type": "application/json"})
        assert large.status_code == 413


async def test_every_answer_carries_the_headers_that_protect_browsers(url: str) -> None:
    for path in (LIST, f"{LIST}/nowhere", "/nowhere", "/v1/private/openapi.json"):
        answer = await get(url, path)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "server" not in answer.headers
    assert (await get(url)).headers["cache-control"] == "no-store"


async def test_unknown_paths_and_methods_are_answered_in_the_same_shape(url: str) -> None:
    async with httpx.AsyncClient(base_url=url) as client:
        nothing = await client.get("/v1/private/elsewhere")
        assert (nothing.status_code, "/v1/private/elsewhere" in nothing.json()["error"]["message"]) == (404, True)
        wrong = await client.put(LIST)
        assert wrong.status_code == 405
        assert wrong.headers["allow"] == "GET, POST"
        assert (await client.put(f"{LIST}/x")).headers["allow"] == "DELETE, GET"
