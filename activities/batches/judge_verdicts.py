"""Makes scores of the replies that judges gave in batches, and counts what has to be asked again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from activities.batches.batch_answers import JudgedAnswers
from activities.batches.pair_requests import JudgeRequests
from activities.endpoints.chat_models import ChatModels
from activities.evaluation import ShardEvaluation
from activities.scorers.known_replies import AllReplies
from activities.shards.outcome_batches import until_back
from store.write.answers.outcomes import UnansweredPair
from store.write.repositories import Store
from workflows.model.trial import ShardInput, ShardResult


class Verdicts:
    """Scores answers on which all verdicts are there."""

    def __init__(
        self, store: Store, shards: ShardEvaluation, models: ChatModels, is_away: Callable[[BaseException], bool]
    ) -> None:
        self._store = store
        self._shards = shards
        self._models = models
        self._is_away = is_away

    async def requests(self, piece: ShardInput, execution: str, pairs: Sequence[UnansweredPair]) -> JudgeRequests | None:
        """What is to be asked about kept answers of a part; None where there are none."""
        if not any(pair.kept is not None for pair in pairs):
            return None
        replies = await self._replies(piece, execution)
        suite = await until_back(lambda: self._store.suites.load(piece.run_id, piece.split), self._is_away)
        return JudgeRequests(self._shards, self._models, piece, suite, replies)

    async def score(
        self, piece: ShardInput, execution: str, judges: Sequence[str], judge: str
    ) -> tuple[ShardResult | None, int]:
        """Score what is judged; how many answers still lack a verdict of one of the judges."""
        work = await until_back(lambda: self._store.outcomes.missing(piece), self._is_away)
        requests = await self.requests(piece, execution, work.pairs)
        if requests is None:
            return None, 0
        ready: set[tuple[str, int]] = set()
        again = 0
        for pair in work.pairs:
            if pair.kept is None:
                continue
            again += not await requests.is_judged([judge], pair)
            if await requests.is_judged(judges, pair):
                ready.add((pair.sample.id, pair.replicate))
        if not ready:
            return None, again
        return await self._shards.take_over(piece, JudgedAnswers(ready), await self._replies(piece, execution)), again

    async def _replies(self, piece: ShardInput, execution: str) -> AllReplies:
        return AllReplies(await until_back(lambda: self._store.judge_replies.load(piece, execution), self._is_away))
