"""Name Ratchet's own modules and run them as processes, wherever they are.

In a checkout the rooms lie beside each other; an installed wheel has all of them below one private package. What names a module
in a string asks here, so that it is right in both.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from pathlib import Path
from typing import Final

DISTRIBUTION: Final = "ratchet-optimizer"
"""What pip calls Ratchet; `ratchet` there is somebody else's."""

_ROOM: Final = __name__.rpartition(".")[0]
_ABOVE: Final = _ROOM.rpartition(".")[0]
DIRECTORY: Final = Path(__file__).resolve().parents[_ROOM.count(".") + 1]
"""The directory to import Ratchet from."""

IN_CHECKOUT: Final = not _ABOVE


def own_module(name: str) -> str:
    """Return the full name of a module, such as `clients.cli`, as it is called here."""
    return f"{_ABOVE}.{name}" if _ABOVE else name


def module_command(name: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs one of our modules in a process of its own."""
    return (sys.executable, "-P", "-m", own_module(name), *arguments)


def python_path(given: str | None = None) -> str:
    """Return the PYTHONPATH of a child: what this process was given, and before it where a checkout has the rooms.

    Installed packages are found without it, and must stay behind the standard library.
    """
    parts = [part for part in (os.environ.get("PYTHONPATH", "") if given is None else given).split(os.pathsep) if part]
    if not _is_installed():
        parts = [str(DIRECTORY), *(part for part in parts if part != str(DIRECTORY))]
    return os.pathsep.join(parts)


def _is_installed() -> bool:
    places = [sysconfig.get_path("purelib"), *site.getsitepackages(), site.getusersitepackages()]
    return DIRECTORY in {Path(place).resolve() for place in places}
