"""A tool of an agent that pays; every call is noted as it begins."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ratchet import Sample

SECONDS = 0.05


def pay(amount: int, sample: Sample) -> str:
    """Pays every time that it is called. One that is held has paid already when its worker is killed."""
    calls = Path(os.environ["RATCHET_TEST_CALLS"])
    with calls.open("a") as log:
        log.write(f"start pay {sample.id} {amount}\n")
    held = calls.with_name("hold")
    while held.exists():
        time.sleep(SECONDS)
    return f"paid {amount}"
