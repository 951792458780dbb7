"""What the one writer of a prompt knows: where its releases stand, and what is due when."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ratchet._text.markdown_tables import table
from workflows.model.spec.release import DECIDED, ReleaseLog, ReleaseState

SHOWN = 10
NEWEST = 50
"""Decided releases that are kept at hand; the store has all."""


class PendingReleases:
    """Releases of one prompt by their ids, in the order in which they were asked for."""

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self._states: dict[str, ReleaseState] = {}

    def note(self, state: ReleaseState) -> None:
        """Where a release stands now. What was decided long ago is forgotten here."""
        self._states[state.release_id] = state
        decided = [known.release_id for known in self._states.values() if known.status in DECIDED]
        for release_id in decided[:-NEWEST]:
            del self._states[release_id]

    def remember(self, states: Iterable[ReleaseState]) -> None:
        """What the store knows, the oldest first."""
        for state in states:
            self.note(state)

    def get(self, release_id: str) -> ReleaseState | None:
        """One release."""
        return self._states.get(release_id)

    @property
    def pending(self) -> list[ReleaseState]:
        """Those that wait for approval."""
        return [state for state in self._states.values() if state.status == "pending"]

    @property
    def accepted(self) -> list[ReleaseState]:
        """Those that are to be carried out."""
        return [state for state in self._states.values() if state.status == "accepted"]

    def next_due(self) -> datetime | None:
        """When something is to be done, although nobody asks."""
        times = [time for state in self.pending for time in (state.deadline_at, state.remind_at) if time is not None]
        return min(times, default=None)

    def overdue(self, now: datetime) -> list[ReleaseState]:
        """Those whose approval did not come in time."""
        return [state for state in self.pending if state.deadline_at is not None and state.deadline_at <= now]

    def to_remind_of(self, now: datetime) -> list[ReleaseState]:
        """Those whose approvers are to be reminded."""
        return [state for state in self.pending if state.remind_at is not None and state.remind_at <= now]

    def log(self) -> ReleaseLog:
        """The newest first."""
        return ReleaseLog(prompt=self.prompt, releases=tuple(reversed(self._states.values())))

    def waiting(self) -> ReleaseLog:
        """What waits for approval, the newest first."""
        return ReleaseLog(prompt=self.prompt, releases=tuple(reversed(self.pending)))

    def details(self) -> str:
        """The newest releases as a small table, for the Temporal UI."""
        newest = list(reversed(self._states.values()))[:SHOWN]
        rows = [(state.kind, state.tag, state.version or "", state.status, state.asked_by, state.message) for state in newest]
        return table(("Release", "Tag", "Version", "Status", "Asked by", ""), rows)
