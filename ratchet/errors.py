"""What `ratchet.optimize` and its like raise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ratchet import Result


class SpecError(ValueError):
    """What was asked for cannot be run. It says the same as `ratchet check`, and nothing was started."""

    def __init__(self, message: str, findings: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        only = {"field": None, "line": None, "message": message, "severity": "error"}
        self.findings = tuple(dict(finding) for finding in findings or [only])
        """Each with `field`, `message` and `severity`."""


class RunError(RuntimeError):
    """A run failed, or what was asked of it was refused."""

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result
        """What is known of a run that failed."""
