"""`ratchet` as a process of its own, in a directory of its own, on servers that are told to it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.forked_commands import ROOT, run_forked

PATIENCE = 150.0


@dataclass
class Answer:
    """What a command said."""

    code: int
    out: str
    errors: str

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads(self.out)
        return facts


@dataclass
class Shell:
    """A directory in which `ratchet` is run, on the session's servers."""

    directory: Path
    servers: Mapping[str, str]
    more: dict[str, str] = field(default_factory=dict)

    async def ratchet(self, *arguments: str) -> Answer:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        environment = {**kept, "PYTHONPATH": str(ROOT), **self.servers, **self.more}
        given = (*arguments, "--home", str(self.directory / "home"))
        done = await asyncio.to_thread(run_forked, given, self.directory, environment, PATIENCE)
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    def write(self, name: str, content: str) -> None:
        (self.directory / name).write_text(content)
