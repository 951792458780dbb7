"""What a policy has removed of a run, as a sentence: whoever looks for an answer is told where it went."""

from __future__ import annotations

from collections.abc import Sequence

from store.read.rows.run_rows import LegalHold, Removal

WHAT_STAYS = {
    "texts": ("The texts of its answers", "scores, verdicts and decisions stay"),
    "answers": ("Its answers and their scores", "what each trial scored and what was decided stay"),
}


def removal_text(removals: Sequence[Removal]) -> str:
    """Say what is gone, since when and by which rule; nothing where everything is there."""
    found = [one for one in removals if one.kind in WHAT_STAYS]
    if not found:
        return ""
    last = max(found, key=lambda one: (one.kind == "answers", one.at))
    what, stays = WHAT_STAYS[last.kind]
    removed = "were removed" if last.complete else "were removed in part"
    return f"{what} {removed} on {last.at.astimezone():%Y-%m-%d} by the policy {last.policy}; {stays}."


def answers_are_gone(removals: Sequence[Removal]) -> bool:
    """Whether nothing can be added up from answers any more."""
    return any(one.kind == "answers" for one in removals)


def hold_text(holds: Sequence[LegalHold]) -> str:
    """Say what a run is held for, by whom and since when."""
    told = (f"{hold.label}, by {hold.set_by} since {hold.set_at.astimezone():%Y-%m-%d}" for hold in holds)
    return "; ".join(told)
