"""What shards called whose activity ended without a word of it: cancelled between two attempts, say, or failed for good."""

from __future__ import annotations

from activities.shards.call_journal import CallJournal
from store.write.repositories import Store
from workflows.model.trial import Conclusion


class SilentShards:
    """Reads the notes of their attempts, when their trial is concluded."""

    def __init__(self, store: Store, journal: CallJournal) -> None:
        self._store = store
        self._journal = journal

    async def heard(self, conclusion: Conclusion, execution: str) -> Conclusion:
        """The conclusion, with what they lost. Under a budget, its account knows.

        `execution` is the run id of the trial's workflow, under which the notes are."""
        trial = conclusion.trial
        if trial.metered or conclusion.metered or not conclusion.silent:
            return conclusion.model_copy(update={"silent": ()})
        lost = 0
        for silent in conclusion.silent:
            calls = self._journal.of_silent_shard(f"{execution}/{silent.activity_id}", silent.heard)
            if calls is None:
                continue
            shard = trial.range_of(silent.first, silent.last)
            suite = await self._store.suites.load(trial.run_id, trial.split)
            calls.goes_on(await self._store.outcomes.unanswered(shard, suite), side_by_side=0)
            lost += calls.lost
        return conclusion.model_copy(update={"silent": (), "lost": conclusion.lost + lost})
