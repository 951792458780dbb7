"""The NetHack example, really played: the same seed gives the same game, and a small run of it ends with a verdict."""

from __future__ import annotations

import json
import platform
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from clients.checks.spec_file import read_spec_file
from clients.embedded.stack import StackAddresses
from clients.prompts.version_files import read_versions
from clients.temporal import connect
from ratchet import ExperimentContext, Sample
from ratchet.prompts import open_store
from tests.support.nethack_worker import serving_nethack

EXAMPLE = Path(__file__).parents[3] / "examples" / "nethack"
SUPPORTED = sys.platform == "linux" and platform.machine() == "x86_64"

pytestmark = [
    pytest.mark.skipif(not SUPPORTED, reason="NetHack (package nle) needs Linux on x86-64"),
    pytest.mark.timeout(300),
]


@pytest.fixture
def episode(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's plug-ins, found as a worker finds them: by the spec's directory."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return import_module("nethack_player.episode")


SHORT = {"max_turns": 150, "max_keys": 200}
[FIRST] = read_versions(EXAMPLE / "prompt_v1.0.0.yaml", "games/nethack").versions


def _played(episode: Any, seed: int, **changes: Any) -> dict[str, Any]:
    policy = {name: parameter.value for name, parameter in FIRST.template.parameters.items()}
    context = ExperimentContext(id="t", name="t", overrides_tag="o")
    output: dict[str, Any] = episode.play({**policy, **SHORT, **changes}, Sample(id="s", input=seed), context).value
    return output


def test_the_same_seed_and_the_same_policy_give_the_same_game(episode: Any) -> None:
    first = _played(episode, 3)
    _played(episode, 4)
    assert _played(episode, 3) == first
    assert _played(episode, 4) != first


def test_another_policy_plays_another_game(episode: Any) -> None:
    cautious = {"health_threshold": 0.9, "skill_priority": ["flee", "explore", "fight", "eat", "use_item"]}
    assert any(_played(episode, seed) != _played(episode, seed, **cautious) for seed in range(1, 6))


async def test_a_small_evolution_ends_with_a_verdict(stack: StackAddresses) -> None:
    spec = json.loads(json.dumps(read_spec_file(EXAMPLE / "spec.yaml").content))
    spec["configuration"] = SHORT
    spec["dataset"]["items"] = {split: seeds[:12] for split, seeds in spec["dataset"]["items"].items()}
    async with serving_nethack(stack, EXAMPLE) as queue, await open_store(stack.database_url) as store:
        await store.seed(FIRST.template)
        client = await connect(stack.temporal_address)
        result = await client.execute_workflow("OptimizationWorkflow", spec, id="nethack-small", task_queue=queue)
    assert result["status"] == "completed"
    assert result["stop_reason"] in ("convergence", "max_rounds")
    assert result["confirmation"]["baseline_score"] > 0
