"""How the benchmark talks to a peer's process: it says when it is ready, then runs one job a line of JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any


@dataclass(frozen=True)
class Job:
    """One optimization, or one evaluation, to be run."""

    variant: str
    samples: int
    concurrency: int
    latency: float
    budget: int
    """Target calls, as near as the peer lets a budget be declared in."""
    log: str
    """Where the target notes its calls."""
    directory: str
    """Where the peer keeps what it persists. The same directory again is its chance to resume."""


@dataclass(frozen=True)
class Outcome:
    """What the peer says of it."""

    declared: int | None
    """The budget in target calls, as it was declared to the peer; None where there is no such thing."""
    counted: int | None
    """The calls the peer itself says it made; None where it does not count."""


def drive(package: str, run: Callable[[Job], Outcome]) -> None:
    """Serve jobs from stdin until it ends. What the peer prints goes to stderr, so that stdout is ours alone."""
    ours = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    _say(ours, ready=version(package))
    for line in sys.stdin:
        job = Job(**json.loads(line))
        os.makedirs(job.directory, exist_ok=True)
        began = time.perf_counter()
        outcome = run(job)
        _say(ours, wall=time.perf_counter() - began, **vars(outcome))


def _say(stream: Any, **facts: Any) -> None:
    stream.write(json.dumps(facts) + "\n")
    stream.flush()
