"""A reference experiment runner for Ratchet's `external` target: one file, everything in memory, real HTTP.

    python runner.py --port 8900                      # then  target: {kind: external, url: "http://127.0.0.1:8900"}

It answers the contract of README.md with a stand-in for your system (`answer`), and on demand behaves as badly as runners do:
it loses signals, forgets experiments, answers late, signals twice, and returns broken results. `execution_params` say so for an
experiment: {"lose_signal": true}.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from temporalio.client import Client
from temporalio.service import RPCError

PAGE = 100
TERMINAL = ("completed", "failed", "cancelled", "timeout")

Answer = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]
"""(configuration, sample) -> the item's value, tokens, cost, scores, …"""


def answer(configuration: dict[str, Any], sample: dict[str, Any]) -> dict[str, Any]:
    """Stands for your system: the higher `x`, the better, up to 700."""
    height = 1 - abs(configuration.get("x", 0) - 700) / 1000
    return {"value": {"height": height}, "tokens": 10, "cost": 0.001, "latency_ms": 5.0, "scores": {"quality": height}}


@dataclass
class Experiment:
    """One experiment, from its trigger on."""

    experiment_id: str
    request: dict[str, Any]
    headers: dict[str, str]
    """What it is part of: `X-Ratchet-Trial`, `X-Ratchet-Overlay`, `X-Ratchet-Flags`, …"""
    status: str = "running"
    error: str | None = None
    items: list[dict[str, Any]] = field(default_factory=list)
    work: asyncio.Task[None] | None = None

    @property
    def wishes(self) -> dict[str, Any]:
        """How badly this experiment shall behave."""
        wishes: dict[str, Any] = self.request["execution_params"]
        return wishes


class Runner:
    """Trigger, status, results and cancel; and who is to be told when an experiment is over."""

    def __init__(self, temporal: Client | None = None, *, answer: Answer = answer, token: str | None = None) -> None:
        self.temporal = temporal
        self.answer = answer
        self.token = token
        self.experiments: dict[str, Experiment] = {}
        self.by_key: dict[str, str] = {}
        self.asked: Counter[str] = Counter()
        """How often each endpoint was asked: `trigger`, `status`, `results`, `cancel`."""
        self.release = asyncio.Event()
        """Set, it ends experiments that wait: {"wait": true}."""
        self.away = False
        """While set, every request is answered with 503."""
        self._numbers = itertools.count(1)

    def routes(self) -> web.Application:
        app = web.Application(client_max_size=64 * 1024 * 1024, middlewares=[self._admit])
        app.add_routes(
            [
                web.post("/experiments", self._trigger),
                web.get("/experiments/{id}", self._status),
                web.get("/experiments/{id}/results", self._results),
                web.post("/experiments/{id}/cancel", self._cancel),
            ]
        )
        return app

    @web.middleware
    async def _admit(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if self.away:
            return web.json_response({"error": "away"}, status=503)
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response({"error": "wrong token"}, status=401)
        response: web.StreamResponse = await handler(request)
        return response

    # -- the contract -------------------------------------------------------------------------------------------------------

    async def _trigger(self, request: web.Request) -> web.Response:
        self.asked["trigger"] += 1
        key = request.headers["Idempotency-Key"]
        if key not in self.by_key:  # the same key is the same experiment
            told = {name: value for name, value in request.headers.items() if name.startswith("X-Ratchet-")}
            experiment = Experiment(f"experiment-{next(self._numbers)}", await request.json(), told)
            self.by_key[key] = experiment.experiment_id
            self.experiments[experiment.experiment_id] = experiment
            if experiment.wishes.get("signal_before_answer"):
                await self._signal(experiment, "completed")
            experiment.work = asyncio.create_task(self._run(experiment))
            if experiment.wishes.get("lose_answer"):
                return web.json_response({"error": "lost on the way"}, status=502)
        return web.json_response({"experiment_id": self.by_key[key]}, status=202)

    async def _status(self, request: web.Request) -> web.Response:
        self.asked["status"] += 1
        experiment = self._found(request)
        left = experiment.wishes.get("finish_after_questions")
        if left is not None and experiment.status == "running":
            experiment.wishes["finish_after_questions"] = left - 1
            if left <= 1:
                await self._finish(experiment)
        return web.json_response(
            {"experiment_id": experiment.experiment_id, "status": experiment.status, "error": experiment.error}
        )

    async def _results(self, request: web.Request) -> web.Response:
        self.asked["results"] += 1
        experiment = self._found(request)
        broken = experiment.wishes.get("broken_results")
        if experiment.wishes.get("break_results_times", 0) > 0:
            experiment.wishes["break_results_times"] -= 1
            return web.Response(text='{"items": [{"id": "s', content_type="application/json")
        if broken == "html":
            return web.Response(text="<html>Bad gateway</html>", content_type="text/html")
        if broken is not None:
            return web.json_response(broken)
        first = int(request.query.get("cursor", "0"))
        page = experiment.items[first : first + experiment.wishes.get("page", PAGE)]
        following = first + len(page)
        return web.json_response(
            {
                "mask_id": experiment.request["mask_id"],
                "items": page,
                "next": str(following) if following < len(experiment.items) else None,
            }
        )

    async def _cancel(self, request: web.Request) -> web.Response:
        self.asked["cancel"] += 1
        experiment = self._found(request)
        if experiment.status not in TERMINAL:
            experiment.status = "cancelled"
            if experiment.work is not None:
                experiment.work.cancel()
        return web.json_response({})

    def _found(self, request: web.Request) -> Experiment:
        experiment = self.experiments.get(request.match_info["id"])
        if experiment is None or experiment.wishes.get("forget"):
            raise web.HTTPNotFound(text='{"error": "unknown experiment"}', content_type="application/json")
        return experiment

    # -- the work -----------------------------------------------------------------------------------------------------------

    async def _run(self, experiment: Experiment) -> None:
        wishes = experiment.wishes
        if wishes.get("finish_after_questions") is not None:
            return
        await asyncio.sleep(wishes.get("seconds", 0.0))
        if wishes.get("wait"):
            await self.release.wait()
        await self._finish(experiment)

    async def _finish(self, experiment: Experiment) -> None:
        configuration = experiment.request["configuration"]
        for sample in experiment.request["samples"] or []:
            if sample["id"] not in experiment.wishes.get("skip", []):
                given = self.answer(configuration, sample)
                experiment.items.append({"id": sample["id"], "replicate": sample["replicate"], **given})
        experiment.status = experiment.wishes.get("end_as", "completed")
        experiment.error = experiment.wishes.get("error")
        if not experiment.wishes.get("lose_signal"):
            for _ in range(experiment.wishes.get("signals", 1)):
                await self._signal(experiment, experiment.status)

    async def _signal(self, experiment: Experiment, status: str) -> None:
        """Tell the trial. It also asks by itself, so a signal that fails is no reason to fail."""
        if self.temporal is None:
            return
        to = experiment.request["completion"]
        try:
            await self.temporal.get_workflow_handle(to["workflow_id"]).signal(
                to["signal"], {"experiment_id": experiment.experiment_id, "status": status}
            )
        except RPCError as error:
            print(f"{experiment.experiment_id}: nobody to tell ({error.message})", flush=True)


@asynccontextmanager
async def serving(runner: Runner, port: int = 0) -> AsyncIterator[str]:
    """Serve on this machine, and say where."""
    site = web.AppRunner(runner.routes())
    await site.setup()
    try:
        listening = web.TCPSite(site, "127.0.0.1", port)
        await listening.start()
        yield f"http://127.0.0.1:{site.addresses[0][1]}"
    finally:
        await site.cleanup()


async def main() -> None:
    parser = argparse.ArgumentParser(description="A reference experiment runner.")
    parser.add_argument("--port", type=int, default=8900)
    address = os.environ.get("TEMPORAL_ADDRESS")
    temporal = await Client.connect(address) if address else None
    runner = Runner(temporal, token=os.environ.get("RATCHET_RUNNER_TOKEN"))
    async with serving(runner, parser.parse_args().port) as url:
        print(
            f"serving {url}" + ("" if temporal else "; without TEMPORAL_ADDRESS nobody is signalled, but polled for"),
            flush=True,
        )
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
