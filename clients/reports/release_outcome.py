"""What became of a run's winner: released, waiting for somebody, or why not."""

from __future__ import annotations

from clients.reports.facts import RunFacts
from workflows.model.spec.release import ReleaseState


def release_text(facts: RunFacts) -> str:
    """The newest release that was asked for in the run's name, as it stands now; else why none was asked for."""
    if facts.releases:
        return state_text(facts.releases[0])
    asked = facts.result.release if facts.result is not None else None
    return "" if asked is None else f"{asked.prompt}: not released, {asked.message}"


def state_text(state: ReleaseState) -> str:
    """One release in a line."""
    moved = f"{state.prompt}: {state.tag} {state.base_version or '(new)'}"
    match state.status:
        case "released":
            size = f" ({state.change_class})" if state.change_class else ""
            return f"{moved} → {state.version}{size}, by {state.decided_by}"
        case "pending":
            until = f" until {state.deadline_at.astimezone():%Y-%m-%d %H:%M}" if state.deadline_at else ""
            return f"{state.prompt}: waits for approval{until}: ratchet approve {state.run_id or state.release_id}"
        case "accepted":
            return f"{state.prompt}: approved by {state.decided_by}, being carried out"
        case "unchanged":
            return f"{state.prompt}: {state.message}"
    return f"{state.prompt}: {state.status.replace('_', ' ')}: {state.message}"
