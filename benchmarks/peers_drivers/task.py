"""The task that every optimizer of the comparison gets: the same target, the same proposer, from the same file.

The target is a Python function that sleeps: no adapter, endpoint or client is between an engine and its calls, so what
is measured is the engine. Scores are drawn by a hash of text and sample: the same everywhere, for ever, and no candidate
is so good that a search would end before its budget does. Only the standard library is used, for any interpreter.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

BASELINE = "Instruction 0"


def samples(count: int) -> list[str]:
    return [f"s{number:05}" for number in range(count)]


def score(text: str, sample: str) -> float:
    """From 0.25 to 0.75: never perfect, which some peers would take for a reason to stop."""
    digest = hashlib.sha256(f"{text}\n{sample}".encode()).digest()
    return 0.25 + int.from_bytes(digest[:6], "big") / 2**49


def answer(text: str, sample: str, latency: float, log: str) -> float:
    """One call of the target, noted in a file that outlives the process as soon as it begins."""
    note(log, f"begin {fingerprint(text)} {sample}")
    time.sleep(latency)
    return score(text, sample)


def propose(text: str, scores: Sequence[float]) -> str:
    """A new text that follows from the old one and what was seen of it, as a model's would."""
    seen = ",".join(f"{value:.6f}" for value in sorted(scores))
    return f"Instruction {fingerprint(f'{text}|{seen}')}"


def fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def note(log: str, line: str) -> None:
    os.write(_appending(log), f"{line}\n".encode())


@functools.cache
def _appending(log: str) -> int:
    return os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def calls(log: Path) -> int:
    """How many calls have begun."""
    return log.read_bytes().count(b"begin ") if log.exists() else 0


def candidates(log: Path) -> set[str]:
    """Every text that was tried."""
    return {line.split()[1] for line in log.read_text().splitlines()}
