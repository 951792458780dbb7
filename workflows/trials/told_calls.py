"""What the parts of a trial tell of their calls, kept beside their results: it counts whatever becomes of the trial."""

from __future__ import annotations

from typing import Any

from temporalio.exceptions import ActivityError, TimeoutError

from workflows.model.trial import Resumed, ShardInput, ShardResult, SilentShard, TrialResult
from workflows.rules.scoring.merged_parts import merged


class ToldCalls:
    """Collects, part by part, as each of them ends."""

    def __init__(self, resumed: Resumed | None) -> None:
        self._results = [ShardResult(lost=resumed.lost, metered=resumed.metered)] if resumed else []
        self._silent: list[SilentShard] = []

    def note(self, result: ShardResult) -> ShardResult:
        """A part that came to its end, or handed back what it had."""
        self._results.append(result)
        return result

    def note_silent(self, shard: ShardInput, error: ActivityError) -> None:
        """A shard that said nothing at its end: what its attempts called, whoever concludes the trial finds in their notes."""
        cause = error.cause
        heard = cause.last_heartbeat_details if isinstance(cause, TimeoutError) else ()
        self._silent.append(SilentShard(activity_id=error.activity_id, first=shard.first, last=shard.last, heard=tuple(heard)))

    @property
    def concluded(self) -> TrialResult | None:
        """The trial's result, if its only shard concluded it."""
        return next((result.trial for result in self._results if result.trial is not None), None)

    def in_resumed(self) -> dict[str, Any]:
        """In the fields of what a trial takes along when it continues as new."""
        whole = merged(self._results)
        return {"lost": whole.lost, "metered": whole.metered}

    def in_conclusion(self) -> dict[str, Any]:
        """In the fields of its conclusion."""
        return {**self.in_resumed(), "silent": tuple(self._silent)}
