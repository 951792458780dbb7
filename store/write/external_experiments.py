"""External experiments: which one belongs to a trial. It is stored before anything waits for it."""

from __future__ import annotations

from dataclasses import dataclass

from store.connection import Database
from store.schema import StoreError
from workflows.model.trial import ShardInput


@dataclass(frozen=True, slots=True)
class TrialExperiment:
    """What the store knows of a trial's experiment."""

    experiment_id: str | None
    life: int
    """How often the run was started under its id; a later life asks for experiments of its own."""


class ExternalExperiments:
    """The experiments of trials."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, trial: ShardInput) -> TrialExperiment:
        async with self._database.connection() as connection:
            row = await connection.fetchrow(
                "SELECT t.experiment_id, r.life FROM trials t JOIN runs r USING (run_id)"
                " WHERE t.run_id = $1 AND t.candidate_id = $2 AND t.trial_id = $3",
                trial.run_id,
                trial.candidate_id,
                trial.trial_id,
            )
            if row is None:
                raise StoreError(f"trial {trial.trial_id!r} is not in the store")
            return TrialExperiment(row["experiment_id"], row["life"])

    async def record(self, trial: ShardInput, experiment_id: str) -> None:
        """The first one stays: a trial never has two."""
        async with self._database.connection() as connection:
            await connection.execute(
                "UPDATE trials SET experiment_id = $4 WHERE run_id = $1 AND candidate_id = $2 AND trial_id = $3"
                " AND experiment_id IS NULL",
                trial.run_id,
                trial.candidate_id,
                trial.trial_id,
                experiment_id,
            )
