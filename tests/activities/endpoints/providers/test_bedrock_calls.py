"""Calls of Bedrock: signed by boto3, sent by our own client."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from activities.endpoints.call_context import CallContext
from activities.targets.faults import Refused
from clients.checks.endpoints import check_endpoints
from tests.support.provider_endpoints import Told, ask, asked_of, asking, environment


async def test_a_signature_holds_for_names_with_every_character() -> None:
    arn = "arn:aws:bedrock:eu-central-1:1:inference-profile/eu.m-v1:0"
    async with asking("bedrock", named={arn: "simulated-echo"}) as (endpoint, models):
        given: dict[str, Any] = {"base_url": None, "parameters": {}, "stream": False, "timeout": 5.0, "prices": {}}
        answer = await models.ask(
            model=f"bedrock/{arn}", messages=[{"role": "user", "content": "ü"}], context=CallContext(), **given
        )
        assert answer.value == "ü"
        async with aiohttp.ClientSession() as session, session.post(f"{endpoint.url}/model/m/converse", json={}) as refused:
            assert refused.status == 403, "the endpoint takes no request that nobody signed"


async def test_nobody_waits_in_a_thread_and_who_stops_waiting_lets_the_call_go() -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    async def never(_: Told) -> web.StreamResponse:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        raise AssertionError

    async with asking("bedrock", answering=never) as (_, models):
        waiting = asyncio.create_task(ask(models, "bedrock", timeout=60.0))
        await begun.wait()
        made = [thread for thread in threading.enumerate() if thread.name.startswith("bedrock")]
        assert made
        async with asyncio.timeout(30):
            while not all(_is_idle(thread) for thread in made):
                await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await gone.wait()


def _is_idle(thread: threading.Thread) -> bool:
    assert thread.ident is not None
    return not thread.is_alive() or sys._current_frames()[thread.ident].f_code.co_name == "_worker"


async def test_without_credentials_nothing_is_sent_and_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    async with asking("bedrock") as (endpoint, models):
        with pytest.raises(Refused, match="Unable to locate credentials; give the worker's environment credentials"):
            await ask(models, "bedrock")
        for name, value in environment("bedrock", endpoint).items():
            monkeypatch.setenv(name, value)
        [problem] = await check_endpoints(asked_of("bedrock/simulated-echo"))
        assert "AWS_ACCESS_KEY_ID" in problem.message
    assert not endpoint.bodies
