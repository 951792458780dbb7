"""The end of a process of ours, without the last thing that an interpreter does: to take itself apart.

Temporal's SDK has threads of its own, which no Python knows. Where one of them tells something while the interpreter is taken
apart, the process is aborted: what it did is done, and its exit code says that it was not.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from typing import NoReturn


def end_process(code: int) -> NoReturn:
    """End with this exit code, once threads have ended, what was to be done at exit is done, and all is written."""
    try:
        getattr(threading, "_shutdown", _nothing)()
        getattr(atexit, "_run_exitfuncs", _nothing)()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # whoever reads it is gone, or it was closed
                stream.flush()
        os._exit(code)


def _nothing() -> None:
    """Do nothing, where an interpreter calls it otherwise."""
