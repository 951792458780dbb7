"""Where a plug-in raised: the frames of its own code, in a few lines that a message can end with."""

from __future__ import annotations

import linecache
import os
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import ratchet
from activities.secret_texts import without_secrets
from ratchet._text.shortening import shorten

MOST_FRAMES: Final = 5
"""The outermost and the innermost ones."""

LONGEST_PATH: Final = 120
LONGEST_LINE: Final = 120

_ROOMS: Final = Path(__file__).resolve().parents[2]
_OURS: Final = (
    *(f"{_ROOMS / room}{os.sep}" for room in ("activities", "clients", "store", "workflows")),
    str((_ROOMS / "worker").with_suffix(".py")),
    f"{Path(ratchet.__file__).resolve().parent}{os.sep}",
)
_STANDARD: Final = f"{Path(sysconfig.get_path('stdlib')).resolve()}{os.sep}"
_IMPORTING: Final = ("<frozen importlib", f"{_STANDARD}importlib{os.sep}")
"""Python's own way to a module."""
_INSTALLED: Final = ("site-packages", "dist-packages")


def traceback_of(error: BaseException) -> str:
    """One line per frame, `  shop.py:12 in price: return table[key]`; empty where no code but ours was entered.

    Frames of the standard library are shown only where there are no others.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    try:
        return without_secrets("\n".join(_lines(error)))
    except Exception:  # what is loaded in strange ways has strange frames, which must not hide what was raised
        return ""


def _lines(error: BaseException) -> Iterator[str]:
    foreign = [
        (frame.f_code.co_filename, number, frame.f_code.co_name)
        for frame, number in traceback.walk_tb(error.__traceback__)
        if not _real(frame.f_code.co_filename).startswith(_OURS)
    ]
    entered = [frame for frame in foreign if not frame[0].startswith(_IMPORTING)]
    frames = [frame for frame in entered if not _is_standard(frame[0])] or entered[-1:]
    left_out = len(frames) - MOST_FRAMES
    for place, (file, number, name) in enumerate(frames):
        if left_out > 0 and 0 < place <= left_out:
            if place == 1:
                yield f"  … {left_out:,} more …"
            continue
        source = shorten(linecache.getline(file, number).strip(), LONGEST_LINE)
        yield f"  {_shown(file)}:{number} in {shorten(name, LONGEST_PATH)}" + (f": {source}" if source else "")


def _real(file: str) -> str:
    return file if file.startswith("<") else os.path.realpath(file)


def _is_standard(file: str) -> bool:
    if file.startswith("<frozen "):
        return True
    real = _real(file)
    return real.startswith(_STANDARD) and not any(f"{os.sep}{part}{os.sep}" in real for part in _INSTALLED)


def _shown(file: str) -> str:
    """Relative to where the worker runs, if it is below."""
    here = os.getcwd() + os.sep
    short = file.removeprefix(here)
    return shorten(short if len(short) <= LONGEST_PATH else f"…{short[1 - LONGEST_PATH :]}")
