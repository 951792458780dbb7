"""Versions of a prompt as files: out and in again, to the byte; and what is no version is told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clients.prompts.version_files import BadVersionFile, read_versions, written_versions
from ratchet.prompts import Change, Overrides, OverrideStore, PromptTemplate, Resolved, open_store
from workflows.rules.releases.versions import Version

NAME = "support/triage"
TEMPLATE = PromptTemplate.from_yaml(
    """
    prompt: support/triage
    sections:
      - {path: task, body: "You label tickets.", accepts_overrides: false}
      - {path: rules/labels, body: "Use billing or bug.\\n\\n"}
      - {kind: tool, path: tools/lookup, name: lookup, description: "Look a customer up."}
      - {kind: example, path: examples, examples: [{input: {ticket: no}, output: billing}]}
    parameters:
      limit: {type: number, value: 0.3, min: 0, max: 1}
      order: {type: order, value: [a, b]}
    """
)
POLICY = """
version: v1.0.1
timestamp: 2024-01-21T10:00:00
task_definition: |
  You are an expert NetHack player...
rules_constraints:
  - Never waste critical resources
skill_descriptions:
  explore: Navigate unexplored areas
  fight: Engage enemies
policy_parameters:
  health_threshold: 0.4
  max_exploration_steps: 100
  skill_priority: [explore, fight]
mutation_history:
  - {version: v1.0.1, prev_version: v1.0.0, description: Increased health_threshold, timestamp: 2024-01-21T10:00:00}
"""
SHOWN = """\
TASK DEFINITION
You are an expert NetHack player...

RULES AND CONSTRAINTS
- Never waste critical resources

AVAILABLE SKILLS
- explore: Navigate unexplored areas
- fight: Engage enemies

DECISION POLICY PARAMETERS
{
  "health_threshold": 0.5,
  "max_exploration_steps": 100,
  "skill_priority": ["explore","fight"]
}"""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[OverrideStore]:
    async with await open_store(f"file:{tmp_path / 'store'}") as store:
        await store.seed(TEMPLATE)
        yield store


async def changed(store: OverrideStore, version: str, **values: Any) -> None:
    now = await store.resolve(NAME, tag="stable")
    configuration = now.configuration | {name.replace("__", ":").replace("_", "/"): value for name, value in values.items()}
    await store.store(
        TEMPLATE,
        TEMPLATE.overrides_of(configuration),
        tag="stable",
        expected=now.state.revision,
        change=Change(why=f"it became {version}"),
        version=version,
    )


async def versions(store: OverrideStore) -> list[Resolved]:
    return [await store.resolve(NAME, tag=str(state.version)) for state in await store.versions(NAME)]


async def test_what_went_out_comes_in_again_with_template_and_overrides(store: OverrideStore, tmp_path: Path) -> None:
    await changed(store, "1.0.1", param__limit=0.4)
    await changed(
        store, "1.0.10", section__rules_labels="Use billing, bug or \x1b[31mspam\n  \n", section__tools_lookup="Look."
    )
    await changed(store, "1.0.2", section__examples=[])
    wanted = await versions(store)
    written_versions(wanted, "1.0.2", tmp_path / "out")
    assert json.loads((tmp_path / "out" / "versions.json").read_text()) == {
        "current": "v1.0.2",
        "all_versions": ["v1.0.0", "v1.0.1", "v1.0.2", "v1.0.10"],
    }
    found = read_versions(tmp_path / "out")
    assert found.current == Version(1, 0, 2)
    assert [version.hash for version in found.versions] == [version.hash for version in wanted]
    assert {version.template.hash for version in found.versions} == {TEMPLATE.hash}
    assert [version.overrides for version in found.versions] == [version.state.overrides for version in wanted]
    assert [version.why for version in found.versions] == ["", "it became 1.0.1", "it became 1.0.2", "it became 1.0.10"]


async def test_a_file_that_is_there_is_never_overwritten_with_something_else(store: OverrideStore, tmp_path: Path) -> None:
    await changed(store, "1.0.1", param__limit=0.4)
    written_versions(await versions(store), "1.0.1", tmp_path)
    written_versions(await versions(store), "1.0.0", tmp_path)
    there = tmp_path / "prompt_v1.0.0.yaml"
    there.write_text(there.read_text().replace("0.3", "0.5"))
    with pytest.raises(BadVersionFile, match="versions never change"):
        written_versions(await versions(store), "1.0.1", tmp_path)
    assert "0.5" in there.read_text()


def test_a_policys_own_form_is_read_with_its_parts_frozen_and_its_parameters_typed(tmp_path: Path) -> None:
    (tmp_path / "prompt_v1.0.1.yaml").write_text(POLICY)
    [version] = read_versions(tmp_path, "games/nethack").versions
    assert (str(version.number), version.why) == ("1.0.1", "Increased health_threshold")
    assert [section.path for section in version.template.sections if not section.accepts_overrides] == [
        "task",
        "rules",
        "skills",
        "policy",
    ]
    types = {name: parameter.type for name, parameter in version.template.parameters.items()}
    assert types == {"health_threshold": "number", "max_exploration_steps": "integer", "skill_priority": "order"}
    assert version.template.text(version.template.configuration(Overrides(parameters={"health_threshold": 0.5}))) == SHOWN


async def test_a_policy_goes_out_in_its_own_form_and_comes_in_again(tmp_path: Path) -> None:
    (tmp_path / "prompt_v1.0.1.yaml").write_text(
        POLICY.replace("skill_priority:", "courage: {type: number, value: 3, min: 1, max: 9}\n  skill_priority:")
    )
    [version] = read_versions(tmp_path, NAME).versions
    overrides = Overrides(parameters={"health_threshold": 1, "courage": 4, "skill_priority": ["fight", "explore"]})
    async with await open_store(f"file:{tmp_path / 'store'}") as store:
        await store.seed(version.template)
        await store.store(version.template, overrides, tag="stable", expected=1, version="1.0.1")
        written_versions(await versions(store), "1.0.1", tmp_path / "out")
    text = (tmp_path / "out" / "prompt_v1.0.1.yaml").read_text()
    assert 'rules_constraints:\n  - "Never waste critical resources"\n' in text
    assert "sections:" not in text
    found = read_versions(tmp_path / "out").versions
    assert {one.template.hash for one in found} == {version.template.hash}
    assert [one.overrides for one in found] == [Overrides(), overrides]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("prompt_v1.0.0.yaml", "version: v1.0.1\n", "is named as version 1.0.0 and says that it is 1.0.1"),
        ("prompt_v1.0.yaml", "prompt: a/b\n", "version: '1.0' is no version"),
        ("prompt_v1.0.0.yaml", "- a\n", "it holds no fields"),
        ("prompt_v1.0.0.yaml", "a: [1\n", "is not valid YAML"),
        ("prompt_v1.0.0.yaml", "prompt: a/b\nsections: []\n", "sections"),
        ("prompt_v1.0.0.yaml", POLICY.replace("v1.0.1", "v1.0.0", 1), "does not say which prompt it is of; give --name"),
        ("prompt_v1.0.1.yaml", POLICY.replace("0.4", "-3"), "health_threshold: -3 has no range of its own"),
        ("prompt_v1.0.1.yaml", POLICY.replace("0.4", ".nan"), "health_threshold"),
        (
            "prompt_v1.0.1.yaml",
            f"prompt: a/b\n{POLICY.replace(', fight]', ']')}",
            "parameters.skill_priority orders explore, but",
        ),
    ],
)
def test_what_is_no_version_is_told_with_its_file(name: str, text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadVersionFile) as refused:
        read_versions(tmp_path)
    assert str(tmp_path / name) in str(refused.value)
    assert told in str(refused.value)


def test_an_index_that_names_a_missing_version_is_told(tmp_path: Path) -> None:
    (tmp_path / "prompt_v1.0.1.yaml").write_text(POLICY)
    (tmp_path / "versions.json").write_text('{"current": "v2.0.0"}')
    with pytest.raises(BadVersionFile, match=r"2\.0\.0 is current, but there is no prompt_v2"):
        read_versions(tmp_path, "games/nethack")
    (tmp_path / "versions.json").write_text("[]")
    with pytest.raises(BadVersionFile, match="does not say which version is current"):
        read_versions(tmp_path, "games/nethack")


def test_a_folder_of_nothing_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadVersionFile, match=r"holds no file named prompt_v1\.0\.0\.yaml"):
        read_versions(tmp_path)
    with pytest.raises(BadVersionFile, match="there is no file and no folder"):
        read_versions(tmp_path / "nowhere")
