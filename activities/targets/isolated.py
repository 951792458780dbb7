"""The child's side of isolation: one target call in a process of its own, which may die without taking a worker along.

Reads one JSON object from stdin, writes `ready` when the plug-in is imported, then one JSON object with the answer.
Whatever the plug-in itself prints goes to stderr.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, TextIO

from activities.plugins import Plugins
from activities.targets.answers import output_from
from activities.targets.faults import CandidateFault, described
from ratchet import ExperimentContext, Sample

READY = "ready"


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    _write(answers, _answer(request, answers))
    # Not sys.exit: threads that the plug-in left behind must not keep this process alive.
    os._exit(0)


def _end_with_the_parent() -> None:
    """Stdin ends when the worker does, however it ends; then nobody waits for the answer."""
    sys.stdin.read()
    os._exit(1)


def _answer(request: dict[str, Any], answers: TextIO) -> dict[str, Any]:
    try:
        place = request["search_path"]
        plugins = Plugins(request["allowed"], Path(place) if place else None)
        plugin = plugins.resolve(request["reference"], 3)
        sample = Sample(**{**request["sample"], "tags": tuple(request["sample"]["tags"])})
        context = ExperimentContext(**request["context"])
        answers.write(f"{READY}\n")
        answers.flush()
        returned = plugin.call(request["configuration"], sample, context)
        if asyncio.iscoroutine(returned):
            returned = asyncio.run(returned)
        output = output_from(returned)
    except CandidateFault as error:
        return {"fault": str(error)}
    except BaseException as error:
        return {"fault": f"target raised {described(error)}"}
    return {"output": {name: getattr(output, name) for name in output.__dataclass_fields__}}


def _write(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer, allow_nan=False) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
