"""A chatty model's whole reply never becomes the prompt, whichever optimizer asked it for new texts, for one or for several."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clients.demo.delivery import _CHATTER as CHATTER
from clients.demo.model_server import simulated_model
from tests.support.engines import Engines
from tests.support.rewriting_runs import REFLECTOR, SEEDED, spec

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "refine": {},
    "reflect": {},
    "gepa": {},
    "meta_prompt": {"candidates_per_round": 2},
    "compress": {"strategies": [], "min_section_tokens": 1},
    "search": {"rewrite_every": 2},
}
TEXTS: dict[str, dict[str, Any]] = {
    "one": {"prompt": {"value": "Sort the ticket.", "change": "text", "max_length": 2000}, "manners": "Be polite."},
    "two": {
        "prompt": {"value": "Sort the ticket.", "change": "text", "max_length": 2000},
        "manners": {"value": "Be polite.", "change": "text", "max_length": 500},
    },
}
NUMBER: dict[str, Any] = {"tone": {"value": 1, "change": "structured", "type": "integer", "min": 1, "max": 3}}


@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
async def test_an_answer_without_the_tags_is_no_prompt(engines: Engines, optimizer: str, texts: str) -> None:
    async with simulated_model(rules=[{"lie": "prose", "model": REFLECTOR}]) as server:
        proposer = {"kind": "model", "model": REFLECTOR, "base_url": server.base_url, "parameters": SEEDED}
        handle = await engines.start(
            spec(
                server.base_url,
                name=f"chatty-{optimizer}-{texts}",
                configuration=TEXTS[texts] | (NUMBER if optimizer == "search" else {}),
                optimizer={"name": optimizer, "proposer": proposer, **OPTIMIZERS[optimizer]},
                stop={"max_rounds": 2, "no_improvement": 0},
                prices={},
            )
        )
        result = await handle.result()
    async with engines.database.connection() as connection:
        tried = await connection.fetch(
            "SELECT configuration FROM candidates JOIN overlays USING (config_hash) WHERE run_id = $1", handle.id
        )
        answers = await connection.fetchval("SELECT count(*) FROM model_answers WHERE run_id = $1", handle.id)
    assert answers > 0, "the model was asked"
    for row in tried:
        assert CHATTER not in map(str, json.loads(row["configuration"]).values())
    assert CHATTER not in map(str, result["best_configuration"].values())
