"""An operator who allows a module allows what it defines, not all that lies within its reach."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from activities.plugins.loader import Plugins

REACHES_FAR = """
import asyncio, dataclasses, functools, json, logging, os, random
from os import environ, system
from pathlib import Path
from subprocess import run as started
from {name}.parts import told

run = os.system
shell = functools.partial(os.system)
HERE = Path(__file__)
log = logging.Logger(__name__)

def decorated(function):
    return json.JSONEncoder(default=function).encode

class Target:
    def __call__(self, configuration, sample, context): return "called"
    def answer(self, configuration, sample, context): return "method"
    @classmethod
    def of(cls, configuration, sample, context): return "class method"

target = Target()

@functools.lru_cache
def cached(configuration, sample, context): return "cached"

@functools.singledispatch
def dispatched(configuration, sample, context): return "dispatched"

half = functools.partial(Target().answer, {{}})

@decorated
def wrapped(value): return "wrapped"
"""
PARTS = "def told(configuration, sample, context):\n    return 'told'\n"
_numbers = itertools.count()


@pytest.fixture
def package(tmp_path: Path) -> Iterator[str]:
    """A package that imports what every package imports."""
    name = f"reaching_{next(_numbers)}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text(REACHES_FAR.format(name=name))
    (folder / "parts.py").write_text(PARTS)
    sys.path.append(str(tmp_path))
    yield name
    sys.path.remove(str(tmp_path))


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("asyncio.subprocess.subprocess.Popen", "'asyncio' is the module 'asyncio'"),
        ("random._os.popen", "'random' is the module"),
        ("dataclasses.inspect.os.system", "'dataclasses' is the module"),
        ("os.abort", "'os' is the module"),
        ("os.environ.__or__", "'os' is the module"),
        ("environ.__or__", "underscore"),
        ("environ.get", "but in 'os'"),
        ("__loader__.get_data", "underscore"),
        ("__builtins__", "underscore"),
        ("target.__class__", "underscore"),
        ("system", "but in 'posix'"),
        ("started", "but in 'subprocess'"),
        ("run", "but in 'posix'"),
        ("Path", "but in 'pathlib"),
        ("HERE.unlink", "but in 'pathlib"),
        ("log.info", "but in 'logging'"),
        ("parts.told", "'parts' is the module"),
    ],
)
def test_a_reference_never_leaves_the_module_that_is_allowed(package: str, path: str, told: str) -> None:
    with pytest.raises(ApplicationError, match=f"plug-in {package}:{path}: ") as raised:
        Plugins([package]).resolve(f"{package}:{path}", 0)
    assert told in raised.value.message
    assert raised.value.non_retryable


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("target", "called"),
        ("target.answer", "method"),
        ("Target.of", "class method"),
        ("cached", "cached"),
        ("dispatched", "dispatched"),
        ("told", "told"),
    ],
)
def test_whatever_the_module_or_its_own_package_defines_is_a_plugin(package: str, path: str, answer: str) -> None:
    assert Plugins([package]).resolve(f"{package}:{path}", 3).call("{}", None, None) == answer


@pytest.mark.parametrize("path", ["half", "wrapped"])
def test_what_a_library_makes_of_the_modules_own_function_is_a_plugin(package: str, path: str) -> None:
    assert callable(Plugins([package]).resolve(f"{package}:{path}", 0).call)


def test_what_another_module_defines_is_no_plugin_of_one_that_is_allowed_alone(package: str, tmp_path: Path) -> None:
    (tmp_path / f"{package}_lib.py").write_text(f"from {package} import Target, target\nfrom {package}.parts import told\n")
    for name in ("Target", "target", "told"):
        with pytest.raises(ApplicationError, match=f"but in '{package}"):
            Plugins([f"{package}_lib"]).resolve(f"{package}_lib:{name}", 0)
