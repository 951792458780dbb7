"""What an import kills or never gives back is a process of its own; whoever asked is told which plug-in it was."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from activities.plugins.loader import Plugins
from activities.plugins.probe import import_elsewhere
from tests.support.plugin_files import TARGET, module
from workflows.model.failures import INVALID_REQUEST


async def refusal(plugins: Plugins, *names: str, longest: float = 30.0) -> str:
    with pytest.raises(ApplicationError) as raised:
        await import_elsewhere(plugins, [f"{name}:target" for name in names], longest)
    assert (raised.value.type, raised.value.non_retryable) == (INVALID_REQUEST, True)
    return raised.value.message


@pytest.mark.parametrize(
    ("source", "how"),
    [
        ("import os\nos._exit(7)", "exit code 7"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("import sys\nsys.stdout.write('done\\n')\nimport os\nos._exit(0)", "exit code 0"),
    ],
)
async def test_one_that_kills_its_process_is_named(folder: Path, source: str, how: str) -> None:
    fine, deadly, never = module(folder, TARGET), module(folder, source), module(folder, TARGET)
    told = await refusal(Plugins(search_path=folder), fine, deadly, never)
    assert f"plug-in {deadly}:target: importing it killed the process" in told
    assert how in told


async def test_one_that_hangs_is_ended(folder: Path) -> None:
    name = module(folder, "import time\ntime.sleep(3600)")
    assert f"plug-in {name}:target: importing it took longer than 1 s" in await refusal(
        Plugins(search_path=folder), name, longest=1.0
    )


async def test_other_mistakes_are_left_to_the_import_that_follows(folder: Path) -> None:
    names = [module(folder, source) for source in (TARGET, "raise SystemExit(3)", "1 / 0", "target = None")]
    await import_elsewhere(Plugins(search_path=folder), [f"{name}:target" for name in [*names, "not_there"]], 30.0)
    assert not any(name in sys.modules for name in names)


async def test_what_is_imported_here_already_starts_no_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = module(folder, TARGET)
    plugins = Plugins(search_path=folder)
    plugins.resolve(f"{name}:target", 3)
    monkeypatch.setattr(sys, "executable", "/nothing/there")
    await import_elsewhere(plugins, [f"{name}:target"], 30.0)
