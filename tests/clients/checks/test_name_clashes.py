"""A module beside a spec that has the name of one of Ratchet's own is pointed out when the plug-in would get the wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from clients.checks.name_clashes import name_clash
from clients.own_modules import DIRECTORY

NAMES = ("workflows", "clients")


def project(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        place = folder.joinpath(*name.split("__")).with_suffix(".py")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return folder


@pytest.mark.parametrize(
    "imports",
    ["import workflows", "from workflows import run", "def target():\n    import workflows.deep as deep", "import clients"],
)
def test_a_plugin_that_imports_its_own_module_of_that_name(tmp_path: Path, imports: str) -> None:
    place = project(tmp_path, app=imports, workflows="", clients__part="")
    told = name_clash("app:target", place, NAMES)
    assert told is not None
    assert f"{tmp_path / 'app.py'} imports" in told
    assert 'pip install "ratchet-optimizer[engine]"' in told


def test_a_plugin_that_gets_there_through_its_other_modules(tmp_path: Path) -> None:
    place = project(
        tmp_path, app="from package import helper", package__helper="from .other import x", package__other="import clients"
    )
    assert name_clash("app:target", place, NAMES) is None
    told = name_clash("app:target", project(place, clients=""), NAMES)
    assert told is not None
    assert "other.py imports 'clients'" in told


def test_names_that_nobody_imports_or_that_are_free_are_no_clash(tmp_path: Path) -> None:
    place = project(tmp_path, app="import json, worker", workflows="", worker="")
    assert name_clash("app:target", place, NAMES) is None
    assert name_clash("workflows:target", project(place, workflows="import clients", clients=""), ()) is None


def test_what_cannot_be_read_is_left_to_the_import(tmp_path: Path) -> None:
    assert name_clash("app:target", project(tmp_path, app="def broken(", workflows=""), NAMES) is None
    assert name_clash("nowhere:target", tmp_path, NAMES) is None


def test_circles_end(tmp_path: Path) -> None:
    assert name_clash("one:target", project(tmp_path, one="import two", two="import one", workflows=""), NAMES) is None


def test_a_spec_in_the_checkout_itself_means_its_modules() -> None:
    assert name_clash("worker:main", DIRECTORY, ("workflows", "worker")) is None
