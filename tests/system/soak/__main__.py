"""`make soak`: runs of every kind under faults of every kind, judged by checks that share no code with Ratchet.

python -m tests.system.soak --minutes 60 --seed 7
python -m tests.system.soak --check FOLDER        # judge what an earlier soak has recorded, again
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys
import tempfile
from pathlib import Path

from tests.system.soak.recorded_history import History, Violation
from tests.system.soak.soak_report import report_of, violations_of
from tests.system.soak.soak_session import Plan, soak

HISTORY, SESSION, REPORT = "history.json", "session.json", "report.md"


def main() -> int:
    """Soak, or judge again; 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.soak", description="Soak Ratchet in faults, and judge it.")
    parser.add_argument("--minutes", type=float, default=60, help="how long faults go on (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="which faults and runs, and in which order (default: 1)")
    parser.add_argument("--folder", type=Path, default=None, help="a new folder for the record (default: a temporary one)")
    parser.add_argument("--check", type=Path, default=None, help="judge what is recorded in this folder; soak nothing")
    options = parser.parse_args()
    if options.check is None:
        folder = options.folder or Path(tempfile.mkdtemp(prefix="ratchet-soak-")) / "soak"
        record(Plan(folder.resolve(), options.minutes, options.seed))
    else:
        folder = options.check
    return judge(folder)


def record(plan: Plan) -> None:
    """Soak, and write down what came of it."""
    logging.getLogger("asyncpg").setLevel(logging.CRITICAL)  # it complains of every server that is away
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended, and what was mounted is unmounted
    found = asyncio.run(soak(plan))
    found.history.save(plan.folder / HISTORY)
    session = {
        "seed": plan.seed,
        "minutes": plan.minutes,
        "began": found.began,
        "skipped": found.skipped,
        "witnessed": [vars(one) for one in found.witnessed],
    }
    (plan.folder / SESSION).write_text(json.dumps(session))


def judge(folder: Path) -> int:
    """Write and print the report; 1 where a promise was broken."""
    session = json.loads((folder / SESSION).read_text())
    history = History.load(folder / HISTORY)
    violations = [*violations_of(history), *(Violation(**one) for one in session["witnessed"])]
    named = {name: session[name] for name in ("seed", "minutes", "began", "skipped")}
    report = report_of(history, violations, **named)
    (folder / REPORT).write_text(report)
    sys.stdout.write(f"{report}\nRecorded in {folder}\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
