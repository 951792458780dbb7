"""The conversations of a shard that have no answer yet: each turn is stored as it comes, with the books of the budget lease."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from activities.budget.lease import BudgetLease
from activities.shards.call_journal import ShardCalls
from activities.shards.outcome_batches import until_back
from activities.shards.sample_outcomes import PairToAnswer
from ratchet._formats.canonical import content_hash
from store.write.answers.turns import AnswerKey, StoredTurn, Turns
from workflows.model.run.amounts import NOTHING, Amount, total
from workflows.model.suite import EvaluationSuite
from workflows.model.trial import ShardInput

LONGEST_KEY = 32
"""Hexadecimal digits."""

TURNS_OF_AN_ANSWER = 1_000_000
"""More turns and calls than one conversation can have: with so many for each answer, what is left to do is one number."""


class Conversations:
    """What is kept of the conversations of one attempt at a shard."""

    def __init__(
        self,
        turns: Turns,
        shard: ShardInput,
        suite: EvaluationSuite,
        kept: Mapping[tuple[str, int], Sequence[StoredTurn]],
        is_away: Callable[[BaseException], bool],
        calls: ShardCalls | None = None,
    ) -> None:
        self._turns = turns
        self._shard = shard
        self._suite = suite
        self._kept = kept
        self._is_away = is_away
        self._calls = calls
        self._attempt = uuid.uuid4().hex
        self.budget_lease: BudgetLease | None = None
        """Set where there is one: a turn that is stored is spent."""

    def left(self, answers: int) -> int:
        """How much is left to do, as a number that is less with every turn and every result that is stored."""
        done = sum(1 + len(turn.results) for turns in self._kept.values() for turn in turns)
        return answers * TURNS_OF_AN_ANSWER - done

    def paid(self, pair: PairToAnswer) -> Amount:
        """What the turns took that attempts before have stored."""
        turns = self._kept.get((pair.item_hash, pair.replicate), ())
        return total([Amount(tokens=turn.tokens, cost=turn.cost) for turn in turns]) if turns else NOTHING

    def of(self, pair: PairToAnswer, number: int) -> PairConversation:
        """The conversation about one pair, which has this number in the journal of calls."""
        shard, suite = self._shard, self._suite
        key = AnswerKey(shard.config_hash, suite.target_fingerprint, shard.run_id, pair.item_hash, pair.replicate)
        return PairConversation(self, key, self._kept.get((pair.item_hash, pair.replicate), ()), number)

    async def keep(self, key: AnswerKey, turn: int, content: Any, tokens: int, cost: float) -> StoredTurn:
        """Store a turn, however long the store is away."""
        lease = self.budget_lease
        if lease is None:
            return await until_back(lambda: self._turns.keep(key, turn, content, tokens, cost), self._is_away)
        return await until_back(
            lambda: lease.written_with(lambda *books: self._turns.keep(key, turn, content, tokens, cost, books)), self._is_away
        )

    async def begin_call(self, key: AnswerKey, turn: int, call: int) -> bool:
        """Note a call with effects."""
        return await until_back(lambda: self._turns.begin_call(key, turn, call, self._attempt), self._is_away)

    async def keep_result(self, key: AnswerKey, turn: int, call: int, result: Any) -> Any:
        """Store what came of a call."""
        return await until_back(lambda: self._turns.keep_result(key, turn, call, result), self._is_away)

    def goes_on(self, number: int) -> None:
        """What was called for a pair is stored, and its conversation goes on."""
        if self._calls is not None:
            self._calls.kept(number)


class PairConversation:
    """The conversation about one replicate of one sample."""

    def __init__(self, conversations: Conversations, key: AnswerKey, kept: Sequence[StoredTurn], number: int) -> None:
        self._conversations = conversations
        self._key = key
        self._number = number
        self.kept = kept
        self.key = content_hash(list(key))[:LONGEST_KEY]

    async def keep(self, turn: int, content: Any, tokens: int, cost: float, *, goes_on: bool) -> StoredTurn:
        stored = await self._conversations.keep(self._key, turn, content, tokens, cost)
        if goes_on:
            self._conversations.goes_on(self._number)
        return stored

    async def begin_call(self, turn: int, call: int) -> bool:
        return await self._conversations.begin_call(self._key, turn, call)

    async def keep_result(self, turn: int, call: int, result: Any) -> Any:
        return await self._conversations.keep_result(self._key, turn, call, result)
