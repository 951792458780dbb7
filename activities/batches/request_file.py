"""The file of requests that a batch is made of: a line for each, written one by one, so that no memory holds them all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from os import SEEK_END
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from activities.batches.protocols import BatchProtocol, BodyForm
from ratchet._formats.canonical import canonical_json
from workflows.model.suite import EvaluationSuite

CUSTOM_ID_CHARACTERS: Final = 48
"""No provider takes more than 64, and one has more to put in."""


def custom_id(config_hash: str, suite: EvaluationSuite, item_hash: str, replicate: int) -> str:
    """The name of a request, from the key of its answer: whoever meets it again knows what it answers."""
    key = canonical_json([config_hash, suite.target_fingerprint, item_hash, replicate])
    return hashlib.sha256(key.encode()).hexdigest()[:CUSTOM_ID_CHARACTERS]


def batch_key(run_id: str, trial_id: str, number: int) -> str:
    """The name of a batch."""
    return hashlib.sha256(canonical_json([run_id, trial_id, number]).encode()).hexdigest()[:CUSTOM_ID_CHARACTERS]


class RequestFile:
    """Requests as they are sent, in the order in which they were added."""

    def __init__(self, path: Path, key: str, most_requests: int, *, most_bytes: int | None = None) -> None:
        """`key` is that of the batch. How many bytes there may be, whoever is sent them says, unless it is fewer."""
        self.path = path
        self.places: dict[str, int] = {}
        """Of each request, by its custom id, the pair's place in the trial."""
        self._key = key
        self._form = BodyForm()
        self._most_requests = most_requests
        self._most_bytes = most_bytes
        self._ends: list[int] = []
        self._file = path.open("wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()

    def add(self, protocol: BatchProtocol, name: str, place: int, body: Mapping[str, Any]) -> bool:
        """Add a request; False where the file is full. Raises NotSent where it cannot be put as that protocol has it."""
        line = protocol.line(name, self._key, body)
        written = json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
        self._form = protocol.form(self._key)
        written = (self._form.between if self._ends else self._form.before) + written
        size = self._ends[-1] if self._ends else 0
        most_bytes = protocol.largest_bytes if self._most_bytes is None else self._most_bytes
        most_requests = min(self._most_requests, protocol.most_requests)
        is_too_large = size + len(written) + len(self._form.after) > most_bytes
        if len(self._ends) >= most_requests or (self._ends and is_too_large):
            return False
        self._file.write(written)
        self._ends.append(size + len(written))
        self.places[name] = place
        return True

    @property
    def size(self) -> int:
        """Bytes of all of it."""
        return (self._ends[-1] if self._ends else 0) + len(self._form.after)

    def keep_first(self, requests: int) -> int | None:
        """Take all but the first requests out again. The place of the first one that is out; None where none is."""
        out = list(self.places)[requests:]
        if not out:
            return None
        until = self.places[out[0]]
        for name in out:
            del self.places[name]
        del self._ends[requests:]
        self._file.truncate(self._ends[-1] if self._ends else 0)
        return until

    def finish(self) -> None:
        """Write what stands behind the requests, and what is still in memory."""
        self._file.seek(0, SEEK_END)
        self._file.write(self._form.after)
        self._file.close()
