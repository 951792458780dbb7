"""The examples as modules: they are no package, because nobody imports them but people who read them, and their tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(path: str) -> ModuleType:
    name = "example_" + path.removesuffix(".py").replace("/", "_").replace("-", "_")
    if name not in sys.modules:
        found = importlib.util.spec_from_file_location(name, EXAMPLES / path)
        assert found is not None and found.loader is not None
        module = importlib.util.module_from_spec(found)
        sys.modules[name] = module  # its dataclasses look their own module up
        found.loader.exec_module(module)
    return sys.modules[name]
