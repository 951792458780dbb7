"""What the tests, as operators of their workers, allow specs to name: every process of pytest has a file of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from activities.endpoints.endpoint_policy import OperatorLists, note_allowed
from activities.settings import ALLOWED_FILE, OperatorSettings
from ratchet._environment import settings_from

FOLDER = tempfile.TemporaryDirectory(prefix="ratchet-tests-")
FILE = Path(FOLDER.name) / "allowed.json"
os.environ[ALLOWED_FILE] = str(FILE)


OPERATOR = OperatorSettings(allowed_file=FILE)
"""What workers in a process of tests are told."""


def lists_of(environment: Mapping[str, str]) -> OperatorLists:
    """The lists of an operator with this environment."""
    return OperatorLists(settings_from(OperatorSettings, environment))


def allow(variable: str, *entries: str) -> None:
    """Let specs name these, until the tests end."""
    note_allowed(FILE, {variable: entries})
