"""`python -m benchmarks [--quick]`: every benchmark, one after another; fails when any target is missed."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = ("overhead", "efficiency", "long_run", "engine", "rate_limit")


def run_all(arguments: list[str]) -> int:
    codes = [
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], check=False).returncode for name in BENCHMARKS
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(run_all(sys.argv[1:]))
