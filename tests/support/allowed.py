"""What the tests, as operators of their workers, allow specs to name: every process of pytest has a file of its own."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from activities.endpoints.policy import ALLOWED_FILE, note_allowed

FOLDER = tempfile.TemporaryDirectory(prefix="ratchet-tests-")
FILE = Path(FOLDER.name) / "allowed.json"
os.environ[ALLOWED_FILE] = str(FILE)


def allow(variable: str, *entries: str) -> None:
    """Let specs name these, until the tests end."""
    note_allowed(FILE, {variable: entries})
