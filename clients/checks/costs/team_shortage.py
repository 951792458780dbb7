"""What is left of a team's month, beside what a run is expected to take."""

from __future__ import annotations

from clients.checks.costs.estimate import Estimate
from store.read.access.team_months import TeamMonthReader, TeamMonthRow
from workflows.model.run.amounts import Resource


async def team_warning(months: TeamMonthReader, team: str, costs: Estimate) -> str | None:
    """What a person should know before he starts a run that its team's month does not cover."""
    found = await months.now(team)
    return shortage(found[0], costs) if found else None


def shortage(month: TeamMonthRow, costs: Estimate) -> str | None:
    """The first resource of which there is less left than the run is expected to take, in words; None where it is enough.

    Of what nobody can foretell, nothing left at all is too little.
    """
    wanted: dict[Resource, float | None] = {
        "cost": costs.expected_cost,
        "tokens": costs.expected_tokens,
        "samples": costs.calls,
    }
    for name, expected in wanted.items():
        left, limit = getattr(month.left, name), getattr(month.budget, name)
        if left is None or left >= (expected or 0) > 0 or (not expected and left > 0):
            continue
        unit = "of cost" if name == "cost" else "target calls" if name == "samples" else name
        takes = "nothing more is begun" if not left else f"the run takes about {expected:,.6g} and would end before it is done"
        return f"team {month.team} has {left:,.6g} of {limit:,.6g} {unit} left for {month.month}; {takes}"
    return None
