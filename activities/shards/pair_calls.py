"""The call of one pair: the place it holds among those in flight, how it begins, and its number in its trial."""

from __future__ import annotations

from activities.concurrency.in_flight_limits import CallPlaces
from activities.shards.attempt import Attempt
from activities.shards.call_journal import ShardCalls
from workflows.model.trial import ShardInput


class Place:
    """A place among the calls that may be in flight: held from before a call begins until its answer is in the store."""

    def __init__(self, limit: CallPlaces) -> None:
        self._limit = limit
        self._holders = 1

    def keep(self) -> None:
        """One more thing must happen before it is free."""
        self._holders += 1

    def give_back(self) -> None:
        self._holders -= 1
        if self._holders == 0:
            self._limit.release()


class PairCall:
    """How a call of the target for one pair, or of a scorer of its answer, begins."""

    def __init__(self, attempt: Attempt | None, calls: ShardCalls | None = None, pair: int = 0) -> None:
        """`calls` notes what is called for the pair of this number."""
        self._attempt = attempt
        self._calls = calls
        self._pair = pair

    async def permit(self) -> None:
        if self._attempt is not None:
            await self._attempt.permit()

    def begins(self) -> None:
        if self._calls is not None:
            self._calls.begins(self._pair)

    def cost_nothing(self) -> None:
        if self._calls is not None:
            self._calls.cost_nothing(self._pair)


def number_of(shard: ShardInput, position: int, replicate: int) -> int:
    """The pair's place in its trial: sample by sample, replicate by replicate."""
    return position * shard.replicates + replicate - shard.first_replicate
