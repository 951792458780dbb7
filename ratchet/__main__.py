"""Run Ratchet's command line: `ratchet`, or `python -m ratchet`."""

from __future__ import annotations

import sys
from typing import NoReturn

from ratchet._engine import ENGINE, prefer_checkout
from ratchet._processes.process_end import end_process


def main() -> NoReturn:
    """Run the command. It belongs to the engine, which is an extra: where that is missing, say how to get it."""
    prefer_checkout()
    try:
        from clients.cli import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in sys.modules:
            raise
        print(f"ratchet: the command needs the engine, which lacks the package {error.name!r}: {ENGINE}", file=sys.stderr)
        sys.exit(1)
    end_process(run())


if __name__ == "__main__":
    main()
