"""Types are built when they are used for the first time, and every one of them can be."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

from tests.support.forked_commands import ROOT, every_model

IMPORTED = """
import sys
from tests.support.forked_commands import every_model
import worker
from workflows.model.spec.request import OptimizationRequest
built = [model.__pydantic_complete__ for model in every_model()]
print(sum(built) / len(built), OptimizationRequest.__pydantic_complete__)
"""


def test_importing_them_builds_hardly_any() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    share, request = done.stdout.split()
    assert (float(share) < 0.1, request) == (True, "False"), done.stdout


def test_every_one_can_be_built() -> None:
    for room in ("ratchet", "workflows", "store", "activities"):
        for module in pkgutil.walk_packages([str(ROOT / room)], f"{room}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    models = [*every_model()]
    assert len(models) > 300
    assert [model.__qualname__ for model in models if model.model_rebuild() is False] == []
