"""What a fresh interpreter loads, and what it must not load where little is asked of it."""

from __future__ import annotations

import json
import subprocess
import sys

ENGINE = {"temporalio", "numpy", "scipy", "asyncpg", "openai", "aiohttp", "structlog", "typer", "rich", "redis", "boto3"}
ROOMS = {"workflows", "activities", "store", "clients", "worker"}

WITHOUT_TEMPORAL = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "temporalio":
            raise ModuleNotFoundError("No module named 'temporalio'", name="temporalio")
sys.meta_path.insert(0, Missing())
import ratchet
try:
    ratchet.optimize
except ImportError as error:
    assert "ratchet.optimize needs the engine" in str(error) and "ratchet-optimizer[engine]" in str(error), error
else:
    raise AssertionError
"""
"""A program for an installation without the engine."""


def loaded_by(program: str) -> list[str]:
    """The modules that a fresh interpreter has loaded after a program, without those that it begins with."""
    shown = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; before = set(sys.modules)\n{program}\nimport json; "
            "print(json.dumps(sorted(set(sys.modules) - before)))",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return list(json.loads(shown.stdout))
