"""Runs whose answers a model grades."""

from __future__ import annotations

from typing import Any

from clients.demo.model_server import SimulatedModel

RUBRIC = 'A good answer says "sorry" and names a "refund".'
PRICES = {name: {"input": 1, "output": 10} for name in ("simulated-echo", "simulated-judge", "simulated-embedding")}
SAYINGS = ["sorry, a refund", "sorry", "no", "sorry, your refund comes"]


def echoing(server: SimulatedModel, items: list[dict[str, Any]], **parts: Any) -> dict[str, Any]:
    """A run whose answers are what the samples say, with the opening that the configuration chooses put before it."""
    opening = {"value": "", "change": "structured", "type": "choice", "choices": ["", "sorry, a refund: "]}
    message = {"role": "user", "content": "{{factors.opening}}{{input.say}}"}
    return {
        "name": "graded",
        "configuration": {"opening": opening},
        "target": {"kind": "chat", "messages": [message], "model": "simulated-echo", "base_url": server.base_url},
        "dataset": {"items": items, "splits": "none"},
        "optimizer": {"name": "refine", "proposer": {"kind": "step"}},
        "stop": {"max_rounds": 1, "no_improvement": 0},
        "budget": {"cost": 1},
        "prices": PRICES,
        **parts,
    }


def graded(server: SimulatedModel, **parts: Any) -> dict[str, Any]:
    rubric = {"kind": "rubric", "name": "tone", "rubric": RUBRIC, "model": "simulated-judge", "base_url": server.base_url}
    items = [{"id": f"s{n}", "input": {"say": text}} for n, text in enumerate(SAYINGS)]
    scorers = [{**rubric, "scale": [0, 2]}, {"kind": "tokens", "at_most": 100}]
    return echoing(server, items, scorers=scorers, objective="tone", **parts)
