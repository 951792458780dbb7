"""A run whose target, judge and proposer are simulated models."""

from __future__ import annotations

from typing import Any

from clients.demo.model_server import SimulatedModel
from tests.support.hill_specs import ENDLESS


def chatting(server: SimulatedModel, **parts: Any) -> dict[str, Any]:
    judge = {"kind": "rubric", "name": "tone", "rubric": 'It says "sorry".', "model": "simulated-judge"}
    prompt = {"value": "Repeat.", "change": "text", "max_length": 400}
    proposer = {"kind": "model", "model": "simulated-reflector", "base_url": server.base_url, "parameters": {"max_tokens": 500}}
    messages = [{"role": "system", "content": "{{factors.prompt}}"}, {"role": "user", "content": "{{input.say}}"}]
    names = ("simulated-echo", "simulated-judge", "simulated-reflector")
    return {
        "name": "chatting",
        "configuration": {"prompt": prompt, "max_tokens": 100},
        "target": {"kind": "chat", "messages": messages, "model": "simulated-echo", "base_url": server.base_url},
        "dataset": {"items": [{"input": {"say": f"sorry number {n}"}} for n in range(12)], "splits": "none"},
        "scorers": [{**judge, "base_url": server.base_url, "parameters": {"max_tokens": 200}}],
        "objective": "tone",
        "optimizer": {"name": "refine", "proposer": proposer},
        "stop": ENDLESS,
        "prices": {name: {"input": 10, "output": 100} for name in names},
        **parts,
    }
