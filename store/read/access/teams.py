"""Teams, and what is whose. What no team was given is the default team's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ratchet._frozen import Payload
from store.connection import Database
from store.encoding import storable_text
from store.read.access.team_months import TeamMonthRow, months_now
from workflows.model.spec.request import OptimizationRequest

DEFAULT_TEAM: Final = "default"


class Team(Payload):
    """A team with what it was given."""

    team: str
    created_at: datetime | None = None
    """None of the team that is always there."""
    created_by: str = ""
    namespaces: tuple[str, ...] = ()
    """Of its prompts."""
    runs: int = 0
    month: TeamMonthRow | None = None
    """Its account of this month, where it has a budget."""


@dataclass(frozen=True, slots=True)
class RunOwner:
    """Whose a run is."""

    team: str
    has_budget: bool
    """What the team's runs take counts in its month."""


class TeamReader:
    """Whose runs, prompts, datasets and files are."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[Team]:
        """Every team, by name."""
        async with self._database.snapshot() as connection:
            rows = await connection.fetch(
                "SELECT t.*, ARRAY(SELECT namespace FROM prompt_namespaces p WHERE p.team = t.team ORDER BY 1) AS namespaces,"
                " (SELECT count(*) FROM runs r WHERE team_of_run(r.run_id) = t.team) AS runs FROM teams t ORDER BY team"
            )
            months = {month.team: month for month in await months_now(connection)}
            found = [Team(**{**row, "namespaces": tuple(row["namespaces"]), "month": months.get(row["team"])}) for row in rows]
            if any(team.team == DEFAULT_TEAM for team in found):
                return found
            runs = await connection.fetchval("SELECT count(*) FROM runs r WHERE team_of_run(r.run_id) = $1", DEFAULT_TEAM)
            return [Team(team=DEFAULT_TEAM, runs=runs, month=months.get(DEFAULT_TEAM)), *found]

    async def exists(self, team: str) -> bool:
        """Whether there is such a team."""
        if team == DEFAULT_TEAM:
            return True
        async with self._database.connection() as connection:
            return bool(await connection.fetchval("SELECT EXISTS (SELECT FROM teams WHERE team = $1)", storable_text(team)))

    async def of_runs(self, run_ids: Iterable[str]) -> Mapping[str, str]:
        """The team of each run, whether the store knows the run or not."""
        wanted = {storable_text(run_id): run_id for run_id in run_ids}
        async with self._database.connection() as connection:
            rows = await connection.fetch("SELECT run_id, team FROM run_teams WHERE run_id = ANY($1)", list(wanted))
        given = {wanted[row["run_id"]]: str(row["team"]) for row in rows}
        return {run_id: given.get(run_id, DEFAULT_TEAM) for run_id in wanted.values()}

    async def of_run(self, run_id: str) -> str:
        """The team of one run."""
        return (await self.of_runs([run_id]))[run_id]

    async def owner_of(self, run_id: str) -> RunOwner:
        """The team of one run, and whether it has a budget."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(
                "SELECT team_of_run($1) AS team, has_team_budget($1) AS has_budget", storable_text(run_id)
            )
            assert row is not None
            return RunOwner(row["team"], row["has_budget"])

    async def of_prompt(self, name: str) -> str:
        """The team of a prompt, whether there is one of that name or not."""
        async with self._database.connection() as connection:
            team = await connection.fetchval(
                "SELECT team FROM prompt_namespaces WHERE namespace = $1", storable_text(name.partition("/")[0])
            )
            return str(team or DEFAULT_TEAM)

    async def has_dataset(self, team: str, dataset_id: str) -> bool:
        """Whether a dataset is one of a team's; several teams may have the same."""
        async with self._database.connection() as connection:
            return bool(await connection.fetchval("SELECT team_has_dataset($1, $2)", team, dataset_id))

    async def foreign_parts(self, team: str, spec: OptimizationRequest) -> list[str]:
        """What a spec refers to that is another team's, told as if it were not there."""
        problems = []
        runs = {"retry_of": spec.retry_of, "optimizer": spec.optimizer.answers_of}
        named = [(field, run_id) for field, run_id in runs.items() if run_id is not None]
        named += [("optimizer.warm_start", run_id) for run_id in spec.optimizer.earlier_runs]
        owners = await self.of_runs(run_id for _, run_id in named) if named else {}
        for field, run_id in named:
            if owners[run_id] != team:
                problems.append(f"{field}: there is no run {run_id!r}")
        prompts = {
            "prompt.name": spec.prompt.name if spec.prompt is not None else None,
            "release.prompt": spec.release.prompt if spec.release is not None else None,
        }
        for field, prompt in prompts.items():
            if prompt is not None and await self.of_prompt(prompt) != team:
                problems.append(f"{field}: there is no prompt {prompt!r} among those of your team, {team!r}")
        dataset_id = spec.dataset.id
        if dataset_id is not None and not await self.has_dataset(team, dataset_id):
            problems.append(f"dataset.id: {dataset_id[:12]}… is not in the store; add the dataset first")
        return problems

    async def has_file(self, team: str, digest: str) -> bool:
        """Whether one of a team's datasets or runs names a file."""
        async with self._database.connection() as connection:
            return bool(
                await connection.fetchval(
                    "SELECT EXISTS (SELECT FROM dataset_files WHERE digest = $2 AND team_has_dataset($1, dataset_id))"
                    " OR EXISTS (SELECT FROM run_files WHERE digest = $2 AND team_of_run(run_id) = $1)",
                    team,
                    digest,
                )
            )
