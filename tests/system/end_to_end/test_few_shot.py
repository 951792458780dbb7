"""`few_shot` in whole runs: examples come from the training samples, and from nowhere else."""

from __future__ import annotations

import json
import re
from typing import Any

from aiohttp import web

from tests.support.engines import Engines
from tests.support.http_endpoints import Asked, json_endpoint
from tests.support.optimizer_specs import EXAMPLES, TEACHING
from tests.support.run_views import failure_of


async def _rows(engines: Engines, query: str, *arguments: Any) -> list[Any]:
    async with engines.database.connection() as connection:
        return list(await connection.fetch(query, *arguments))


async def test_examples_are_found_that_help_and_that_is_confirmed_on_held_back_samples(engines: Engines) -> None:
    result = await engines.run(TEACHING)
    assert (result["status"], result["rounds"]) == ("completed", 10)
    assert result["best_score"] > 0.45
    confirmation = result["confirmation"]
    assert confirmation["winner_score"] > confirmation["baseline_score"]
    trials = await _rows(
        engines,
        "SELECT o.configuration FROM trials t JOIN overlays o USING (config_hash) WHERE t.run_id = $1",
        result["optimization_id"],
    )
    shown = {example["input"] for row in trials for example in json.loads(row["configuration"])["examples"]}
    train = await _rows(
        engines,
        "SELECT s.input FROM suite_samples d JOIN samples s USING (item_hash) WHERE d.run_id = $1 AND d.split = 'train'",
        result["optimization_id"],
    )
    assert shown <= {json.loads(row["input"]) for row in train}
    assert 4 < len(shown) <= 16


async def test_the_history_says_which_were_chosen(engines: Engines) -> None:
    result = await engines.run({**TEACHING, "name": "told", "stop": {"max_rounds": 4}})
    told = await _rows(
        engines,
        "SELECT rationale, extra FROM candidates WHERE run_id = $1 AND round > 0 ORDER BY round, index",
        result["optimization_id"],
    )
    assert all(" of 16 examples: #" in row["rationale"] for row in told)
    operators = [json.loads(row["extra"])["operators"] for row in told]
    assert operators == [["random"]] * 12 + [["tpe"]] * 4
    assert {json.loads(row["extra"])["origin"] for row in told} == {"examples"}


async def test_without_training_samples_nothing_is_spent(engines: Engines) -> None:
    spec = {**TEACHING, "dataset": {"items": TEACHING["dataset"]["items"], "splits": "none"}}
    error = await failure_of(await engines.start(spec))
    assert "dataset.splits: few_shot shows train samples and scores on validation samples" in str(error)


FORM = re.compile(r"Review: .+\nSentiment: (positive|negative)\n\n")


def completed(asked: Asked) -> web.Response:
    """A base model: it goes on as the text began, and only ever where each example has the form of what it is to complete."""
    text = asked.body["messages"][0]["content"]
    *before, live = re.split(r"(?=Review: )", text)
    known = [re.fullmatch(FORM, example) for example in before if example.startswith("Review: ")]
    grasps = len({found[1] for found in known if found}) == 2 and all(known) and live.endswith("\nSentiment:")
    answer = ("positive" if "lovely" in live else "negative") if grasps else "Review"
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
    choices = [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": f" {answer}"}}]
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "base", "choices": choices, "usage": usage}
    return web.json_response(body)


async def test_a_base_model_gets_its_form_in_every_example_whatever_the_samples_look_like(engines: Engines) -> None:
    def sample(number: int) -> dict[str, Any]:
        kind, label = (("lovely", "positive"), ("dull", "negative"))[number % 2]
        return {"id": f"s{number}", "input": {"film": {"text": f"A {kind} film, {number}."}, "year": 1900}, "expected": label}

    async with json_endpoint(completed) as endpoint:
        result = await engines.run(
            {
                "name": "reviews",
                "configuration": {"examples": EXAMPLES},
                "target": {
                    "kind": "chat",
                    "model": "base",
                    "base_url": endpoint.url,
                    "messages": [
                        {"role": "user", "content": "{{factors.examples}}\n\nReview: {{input.film.text}}\nSentiment:"}
                    ],
                },
                "dataset": {
                    "items": [sample(number) for number in range(40)],
                    "splits": {"train": 0.4, "validation": 0.3, "test": 0.3},
                },
                "scorers": [{"kind": "contains", "name": "right"}],
                "objective": {"metric": "right"},
                "optimizer": {"name": "few_shot", "pool": 12, "max_examples": 5},
                "stop": {"max_rounds": 3},
                "seed": 7,
            }
        )
    confirmation = result["confirmation"]
    assert (confirmation["baseline_score"], confirmation["winner_score"]) == (0.0, 1.0)
    longest = max((asked.body["messages"][0]["content"] for asked in endpoint.asked), key=len)
    assert re.fullmatch(rf"(?:{FORM.pattern})+Review: .+\nSentiment:", longest)
