"""Notices what an optimizer does beside its work: sockets, files, processes, threads, the clock, and chance without a seed."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, Literal

Doing = Literal["sockets", "files", "processes", "threads", "time", "random"]

FIXES: Final[dict[Doing, str]] = {
    "sockets": "leave calls to models and servers to the target and the proposer, which are counted and budgeted",
    "files": "keep what is remembered in the state; configurations and scores are in the history",
    "processes": "compute in the method itself, or in a step of its own",
    "threads": "compute in the method itself",
    "time": "a replay has another time: count rounds (state.generation), and let stop.max_rounds and budget end the run",
    "random": "draw from random.Random(f'{seed} {state.generation}'), with the seed that initialize is given in its context",
}

_AUDITED: Final[dict[str, Doing]] = {
    "open": "files",
    "sqlite3.connect": "files",
    "subprocess.Popen": "processes",
    "os.system": "processes",
    "os.exec": "processes",
    "os.posix_spawn": "processes",
    "os.fork": "processes",
    "urllib.Request": "sockets",
}
_AUDITED_GROUPS: Final[dict[str, Doing]] = {"socket.": "sockets", "os.": "files", "shutil.": "files", "tempfile.": "files"}
_HARMLESS: Final = {"os.getcwd", "os.putenv", "os.unsetenv", "os.fwalk"}
_CLOCKS: Final = {"now", "utcnow", "today"}
_LOADING: Final = ("<frozen importlib", "linecache.py")
"""Imports and error messages read files, which is nobody's mistake."""


class DoesMore(Exception):
    """Raised where an optimizer does what it must not do."""

    def __init__(self, doing: Doing, what: str) -> None:
        super().__init__(f"uses {doing} ({what}); {FIXES[doing]}")


_found: list[Callable[[Doing, str], None]] = []
"""Who is told; an audit hook cannot be taken away again."""
_hooked = False


@contextmanager
def watched(allowed: Collection[str]) -> Iterator[list[DoesMore]]:
    """Refuse what is not allowed while the block runs. What was refused is also noted: the code may have caught the refusal."""
    seen: list[DoesMore] = []

    def tell(doing: Doing, what: str) -> None:
        if doing in allowed or _is_loading():
            return
        seen.append(DoesMore(doing, what))
        raise seen[-1]

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and (call := _unseeded_or_timed(frame, argument)) is not None:
            tell(*call)

    _hook()
    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()  # libraries look at clocks when garbage is collected, which is not the optimizer's doing
    _found.append(tell)
    sys.setprofile(profile)
    try:
        yield seen
    finally:
        sys.setprofile(before)
        _found.remove(tell)
        if collecting:
            gc.enable()


def _hook() -> None:
    global _hooked
    if not _hooked:
        sys.addaudithook(_audit)
        _hooked = True


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _found or event in _HARMLESS:
        return
    doing = _AUDITED.get(event) or next((kind for group, kind in _AUDITED_GROUPS.items() if event.startswith(group)), None)
    if doing is not None:
        _found[-1](doing, f"{event} {arguments[0]!r}"[:80] if arguments else event)


def _unseeded_or_timed(frame: FrameType, function: Any) -> tuple[Doing, str] | None:
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    if module == "time":
        return "time", f"time.{name}"
    if isinstance(owner, type) and name in _CLOCKS:
        return "time", f"{owner.__name__}.{name}"
    if module == "_thread" and name.startswith("start"):
        return "threads", "a new thread"
    if module == "posix" and name == "urandom":
        return "random", "os.urandom"
    if owner is random._inst:
        return "random", "the module's own generator"
    if name == "seed" and isinstance(owner, random.Random | super) and frame.f_locals.get("a", "") is None:
        return "random", "a generator without a seed"
    return None


def _is_loading() -> bool:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if any(part in frame.f_code.co_filename for part in _LOADING):
            return True
        frame = frame.f_back
    return False
