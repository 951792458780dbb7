"""Recorded histories replay against the code as it is; a change of the command sequence must be made on purpose."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.plugin import SimplePlugin
from temporalio.worker import Replayer
from temporalio.worker.workflow_sandbox import _runner
from temporalio.worker.workflow_sandbox._importer import Importer

from clients.temporal import LIBRARIES, ratchet_plugin
from tests.support.clock_workflow import ReadsTheClock
from tests.support.replaying import HISTORIES
from tests.system.replay.fingerprints import FINGERPRINTS, WORKFLOWS, commands_in, commands_of_workflows
from tests.system.replay.paths import PATHS
from workflows.cleanup import CleanupWorkflow
from workflows.optimization import OptimizationWorkflow
from workflows.own_activity import OwnActivityWorkflow
from workflows.release import ReleaseWorkflow
from workflows.trial import TrialWorkflow

RECORDED = sorted(HISTORIES.glob("*.json"))
TRIALS = {
    "completed_trial_1",
    "cancelled_trial_1",
    "time_is_over_trial_1",
    "several_shards_trial_1",
    "by_activity_trial_1",
    "by_activity_cancelled_trial_1",
    "on_runner_trial_1",
    "own_activities_call_1",
}
HINT = "if the change is meant, record the histories anew: .venv/bin/python -m tests.system.replay.record"


def load(path: Path) -> WorkflowHistory:
    document = json.loads(path.read_text())
    return WorkflowHistory.from_json(document["workflow_id"], document["history"])


def replayer(plugin: SimplePlugin | None = None, *more: type) -> Replayer:
    workflows = [OptimizationWorkflow, TrialWorkflow, ReleaseWorkflow, CleanupWorkflow, OwnActivityWorkflow, *more]
    return Replayer(workflows=workflows, plugins=[plugin or ratchet_plugin()])


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_a_recorded_history_replays(path: Path) -> None:
    result = await replayer().replay_workflow(load(path), raise_on_replay_failure=False)
    assert result.replay_failure is None, f"{path.stem}: {result.replay_failure}; {HINT}"


@pytest.fixture(scope="module")
def strict() -> Iterator[Replayer]:
    """A sandbox that passes nothing of ours through. Filled once: what is imported inside stays there for all histories."""
    filled: list[Importer] = []

    def importer(*given: Any, **named: Any) -> Importer:
        filled.extend([] if filled else [Importer(*given, **named)])
        return filled[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workflow.unsafe, "imports_passed_through", nullcontext)
        patch.setattr(_runner, "Importer", importer)
        yield replayer(ratchet_plugin(passed_through=LIBRARIES), ReadsTheClock)
        ours = [name for name in filled[0].new_modules if name.split(".")[0] in ("workflows", "ratchet")]
        assert ours and all(filled[0].new_modules[name] is not sys.modules[name] for name in ours)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_a_recorded_history_replays_with_nothing_of_ours_outside_the_sandbox(path: Path, strict: Replayer) -> None:
    """Workers pass our modules through the sandbox, for speed. Here they are imported inside, where clock, randomness, threads
    and files are refused: what is not deterministic fails."""
    result = await strict.replay_workflow(load(path), raise_on_replay_failure=False)
    assert result.replay_failure is None, f"{path.stem}: {result.replay_failure}"


async def test_what_is_not_deterministic_does_not_replay(strict: Replayer) -> None:
    """The guard itself, after others have filled the sandbox."""
    document = (HISTORIES / "completed.json").read_text().replace('"OptimizationWorkflow"', '"ReadsTheClock"')
    history = WorkflowHistory.from_json("clock", json.loads(document)["history"])
    result = await strict.replay_workflow(history, raise_on_replay_failure=False)
    assert "time.time" in str(result.replay_failure)


def test_every_path_is_recorded_with_its_trials() -> None:
    recorded = {path.stem for path in RECORDED}
    for path in PATHS:
        assert any(name == path.name or name.startswith(f"{path.name}_execution") for name in recorded), HINT
        assert path.prompt is None or f"{path.name}_writer_1" in recorded, HINT
    assert recorded >= TRIALS


def test_the_workflows_give_the_commands_that_were_recorded() -> None:
    assert commands_of_workflows() == json.loads(FINGERPRINTS.read_text()), HINT


def test_a_moved_or_dropped_command_is_noticed() -> None:
    """The guard itself: trading two commands, or dropping one, changes what it reads."""
    source = (WORKFLOWS / "trial.py").read_text()
    assert "execute_local_activity_method" in source
    before = commands_in(source, "trial")
    assert commands_in(source.replace("execute_local_activity_method", "execute_activity_method"), "trial") != before
    assert commands_in(source.replace("Evaluating.conclude_trial", "Evaluating.evaluate_shard"), "trial") != before


async def test_a_changed_command_sequence_does_not_replay() -> None:
    """A history that calls for another activity than the code must not pass."""
    path = HISTORIES / "completed.json"
    document: dict[str, Any] = json.loads(path.read_text().replace('"name":"prepare"', '"name":"prepare_otherwise"'))
    history = WorkflowHistory.from_json(document["workflow_id"], document["history"])
    result = await replayer().replay_workflow(history, raise_on_replay_failure=False)
    assert result.replay_failure is not None
