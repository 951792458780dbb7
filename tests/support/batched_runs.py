"""Runs whose samples are answered in batches, and the same runs asked at once: a model that climbs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from activities.settings import OperatorSettings
from ratchet._environment import settings_from
from tests.support.allowed import FILE
from tests.support.batch_server import provider_of_batches
from tests.support.batched_provider import BatchedProvider
from tests.support.engines import Engines
from tests.support.impatient_worker import impatient_worker

SAMPLES = 12
PRICE = {"input": 1000.0, "output": 2000.0}
COST_OF_AN_ANSWER = (10 * 1000 + 2000) / 1_000_000


def climber(body: dict[str, Any]) -> str:
    """The better, the nearer to 700."""
    x, n = body["messages"][-1]["content"].split()
    return "yes" if 1 - abs(int(x) - 700) / 1000 > 0.25 + int(n) / 20 else "no"


ADDRESSES = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL", "google": "GOOGLE_GEMINI_BASE_URL"}


def told_of(server: BatchedProvider) -> dict[str, str]:
    """The environment of a worker that knows this server as its provider's own."""
    return {"OPENAI_BASE_URL": server.url, ADDRESSES[server.provider]: server.url}


@asynccontextmanager
async def asked_of(
    engines: Engines, provider: str, folder: Path, answer: Callable[[dict[str, Any]], str] = climber
) -> AsyncIterator[BatchedProvider]:
    """A provider of batches, with a worker on a task queue of its own that knows it."""
    async with provider_of_batches(provider, answer, folder) as server:
        operator = settings_from(OperatorSettings, {"RATCHET_ALLOWED_FILE": str(FILE), **told_of(server)})
        async with impatient_worker(engines, f"batches-of-{provider}-{folder.name}", operator) as queue:
            server.task_queue = queue
            yield server


def climbing(server: BatchedProvider, mode: str = "batch", **parts: Any) -> dict[str, Any]:
    """Three rounds of two candidates over a dozen samples."""
    execution = {"mode": mode, "batches": {"poll": "50ms", "longest_poll": "200ms"}} | parts.pop("execution", {})
    if server.task_queue:
        execution["evaluation_task_queue"] = server.task_queue
    model = "climber" if server.provider == "openai" else f"{server.provider}/climber"
    return {
        "name": f"climbing-{mode}",
        "configuration": {"x": {"value": 100, "change": "structured", "type": "integer", "min": 0, "max": 9000, "step": 100}},
        "target": {
            "kind": "chat",
            "model": model,
            "base_url": server.url,
            "messages": [{"role": "user", "content": "{{factors.x}} {{input}}"}],
            "parameters": {"max_tokens": 10},
        },
        "prices": {model: PRICE},
        "dataset": {"items": [{"id": f"s{n}", "input": n, "expected": "yes"} for n in range(SAMPLES)], "splits": "none"},
        "scorers": [{"kind": "exact"}],
        "objective": "exact",
        "optimizer": {"name": "refine", "proposer": {"kind": "step"}, "candidates_per_round": 2},
        "stop": {"max_rounds": 2, "no_improvement": 0},
        "execution": execution,
        "seed": 1,
    } | parts


JUDGES = ("good", "brief")


def judged_climber(body: dict[str, Any]) -> str:
    """The climber, and its judges: the first one talks rubbish about two answers before it is told so."""
    if "judge" not in body["model"]:
        return climber(body)
    material = body["messages"][1]["content"]
    is_rubbish = "good" in body["model"] and any(f">\n{n}\n<" in material for n in (3, 7)) and len(body["messages"]) == 2
    if is_rubbish:
        return "Well, it depends."
    return json.dumps({"reason": "It says so.", "score": 5 if ">\nyes\n<" in material else 1})


def judging(server: BatchedProvider, mode: str = "batch", **parts: Any) -> dict[str, Any]:
    """The same, scored by two judges, each of whom is a model."""
    prefix = "" if server.provider == "openai" else f"{server.provider}/"
    models = {name: f"{prefix}judge-{name}" for name in JUDGES}
    place = {"base_url": server.url}
    spec = climbing(server, mode, **parts)
    scorers = [
        {"kind": "rubric", "name": name, "rubric": "It says yes.", "model": model, "parameters": {"max_tokens": 50}, **place}
        for name, model in models.items()
    ]
    return spec | {
        "name": f"judging-{mode}",
        "scorers": scorers,
        "objective": JUDGES[0],
        "prices": {**spec["prices"], **dict.fromkeys(models.values(), PRICE)},
    }


async def rows(engines: Engines, table: str, what: str, run_id: str) -> list[Any]:
    """What is stored of a run, in an order that its rows alone decide."""
    async with engines.database.connection() as connection:
        found = await connection.fetch(f"SELECT {what} FROM {table} WHERE run_id = $1", run_id)
    return sorted((tuple(row) for row in found), key=repr)


async def decided(engines: Engines, run_id: str) -> dict[str, Any]:
    """What a run measured and decided, without what it took."""
    return {
        "trials": await rows(engines, "trials", "candidate_id, config_hash, status, score, passed, total, coverage", run_id),
        "rounds": await rows(engines, "rounds", "round, best_candidate_id, best_score, best_so_far_id, stop_reason", run_id),
        "answers": await rows(
            engines,
            "answers",
            "config_hash, (item_hash, replicate)::text, target, status, output::text, error, error_class, tokens, trace::text",
            run_id,
        ),
    }
