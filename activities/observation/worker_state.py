"""Where a worker tells probes how far it is: a file, one word a line, of which the last one counts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

STARTING: Final = "starting"
SERVING: Final = "serving"
DRAINING: Final = "draining"


class WorkerState:
    """The state of one worker, in a file that only this worker writes; without a file it is told to nobody."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        if file is not None:
            file.write_text(f"{STARTING}\n", encoding="utf-8")

    def becomes(self, state: str) -> None:
        """Tell that the worker is in this state from now on."""
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as writing:
                writing.write(f"{state}\n")


def state_told_in(file: Path) -> str:
    """Return the last state that a worker has told there; one that has told nothing is starting."""
    try:
        told = file.read_text(encoding="utf-8").split()
    except FileNotFoundError:
        return STARTING
    return told[-1] if told else STARTING
