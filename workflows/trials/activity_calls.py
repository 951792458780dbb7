"""What a trial asks of somebody else's activity at a time: the calls that were loaded, and what became of them."""

from __future__ import annotations

from workflows.model.activities.external_trials import Calls, CallsSettlement, GivenAnswer
from workflows.model.trial import ShardInput
from workflows.rules.scoring.external_answers import settlement_of


class Portion:
    """Collects the answers, and counts what was called for them."""

    def __init__(self, shard: ShardInput, loaded: Calls) -> None:
        self.shard = shard
        self.loaded = loaded
        self.answers: list[GivenAnswer] = []
        self.calls = 0
        """Made so far, a sample each; one that fails and is made again is two."""
        self.never_told = 0
        """Of these, of how many no end was heard: they may have been paid for, and were made again."""
        self._holders = [] if loaded.holder is None else [loaded.holder]

    def next_holder(self) -> str:
        """A name to set budget aside under for calls that are made again."""
        self._holders.append(f"{self._holders[0]}-again-{len(self._holders)}")
        return self._holders[-1]

    @property
    def lost(self) -> int:
        """What a budget does not account for."""
        return 0 if self._holders else self.never_told

    @property
    def settlement(self) -> CallsSettlement | None:
        """What the calls took of the budget, if something was set aside for them."""
        is_set_aside = self._holders and self.loaded.exhausted is None
        return settlement_of(self.answers, self._holders, self.calls) if is_set_aside else None
