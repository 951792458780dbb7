"""`ratchet` as a process of its own, in a directory of its own, on servers that are told to it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE = 90.0


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
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "clients.cli", *arguments, "--home", str(self.directory / "home")),
            cwd=self.directory,
            env={**kept, "PYTHONPATH": str(ROOT), **self.servers, **self.more},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
        return Answer(process.returncode or 0, out.decode(), errors.decode())

    def write(self, name: str, content: str) -> None:
        (self.directory / name).write_text(content)
