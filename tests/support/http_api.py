"""Runs as the HTTP API shows and steers them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

TOKEN = "a-token-of-the-tests-0123456789"


async def until(http: httpx.AsyncClient, run_id: str, status: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            answer = await http.get(f"/optimizations/{run_id}")
            run: dict[str, Any] = answer.json()
            if answer.status_code == 200 and run["status"] == status:
                return run
            await asyncio.sleep(0.05)


async def ask(http: httpx.AsyncClient, path: str, body: Any = None, status: int = 200) -> dict[str, Any]:
    answer = await http.post(f"/optimizations{path}", json=body)
    assert answer.status_code == status, answer.text
    told: dict[str, Any] = answer.json()
    return told
