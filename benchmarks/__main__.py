"""`python -m benchmarks [--quick]`: every benchmark, one after another; fails when any target is missed."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = (
    *("overhead", "efficiency", "long_run", "engine", "in_process", "rate_limit", "judgement", "render", "events", "pages"),
    *("observation", "agent_turns", "scale_out", "start"),
)

FULL_ONLY = ("growth", "peers", "quality", "search_quality")
"""All but the first install the packages that they compare with, which takes minutes the first time."""


def run_all(arguments: list[str]) -> int:
    names = BENCHMARKS if "--quick" in arguments else (*BENCHMARKS, *FULL_ONLY)
    codes = [subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], check=False).returncode for name in names]
    return max(codes)


if __name__ == "__main__":
    sys.exit(run_all(sys.argv[1:]))
