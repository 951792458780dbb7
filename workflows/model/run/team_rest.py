"""What is left of a team's month: the budget that all runs of a team share."""

from __future__ import annotations

from ratchet._frozen import Payload
from workflows.model.run.amounts import Resource


class TeamRest(Payload):
    """What was left of one resource when it did not cover a call."""

    team: str
    month: str
    """As 2026-11, in UTC."""
    resource: Resource
    limit: float
    left: float

    @property
    def words(self) -> str:
        """As part of a sentence."""
        return f"team {self.team} has {max(self.left, 0.0):.6g} of {self.limit:g} left for {self.month}"

    @property
    def waited_for(self) -> str:
        """As the end of a sentence that begins with `waits for`."""
        limit = {"samples": f"{self.limit:g} calls", "tokens": f"{self.limit:g} tokens", "cost": f"a cost of {self.limit:g}"}
        left = f"{max(self.left, 0.0):.6g} of {limit[self.resource]} left"
        return f"the month {self.month} of team {self.team}, which has {left} beside what other runs hold"
