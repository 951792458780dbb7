"""Teams, and what is given to them."""

from __future__ import annotations

from collections.abc import Iterable

import asyncpg

from store.connection import Connection, Database
from store.encoding import storable_text
from store.read.access.teams import DEFAULT_TEAM
from store.schema import StoreError


class Teams:
    """Teams by name. What belongs to one is noted before it is there, and a run never changes hands."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, team: str, namespaces: Iterable[str], by: str) -> bool:
        """Make a team, or give one that is there further namespaces of prompts; whether it is new."""
        async with self._database.transaction() as connection:
            created = await connection.fetchval(
                "INSERT INTO teams (team, created_by) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING true", team, by
            )
            for namespace in namespaces:
                owner = await connection.fetchval(
                    "INSERT INTO prompt_namespaces (namespace, team) VALUES ($1, $2)"
                    " ON CONFLICT (namespace) DO UPDATE SET team = prompt_namespaces.team RETURNING team",
                    namespace,
                    team,
                )
                if owner != team:
                    raise StoreError(f"the prompts {namespace}/… are those of the team {owner!r}; choose another namespace")
            return bool(created)

    async def claim_run(self, run_id: str, team: str) -> bool:
        """Note whose a run is, before it is started; False where the id is another team's."""
        try:
            async with self._database.transaction() as connection:
                if team == DEFAULT_TEAM:  # what nobody is noted for is the default team's
                    found = await connection.fetchval("SELECT team FROM run_teams WHERE run_id = $1", run_id)
                    return found in (None, DEFAULT_TEAM)
                owner = await connection.fetchval(
                    "INSERT INTO run_teams (run_id, team) VALUES ($1, $2)"
                    " ON CONFLICT (run_id) DO UPDATE SET team = run_teams.team RETURNING team",
                    run_id,
                    team,
                )
                return bool(owner == team)
        except asyncpg.ForeignKeyViolationError:
            raise StoreError(f"there is no team {team!r}; `ratchet teams create {team}` makes it") from None

    async def claim_dataset(self, dataset_id: str, team: str) -> None:
        """Note that a team has brought a dataset. Others may have it, too."""
        async with self._database.transaction() as connection:
            await refuse_unknown_team(connection, team)
            await connection.execute(
                "INSERT INTO dataset_teams (dataset_id, team) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                storable_text(dataset_id),
                team,
            )


async def refuse_unknown_team(connection: Connection, team: str) -> None:
    """Raise StoreError where there is no such team."""
    if team != DEFAULT_TEAM and not await connection.fetchval("SELECT EXISTS (SELECT FROM teams WHERE team = $1)", team):
        raise StoreError(f"there is no team {team!r}; `ratchet teams create {team}` makes it")
