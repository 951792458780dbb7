"""Run Ratchet's command line: `ratchet`, or `python -m ratchet`."""

from __future__ import annotations

import sys
from pathlib import Path

ENGINE = 'pip install "ratchet-optimizer[engine]", and with `,embedded` for servers on this machine'


def main() -> int:
    """Run the command. It belongs to the engine, which is an extra: where that is missing, say how to get it."""
    root = Path(__file__).resolve().parents[1]
    if (root / "pyproject.toml").is_file():
        sys.path.insert(0, str(root))  # a checkout: what has a room's name on PYTHONPATH must not be taken for the room
    try:
        from clients.cli import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in sys.modules:
            raise
        print(f"ratchet: the command needs the engine, which lacks the package {error.name!r}: {ENGINE}", file=sys.stderr)
        return 1
    return run()


if __name__ == "__main__":
    sys.exit(main())
