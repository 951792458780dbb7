"""Plug-ins of every kind that kill their process: two workers die with them, then they die alone and are named."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
import pytest_asyncio

from activities.settings import EVALUATION_QUEUES
from clients.embedded.stack import StackAddresses
from tests.support.allowed import allow
from tests.support.hostile_harness import Arena, Ended, as_json, spec
from tests.support.mortal_worker import mortal_evaluation_worker

pytestmark = pytest.mark.timeout(300)

QUEUE: Final = "deadly"
LONGEST: Final = 150.0
"""Several heartbeat timeouts, and starts of a worker."""

RISK: Final = {"change": "structured", "type": "number", "min": 0, "max": 1}

RAISE: Final = {"kind": "threshold", "factor": "health_threshold"}


KILLERS: Final[dict[str, tuple[dict[str, Any], tuple[str, str], str]]] = {
    "scorer": (
        spec(scorers=[{"kind": "python", "name": "height", "ref": "misbehaving:scorer_kills_its_process"}]),
        ("failed", "baseline_failed"),
        "scorer 'height': scorer killed its process (exit code 17)",
    ),
    "objective": (
        spec(objective={"kind": "python", "metric": "height", "ref": "misbehaving:objective_kills_its_process"}),
        ("failed", "baseline_failed"),
        "objective misbehaving:objective_kills_its_process: objective killed its process (exit code 17)",
    ),
    "dataset": (
        spec(dataset={"ref": "misbehaving:dataset_kills_its_process"}),
        ("failed", "InvalidRequest"),
        "dataset.ref: plug-in misbehaving:dataset_kills_its_process: dataset killed its process (exit code 17)",
    ),
    "proposer": (
        spec(optimizer={"name": "refine", "proposer": {"kind": "python", "ref": "misbehaving:proposer_kills_its_process"}}),
        ("failed", "execution_failure"),
        "proposer misbehaving:proposer_kills_its_process: proposer killed its process (exit code 17)",
    ),
    "classifier": (
        spec(
            configuration={"health_threshold": {"value": 0.3, **RISK}, "risk_tolerance": {"value": 0.5, **RISK}},
            target={"kind": "python", "ref": "plugged:dungeon"},
            dataset={
                "items": [{"id": f"seed {n}", "input": n} for n in range(60)],
                "splits": {"train": 0.25, "validation": 0.75},
            },
            scorers=[{"kind": "python", "name": "points", "ref": "plugged:points"}],
            objective={"metric": "points"},
            optimizer={
                "name": "evolve",
                "classifier": "misbehaving:classifier_kills_its_process",
                "table": [{"failure": "injury", "more_than": 2, "mutation": RAISE}],
                "padding": [{"kind": "risk", "by": 0.25}],
            },
        ),
        ("failed", "execution_failure"),
        "plug-in misbehaving:classifier_kills_its_process: classifier killed its process (exit code 17)",
    ),
    "optimizer": (
        spec(optimizer={"name": "python", "ref": "misbehaving:KillsItsProcess"}),
        ("failed", "execution_failure"),
        "optimizer misbehaving:KillsItsProcess: optimizer killed its process (exit code 17)",
    ),
}


@pytest_asyncio.fixture(scope="module")
async def ended(arena: Arena, stack: StackAddresses, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Ended, int]]:
    """Side by side, each with a worker of its own: what one kills shall not be counted for another."""
    logs = tmp_path_factory.mktemp("deadly")

    async def end_of(name: str) -> tuple[Ended, int]:
        queue = f"{QUEUE}-{name}"
        allow(EVALUATION_QUEUES, f"{queue}-evaluation")
        sent = KILLERS[name][0] | {"execution": {"evaluation_task_queue": f"{queue}-evaluation"}}
        async with mortal_evaluation_worker(stack, logs / f"{name}.log", queue) as deaths:
            end = await arena.run([as_json(sent)], f"hostile-{name}-kills", longest=LONGEST)
            return end, deaths.count

    return dict(zip(KILLERS, await asyncio.gather(*map(end_of, KILLERS)), strict=True))


@pytest.mark.parametrize("name", KILLERS)
def test_no_plug_in_that_kills_its_process_kills_workers_for_ever(name: str, ended: dict[str, tuple[Ended, int]]) -> None:
    (end, deaths), (_, expected, said) = ended[name], KILLERS[name]
    assert (end.status, end.type) == expected, str(end)
    assert said in end.message, str(end)
    assert 2 <= deaths <= 3
