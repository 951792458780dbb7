"""Record the histories anew: `python -m tests.system.replay.record [PATH...]`.

Commit them together with the change that needs it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHistory

from activities.settings import Settings
from clients.embedded.stack import embedded_stack
from clients.logs import configure_logs
from clients.temporal import connect
from tests.support.allowed import OPERATOR
from tests.support.replaying import HISTORIES
from tests.system.replay.fingerprints import FINGERPRINTS, commands_of_workflows
from tests.system.replay.paths import PATHS, RecordedPath
from tests.system.replay.strangers import strangers
from worker import serving

ROOT = Path(__file__).parents[3]
SITE_PACKAGES = sysconfig.get_path("purelib")
PLUGINS = ROOT / "tests" / "support" / "plugins"
KEPT = 2
"""Of the trials of a path, and of the calls of activities of the user's, the newest."""


async def record_all(wanted: Sequence[RecordedPath]) -> None:
    HISTORIES.mkdir(parents=True, exist_ok=True)
    for path in wanted:
        for kind in ("", "_execution_*", "_trial_*", "_writer_*", "_call_*"):
            for known in HISTORIES.glob(f"{path.name}{kind}.json"):
                known.unlink()
    with tempfile.TemporaryDirectory() as folder:
        async with embedded_stack(Path(folder) / "stack", ui=False) as stack:
            client = await connect(stack.temporal_address)
            settings = Settings(
                stack.database_url, operator=OPERATOR, plugins="plugged", plugin_path=PLUGINS, grace=timedelta(seconds=1)
            )
            async with serving(client, settings), strangers(client, Path(folder)) as urls:
                for path in wanted:
                    await record(client, path, urls)
    FINGERPRINTS.write_text(json.dumps(commands_of_workflows(), indent=1) + "\n")


async def record(client: Client, path: RecordedPath, urls: Mapping[str, str]) -> None:
    run_id = f"recorded-{path.name}"
    text = json.dumps(path.spec)
    for stands_for, url in urls.items():
        text = text.replace(stands_for, url)
    spec = json.loads(text)
    handle = await client.start_workflow("OptimizationWorkflow", spec, id=run_id, task_queue="optimization")
    first = handle.first_execution_run_id
    await path.run(client, handle)
    histories = await _histories(client, run_id)
    for number, history in enumerate(histories, start=1):
        _write(f"{path.name}{f'_execution_{number}' if len(histories) > 1 else ''}", history)
    for number, history in enumerate(await _histories(client, f"release/{path.prompt}"), start=1):
        _write(f"{path.name}_writer_{number}", history)
    assert first
    if path.prompt is not None:
        return  # its trials are like all others
    for kind, workflow_type in (("trial", "TrialWorkflow"), ("call", "OwnActivityWorkflow")):
        started = f"WorkflowType = '{workflow_type}' AND WorkflowId STARTS_WITH '{run_id}/'"
        found = [one async for one in client.list_workflows(started)]
        for number, one in enumerate(sorted(found, key=lambda found: found.start_time)[-KEPT:]):
            history = await client.get_workflow_handle(one.id, run_id=one.run_id).fetch_history()
            _write(f"{path.name}_{kind}_{number + 1}", history)


async def _histories(client: Client, workflow_id: str) -> list[WorkflowHistory]:
    """Of every execution of a workflow that has done something, in their order."""
    runs = [execution async for execution in client.list_workflows(f"WorkflowId = '{workflow_id}'")]
    runs.sort(key=lambda run: run.start_time)
    histories = [await client.get_workflow_handle(workflow_id, run_id=run.run_id).fetch_history() for run in runs]
    begun = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    return [history for history in histories if any(event.event_type == begun for event in history.events)]


def _write(name: str, history: WorkflowHistory) -> None:
    document = {"workflow_id": history.workflow_id, "history": json.loads(history.to_json())}
    text = (
        json.dumps(document, indent=None, separators=(",", ":"))
        .replace(f"{SITE_PACKAGES}/", "site-packages/")
        .replace(f"{ROOT}/", "./")
    )
    (HISTORIES / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    configure_logs(form="text", level="ERROR")
    names = set(sys.argv[1:])
    if not names:
        shutil.rmtree(HISTORIES, ignore_errors=True)
    asyncio.run(record_all([path for path in PATHS if not names or path.name in names]))
    gc.collect()
