"""A worker that calls itself another build: what an upgrade is to Temporal. `RATCHET_SOAK_BUILD` names it."""

from __future__ import annotations

import os
import sys

import worker


def named_build() -> str:
    return f"soak {os.environ['RATCHET_SOAK_BUILD']}"


if __name__ == "__main__":
    worker.build_id = named_build
    sys.exit(worker.main())
