"""A stored prompt, compressed once: what its run reports is applied in every kind of store, and is what was confirmed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ratchet.prompts import Overrides, OverrideStore, PromptTemplate, open_store, prompt_part
from tests.support.engines import Engines
from tests.support.prompt_places import BACKENDS, Place, place_of_kind
from tests.support.shells import Shell

TEMPLATE = PromptTemplate.model_validate(
    {
        "prompt": "support/wordy",
        "sections": [
            {"path": "role", "body": "You sort tickets, and take pride in it.", "accepts_overrides": False},
            {"path": "answer", "body": "Answer."},
            {
                "path": "rules/labels",
                "body": "Labels: billing, shipping. Choose with the care that every customer deserves of us.",
            },
            {
                "kind": "tool",
                "path": "tools/lookup",
                "name": "lookup",
                "description": "Finds an order by its number. Please do not use it more often than you really have to.",
            },
        ],
        "parameters": {"tone": {"type": "choice", "value": "kind", "choices": ["kind", "calm"]}},
    }
)
OVERRIDDEN = "Give one label and nothing more than one label. Whatever happens, be kind and of good cheer."
SHORTER = {
    "section:rules/labels": "Labels: billing, shipping.",
    "section:tools/lookup": "Finds an order by its number.",
}


async def in_production(store: OverrideStore) -> None:
    """The prompt with a section and a parameter overridden, as after an earlier release."""
    seeded = await store.seed(TEMPLATE)
    overrides = Overrides(sections={"answer": TEMPLATE.override("answer", OVERRIDDEN)}, parameters={"tone": "calm"})
    await store.store(TEMPLATE, overrides, tag="stable", expected=seeded.revision)


@pytest.fixture(scope="module")
async def compressed(engines: Engines) -> dict[str, Any]:
    """The result of the run."""
    async with await open_store(engines.addresses.database_url) as store:
        await in_production(store)
    items = [{"id": f"s{n}", "input": {"ticket": f"ticket {n}"}} for n in range(16)]
    return await engines.run(
        {
            "name": "wordy",
            "prompt": TEMPLATE.name,
            "target": {"kind": "python", "ref": "prompted:tells_prompt_and_tools"},
            "dataset": {"items": items, "splits": {"validation": 0.5, "test": 0.5}},
            "scorers": [{"kind": "python", "name": "needed", "ref": "prompted:needed"}],
            "objective": {"metric": "needed"},
            "optimizer": {
                "name": "compress",
                "strategies": [],
                "proposer": {"kind": "python", "ref": "prompted:shortest_and_shorter"},
                "min_section_tokens": 1,
            },
            "judgement": {"rule": "strict"},
            "replicates": 1,
            "seed": 7,
        }
    )


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest) -> Place:
    return place_of_kind(request.param, request)


def _shell(engines: Engines, place: Place, folder: Path) -> Shell:
    at = engines.addresses
    servers = {"TEMPORAL_ADDRESS": at.temporal_address, "DATABASE_URL": at.database_url, "RATCHET_OVERRIDES": place.url}
    return Shell(folder, servers | place.environment)


async def test_the_report_of_a_run_applies_to_the_prompt_in_every_store(
    compressed: dict[str, Any], engines: Engines, place: Place, tmp_path: Path
) -> None:
    async with await place.open() as store:
        await in_production(store)
        applied = await _shell(engines, place, tmp_path).ratchet(
            "prompts", "apply", compressed["optimization_id"], "--by", "ann", "--json"
        )
        assert (applied.code, applied.facts["version"]) == (0, "1.1.0"), applied
        in_force = await store.resolve(TEMPLATE.name, tag="stable")
    assert in_force.configuration == prompt_part(compressed["best_configuration"])
    assert (in_force.state.change.action, in_force.state.change.by) == ("apply", "ann")


async def test_what_was_applied_stays_so_and_a_tag_that_is_elsewhere_does_not_move(
    compressed: dict[str, Any], engines: Engines, tmp_path: Path
) -> None:
    place, run_id = Place("file", f"file:{tmp_path / 'prompts'}"), compressed["optimization_id"]
    shell = _shell(engines, place, tmp_path)
    async with await place.open() as store:
        await in_production(store)
        await store.copy_tag(TEMPLATE.name, source="1.0.0", tag="other", expected=None)
        first, again = [(await shell.ratchet("prompts", "apply", run_id, "--json")).facts for _ in range(2)]
        assert first == again and first["version"] == "1.1.0"
        stale = await shell.ratchet("prompts", "apply", run_id, "--tag", "other")
        assert (stale.code, "not at what this was validated on" in stale.errors) == (1, True)


def test_the_report_names_sections_as_an_override_must(compressed: dict[str, Any]) -> None:
    report = compressed["compression"]
    assert (report["prompt"], report["confirmed"]) == (TEMPLATE.name, True)
    assert {each["section_path"]: each["original_hash"] for each in report["modifications"]} == {
        path: TEMPLATE.section(path).hash for path in ("answer", "rules/labels", "tools/lookup")
    }
    found = {f"section:{each['section_path']}": each["proposed_body"] for each in report["modifications"]}
    assert found.items() >= SHORTER.items()
    assert [edit["section_path"] for edit in report["rejected"] if edit["regression_count"]] == ["tools/lookup"]
