"""Specs that name a prompt, on the command line: files are read beside the spec, stored prompts only looked at."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from clients.checks.findings import Checked, check_spec
from clients.checks.plan_summary import summary_of
from clients.demo.model_server import simulated_model
from clients.runs.identity import run_id_of
from ratchet.prompts import Overrides, open_store
from tests.support.engines import Engines
from tests.support.prompt_examples import template, toned

ROOT = Path(__file__).parents[3]
SPEC: dict[str, Any] = {
    "name": "t",
    "prompt": {"file": "prompts/triage.yaml"},
    "target": {"kind": "python", "ref": "mine:target"},
    "dataset": {"items": [{"input": {"ticket": "Where is it?"}, "expected": "yes"}], "splits": "none"},
    "objective": "exact",
    "optimizer": {"proposer": {"kind": "step"}, "factors": ["param:risk", "param:tries"]},
    "stop": {"max_rounds": 1},
    "budget": {"trials": 1},
}
MINE = "def target(configuration, sample, context): return 'yes' if configuration['prompt'] else 'no'\n"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "triage.yaml").write_text(yaml.safe_dump(template().model_dump(mode="json", by_alias=True)))
    return tmp_path


async def checked(directory: Path, **changes: Any) -> Checked:
    (directory / "spec.yaml").write_text(yaml.safe_dump({**SPEC, **changes}, sort_keys=False))
    return await check_spec(directory / "spec.yaml", endpoints=False)


def messages(found: Checked) -> list[str]:
    return [finding.message for finding in found.findings]


def run_id(found: Checked) -> str:
    assert found.known is not None
    return run_id_of(found.known, "d" * 64, {}, {})


class TestFiles:
    async def test_sections_and_parameters_are_told_with_their_length(self, directory: Path) -> None:
        found = await checked(directory)
        assert messages(found) == []
        lines, told = summary_of(found)
        facts: Any = told
        sections = {section["path"]: section["tokens"] for section in facts["prompt"]["sections"]}
        assert list(sections) == ["task", "rules/labels", "rules/tone", "tools/lookup", "examples", "ticket"]
        assert all(0 < tokens < 20 for tokens in sections.values())
        rest = ", ".join(f"{path} {tokens}" for path, tokens in sections.items() if path != "task")
        assert f"  Prompt:    support/triage (prompts/triage.yaml); tokens: task 5 (frozen), {rest}" in lines
        assert facts["prompt"]["parameters"][:2] == ["param:labels", "param:risk"]
        assert facts["prompt"]["sections"][0] == {"path": "task", "kind": "text", "frozen": True, "tokens": 5}
        assert "section:rules/tone" in facts["factors"]

    async def test_the_run_is_started_with_what_the_file_says(self, directory: Path) -> None:
        found = await checked(directory)
        assert found.request is not None and found.request.prompt is not None and found.request.prompt.snapshot is not None
        assert found.request.baseline["section:rules/tone"] == "Be brief."

    async def test_a_run_is_the_same_wherever_its_file_is_and_another_with_another_prompt(self, directory: Path) -> None:
        before = run_id(await checked(directory))
        (directory / "elsewhere.yaml").write_text((directory / "prompts" / "triage.yaml").read_text())
        assert run_id(await checked(directory, prompt={"file": "elsewhere.yaml"})) == before
        (directory / "elsewhere.yaml").write_text((directory / "prompts" / "triage.yaml").read_text().replace("brief", "short"))
        assert run_id(await checked(directory, prompt={"file": "elsewhere.yaml"})) != before

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (None, "prompt.file: cannot be read: No such file or directory"),
            ("sections: [", "prompt.file: line 1: is not valid YAML"),
            ("prompt: support/triage\nsections: []\n", "prompt.file: sections: is empty; add at least one entry"),
            (
                "prompt: triage\nsections: [{path: a, body: b}]\n",
                "prompt.file: prompt: prompt 'triage' is not allowed; write namespace/key",
            ),
            (
                "prompt: a/b\nsections: [{path: a, body: 'Hello {{name}}'}]\n",
                "prompt.file: sections.a: placeholder {{name}} is unknown; use {{input.…}}",
            ),
            ("prompt: a/b\nsections: [{path: a, body: b, colour: red}]\n", "colour: is not a known field"),
        ],
    )
    async def test_a_file_that_cannot_be_used_is_told_of_with_its_place(
        self, directory: Path, text: str | None, message: str
    ) -> None:
        if text is not None:
            (directory / "bad.yaml").write_text(text)
        [told] = messages(await checked(directory, prompt={"file": "bad.yaml"}))
        assert message in told

    async def test_what_the_prompt_asks_of_samples_is_checked(self, directory: Path) -> None:
        http = {"kind": "http", "url": "http://127.0.0.1:9/x", "body": "{{factors.prompt}}"}
        lacking = {"items": [{"input": {"text": "x"}, "expected": "yes"}], "splits": "none"}
        [told] = messages(await checked(directory, target=http, dataset=lacking))
        assert told == "dataset.items[0].input: has no 'ticket', which target.body needs"


class TestStoredPrompts:
    @pytest.fixture
    async def stored(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        url = f"file:{directory / 'store'}"
        monkeypatch.setenv("RATCHET_OVERRIDES", url)
        async with await open_store(url) as store:
            await store.seed(template())
        return directory

    async def test_they_are_looked_at_but_read_by_the_run_itself(self, stored: Path) -> None:
        found = await checked(stored, prompt="support/triage")
        assert messages(found) == []
        assert found.request is not None and found.request.prompt is not None and found.request.prompt.snapshot is None
        lines, _ = summary_of(found)
        assert any(line.startswith("  Prompt:    support/triage (stable, 1.0.0); tokens: task 5 (frozen)") for line in lines)

    async def test_a_tag_that_moved_makes_another_run(self, stored: Path) -> None:
        before = run_id(await checked(stored, prompt="support/triage"))
        async with await open_store(f"file:{stored / 'store'}") as store:
            await store.store(template(), toned("Be polite."), tag="stable", expected=1)
            moved = run_id(await checked(stored, prompt="support/triage"))
            await store.store(template(), Overrides(), tag="stable", expected=2)
        assert run_id(await checked(stored, prompt="support/triage")) == before != moved

    @pytest.mark.parametrize(
        ("prompt", "message"),
        [
            ("support/nobody", "prompt.name: the store has no prompt support/nobody"),
            ("suport/triage", "see `ratchet prompts list`; did you mean support/triage?"),
            ({"name": "support/triage", "tag": "beta"}, "prompt.tag: support/triage has no tag 'beta'; it has stable"),
        ],
    )
    async def test_what_is_not_there_is_an_error(self, stored: Path, prompt: Any, message: str) -> None:
        assert message in messages(await checked(stored, prompt=prompt))[0]

    async def test_a_store_that_starts_with_the_run_is_not_asked(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("RATCHET_OVERRIDES", raising=False)
        monkeypatch.delenv("DATABASE_URL", raising=False)
        found = await checked(directory, prompt="support/triage")
        assert messages(found) == []
        [missing] = (await check_spec(directory / "spec.yaml", endpoints=False, home=directory / "empty")).errors
        assert "prompt.name: there is no prompt 'support/triage', nor any other in" in missing.message
        assert missing.line is not None
        lines, _ = summary_of(found)
        assert "  Prompt:    support/triage (stable), read when the run begins" in lines
        assert "  Factors:   those of the prompt" in lines


async def ratchet(engines: Engines, directory: Path, *arguments: str) -> str:
    """What a command says that ends well."""
    environment = os.environ | {
        "TEMPORAL_ADDRESS": engines.addresses.temporal_address,
        "DATABASE_URL": engines.addresses.database_url,
        "PYTHONPATH": str(ROOT),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "clients.cli", *arguments,
        cwd=directory, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    told, wrong = await process.communicate()
    assert process.returncode == 0, wrong.decode()
    return told.decode()


async def test_a_run_of_a_stored_prompt_is_found_again_until_its_tag_moves(engines: Engines, directory: Path) -> None:
    async with await open_store(engines.addresses.database_url) as store:
        prompt = template("cli/triage")
        await store.seed(prompt)
        (directory / "spec.yaml").write_text(yaml.safe_dump({**SPEC, "prompt": "cli/triage"}))

        async def run() -> str:
            told = await ratchet(engines, directory, "--json", "run", "spec.yaml", "--yes")
            return str(json.loads(told.splitlines()[-1])["run_id"])

        first, again = await run(), await run()
        assert first == again
        await store.store(prompt, toned("Be polite.", prompt), tag="stable", expected=1)
        assert await run() != first


async def test_the_example_improves_its_prompt(engines: Engines, tmp_path: Path) -> None:
    example = ROOT / "examples" / "prompt"
    spec = yaml.safe_load((example / "spec.yaml").read_text(encoding="utf-8"))
    (tmp_path / "triage.yaml").write_bytes((example / "triage.yaml").read_bytes())
    spec["dataset"]["path"] = str(example / spec["dataset"]["path"])
    async with simulated_model() as server:
        spec["target"]["base_url"] = spec["optimizer"]["proposer"]["base_url"] = server.base_url
        (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec), encoding="utf-8")
        told = await ratchet(engines, tmp_path, "run", str(tmp_path / "spec.yaml"), "--yes")
    assert "║  Prompt:           support/triage (triage.yaml)" in told
    assert "║  Treatment:        section:rules, section:answer" in told
    assert "section:role=You are a support assistant." in " ".join(told.split())
    score = next(line for line in told.splitlines() if line.startswith("║  Score:"))
    before, after = re.findall(r"\d\.\d+", score)[:2]
    assert float(after) > float(before) + 0.3
