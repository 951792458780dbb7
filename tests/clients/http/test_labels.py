"""Answers that people label: drawn by a seed, said under a token's name, agreed on, exported and stored as a dataset."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from clients.runs.service.servers import Servers
from store.read.access.access_tokens import Role
from tests.support.access_tokens import holding, made_token
from tests.support.engines import Engines
from tests.support.labelled_runs import labelled_spec
from tests.support.shells import Shell

CONTENT = {"input", "expected", "output"}


@pytest.fixture(scope="session")
async def labelled(engines: Engines) -> str:
    await engines.run(labelled_spec(), run_id="labelled")
    return "labelled"


async def ask(client: httpx.AsyncClient, run_id: str, **asked: Any) -> dict[str, Any]:
    answer = await client.post(f"/optimizations/{run_id}/questions", json={"words": "Is it right?", **asked})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def queue(client: httpx.AsyncClient, question: dict[str, Any]) -> list[dict[str, Any]]:
    at = f"/optimizations/{question['optimization_id']}/questions/{question['question_id']}/items"
    found: list[dict[str, Any]] = []
    while True:
        page = (await client.get(at, params={"after": found[-1]["position"] if found else -1, "limit": 7})).json()
        found += page["items"]
        if page["next_after"] is None:
            assert page["total"] == len(found) == question["items"]
            return found


async def say(client: httpx.AsyncClient, question: dict[str, Any], labels: Sequence[str | None]) -> None:
    for position, label in enumerate(labels):
        if label is not None:
            at = f"/optimizations/{question['optimization_id']}/questions/{question['question_id']}/items/{position}/label"
            assert (await client.put(at, json={"label": label})).status_code == 204


async def test_answers_are_drawn_by_a_seed_at_random_or_where_scores_disagree(http: httpx.AsyncClient, labelled: str) -> None:
    first, again, other = [await ask(http, labelled, kind="right_or_wrong", count=12, seed=seed) for seed in (5, 5, 6)]
    drawn = [[one["item_id"] for one in await queue(http, question)] for question in (first, again, other)]
    assert drawn[0] == drawn[1] != drawn[2] and len(set(drawn[0])) == 12
    assert (first["seed"], first["drawn_from"], first["categories"]) == (5, 42, ["right", "wrong"])
    assert set((await queue(http, first))[0]["answers"][0]) == {"output", "is_removed"}  # no score, no candidate

    split = await ask(http, labelled, kind="scale", drawn="disagreement", count=1000)
    best = split["candidates"][0]
    items = (await http.get(f"/optimizations/{labelled}/trials/{best}/items", params={"limit": 1000})).json()["items"]
    told = {one["item_id"] for one in items if len({part["passed"] for part in one["score_details"].values()}) == 2}
    assert {one["item_id"] for one in await queue(http, split)} == told and 0 < len(told) < len(items)
    assert (split["ends"], first["ends"]) == (["worst", "best"], [])
    assert (await ask(http, labelled, kind="scale", steps=3, ends=["useless", "helps"], count=1))["ends"] == [
        "useless",
        "helps",
    ]
    assert split["categories"] == ["1", "2", "3", "4", "5"] and split["drawn_from"] == len(told)

    two = await ask(http, labelled, kind="better_of_two", count=1000)
    run = (await http.get(f"/optimizations/{labelled}")).json()
    assert two["candidates"] == [run["baseline_candidate_id"], best]
    given = {one["item_id"]: one["output"] for one in items}
    places = [[answer["output"] for answer in one["answers"]].index(given[one["item_id"]]) for one in await queue(http, two)]
    assert set(places) == {0, 1}  # neither candidate is always shown first
    pairs = [[answer["output"] for answer in one["answers"]] for one in await queue(http, two)]
    theirs = (await http.get(f"/optimizations/{labelled}/trials/{two['candidates'][0]}/items", params={"limit": 1000})).json()
    differing = [one["item_id"] for one in theirs["items"] if one["output"] != given[one["item_id"]]]
    assert all(one != other for one, other in pairs) and len(pairs) == two["drawn_from"] == len(differing) < len(given)


async def test_people_label_under_their_names_and_their_agreement_labels_and_dataset_are_told(
    guarded_url: str, servers: Servers, engines: Engines, labelled: str, tmp_path: Path
) -> None:
    ann_token, ben_token = [await made_token(servers.database, name, Role.RUN) for name in ("ann", "ben")]
    async with holding(guarded_url, ann_token) as ann, holding(guarded_url, ben_token) as ben:
        words = "=Is it right?"
        question = await ask(ann, labelled, kind="categories", words=words, categories=["good", "poor"], count=8, seed=1)
        at = f"/optimizations/{labelled}/questions/{question['question_id']}"
        await say(ann, question, ["good", "good", "good", "good", "poor", "poor", "poor", "good"])
        await say(ben, question, ["good", "good", "good", "poor", "poor", "poor", "poor", None])
        await say(ben, question, ["good"])  # once more: one label of each for each answer
        assert [one["label"] for one in await queue(ben, question)][3:] == ["poor"] * 4 + [None]
        standing = (await ann.get(at)).json()
        assert standing["people"] == [{"who": "ann", "labels": 8}, {"who": "ben", "labels": 7}]

        agreed = (await ann.get(f"{at}/agreement")).json()
        assert (agreed["people"], agreed["shared"], agreed["same"]) == (["ann", "ben"], 7, 6 / 7)
        cohen = next(one for one in agreed["kappas"] if one["method"] == "cohen")
        expected = (4 / 7) * (3 / 7) + (3 / 7) * (4 / 7)
        assert cohen["value"] == pytest.approx(1 - (1 / 7) / (1 - expected)) and cohen["low"] < cohen["value"] < cohen["high"]

        lines = [json.loads(line) for line in (await ann.get(f"{at}/labels")).text.splitlines()]
        assert len(lines) == 15 and {one["through"] for one in lines if one["who"] == "ben"} == {"HTTP, by the token 'ben'"}
        assert CONTENT | {"config_hash", "target", "item_hash", "replicate", "at", "question"} <= set(lines[0])
        table = [*csv.DictReader(io.StringIO((await ann.get(f"{at}/labels", params={"format": "csv"})).text))]
        assert [row["label"] for row in table] == [one["label"] for one in lines] and table[0]["question"] == f"'{words}"
        assert table[0]["item_hash"] == lines[0]["item_hash"]

        stored = (await ben.post(f"{at}/dataset", json={"name": "judged"})).json()
        assert (stored["version"], stored["count"], stored["tied"]) == (1, 7, 1)
        samples = (await ben.get(f"/datasets/{stored['dataset_id']}/samples")).json()["items"]
        assert [one["expected"] for one in samples] == ["good"] * 3 + ["poor"] * 3 + ["good"]
        assert samples[0]["input"]["question"] == words and samples[0]["input"]["output"] == lines[0]["output"]
        await say(ben, question, [*[None] * 7, "good"])
        again = (await ben.post(f"{at}/dataset", json={"name": "judged"})).json()
        assert (again["version"], again["dataset_id"] != stored["dataset_id"]) == (2, True)

        for wrong, status, field in (
            ({"label": "bad"}, 422, "label"),
            ({}, 422, "label"),
        ):
            refused = await ben.put(f"{at}/items/0/label", json=wrong)
            assert (refused.status_code, field in refused.json()["error"]["message"]) == (status, True)
        assert (await ben.put(f"{at}/items/8/label", json={"label": "good"})).status_code == 404
        assert (await ben.delete(f"{at}/items/7/label")).status_code == 204
        assert (await ben.delete(f"{at}/items/7/label")).status_code == 404
        assert (await ben.delete(at)).status_code == 403
    async with holding(guarded_url, await made_token(servers.database, "looks", Role.READ)) as reader:
        assert (await reader.get(f"{at}/items")).status_code == 200
        assert (await reader.put(f"{at}/items/0/label", json={"label": "good"})).status_code == 403

    # The command line has the same.
    shell = Shell(
        tmp_path, {"TEMPORAL_ADDRESS": engines.addresses.temporal_address, "DATABASE_URL": engines.addresses.database_url}
    )
    number = str(question["question_id"])
    done = await shell.ratchet("labels", "export", labelled, "--question", number, "--format", "csv", "--output", "labels.csv")
    assert done.code == 0, done.errors
    assert [row["who"] for row in csv.DictReader((tmp_path / "labels.csv").open())].count("ann") == 8
    told = await shell.ratchet("labels", "list", labelled)
    assert (words in told.out, "Cohen's kappa 0.7" in told.out, "ann: 8 of 8" in told.out) == (True, True, True), told.out
    missing = await shell.ratchet("labels", "export", labelled, "--question", "999999")
    assert (missing.code, "ratchet labels list" in missing.errors) == (2, True)

    async with holding(guarded_url, ann_token) as ann:
        assert (await ann.delete(at)).status_code == 204
        assert (await ann.get(at)).status_code == 404


@pytest.mark.parametrize(
    ("asked", "status", "field"),
    [
        ({"kind": "categories", "categories": ["one"]}, 422, "categories"),
        ({"kind": "categories", "categories": ["one", "one"]}, 422, "categories"),
        ({"kind": "right_or_wrong", "categories": ["one", "two"]}, 422, "categories"),
        ({"kind": "right_or_wrong", "steps": 4}, 422, "steps"),
        ({"kind": "right_or_wrong", "ends": ["no", "yes"]}, 422, "ends"),
        ({"kind": "scale", "ends": ["no"]}, 422, "ends"),
        ({"kind": "better_of_two", "candidates": ["one"]}, 422, "candidates"),
        ({"kind": "right_or_wrong", "candidates": ["r9-none"]}, 404, "candidates"),
        ({"kind": "right_or_wrong", "words": " "}, 422, "words"),
    ],
)
async def test_a_question_that_cannot_be_asked_is_refused_by_its_field(
    http: httpx.AsyncClient, labelled: str, asked: dict[str, Any], status: int, field: str
) -> None:
    answer = await http.post(f"/optimizations/{labelled}/questions", json={"words": "Is it right?", **asked})
    assert (answer.status_code, field in answer.json()["error"]["message"]) == (status, True), answer.text
