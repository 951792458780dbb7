"""Every log line of a run says which run, which trial and which attempt, from workflow and activity code alike."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.worker import Replayer

from clients.logs import configure_logs
from clients.temporal import ratchet_plugin
from tests.support.engines import Engines
from workflows.optimization import OptimizationWorkflow
from workflows.trial import TrialWorkflow


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    file = tmp_path / "logs" / "worker.log"
    configure_logs(file=file)
    yield file
    for handler in root.handlers:
        handler.close()
    root.handlers[:], root.level = handlers, level


def lines_of(file: Path, run_id: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [line for line in lines if line["run_id"] == run_id]


async def test_run_trial_and_attempt_stand_on_every_line(
    engines: Engines, spec: Callable[..., dict[str, Any]], log_file: Path
) -> None:
    result = await engines.run(spec(name="logged"))
    run_id = result["optimization_id"]
    lines = lines_of(log_file, run_id)
    said = {line["event"] for line in lines}
    assert {"measuring the baseline", "shard done", "trial concluded"} <= said
    assert all(line["attempt"] == 1 for line in lines)
    of_trials = [line for line in lines if line["event"] in {"shard done", "trial concluded"}]
    assert len(of_trials) == 2 * 5
    assert all(line["trial_id"].startswith(f"{run_id}/r") for line in of_trials)
    rounds = [line["round"] for line in lines if line["event"].endswith("trials")]
    assert rounds == [0, 1, 2, 3]


async def test_lines_of_a_run_with_slashes_in_its_id_are_of_that_run(
    engines: Engines, spec: Callable[..., dict[str, Any]], log_file: Path
) -> None:
    await engines.run(spec(name="logged"), run_id="team/r1/logged")
    lines = lines_of(log_file, "team/r1/logged")
    assert {"measuring the baseline", "shard done", "trial concluded"} <= {line["event"] for line in lines}
    assert {line["trial_id"] for line in lines if line["event"] == "measuring the baseline"} == {None}


async def test_replay_says_nothing(engines: Engines, spec: Callable[..., dict[str, Any]], log_file: Path) -> None:
    result = await engines.run(spec(name="replayed"))
    before = len(lines_of(log_file, result["optimization_id"]))
    history = await engines.client.get_workflow_handle(result["optimization_id"]).fetch_history()
    replayer = Replayer(workflows=[OptimizationWorkflow, TrialWorkflow], plugins=[ratchet_plugin()])
    await replayer.replay_workflow(history)
    assert len(lines_of(log_file, result["optimization_id"])) == before > 0
