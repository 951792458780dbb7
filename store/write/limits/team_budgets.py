"""What teams may spend in a month."""

from __future__ import annotations

from store.connection import Database
from store.write.access.teams import refuse_unknown_team
from workflows.model.run.amounts import Amount


class TeamBudgets:
    """Budgets by team. They hold in every month, the one that has begun included."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def set(self, team: str, limits: Amount, by: str) -> None:
        """Let a team spend so much in a month; 0 is no limit, and with none at all it has no budget.

        What is set aside already stays so. Of a team without a budget nobody has counted what it spent so far: its first one
        counts from now on, and runs that are under way take from it with the next call for which they ask for more.
        """
        async with self._database.transaction() as connection:
            await refuse_unknown_team(connection, team)
            if not limits:
                await connection.execute("DELETE FROM team_budgets WHERE team = $1", team)
                return
            await connection.execute(
                "INSERT INTO team_budgets (team, limit_samples, limit_tokens, limit_cost, set_by) VALUES ($1, $2, $3, $4, $5)"
                " ON CONFLICT (team) DO UPDATE SET limit_samples = excluded.limit_samples, set_at = now(),"
                " limit_tokens = excluded.limit_tokens, limit_cost = excluded.limit_cost, set_by = excluded.set_by",
                team,
                limits.samples,
                limits.tokens,
                limits.cost,
                by,
            )
