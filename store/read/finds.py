"""What a word finds: runs, prompts, datasets, candidates, and what people said of them. Every look is bounded."""

from __future__ import annotations

from typing import Any, Final, Literal

from ratchet._frozen import Payload
from store.connection import Connection, Database
from store.encoding import storable_text
from store.encrypted_contents import contents_of

NEWEST_NOTES: Final = 2000
"""That are looked through where SQL cannot look into them, because they are encrypted."""
SHORTEST_CANDIDATE: Final = 3
"""Characters: with fewer, candidates of nearly all runs would be found."""
MOST_CANDIDATES: Final = 5000
"""That are sorted by their runs; a word that more of them begin with is no word for one."""
LONGEST_TEXT: Final = 200
"""Characters of a note that are told."""

FindKind = Literal["run", "prompt", "dataset", "candidate", "tag", "note"]


class Find(Payload):
    """One thing that was found."""

    kind: FindKind
    text: str
    """What to show: a name, a tag, the beginning of a note."""
    run_id: str | None = None
    candidate_id: str | None = None
    item_id: str | None = None
    replicate: int | None = None
    prompt: str | None = None
    dataset_id: str | None = None
    """Of a dataset: its newest version with such a name."""
    status: str | None = None
    """Of a run."""
    who: str | None = None
    """Of a tag or a note."""


class FindReader:
    """Looks for a word."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, word: str, *, team: str | None, limit: int) -> list[Find]:
        """What has the word in its name or its text, at most so many of each kind; with a team, of what it has."""
        wanted = storable_text(word)
        async with self._database.snapshot() as connection:
            return [
                *await _runs(connection, wanted, team, limit),
                *await _prompts(connection, wanted, team, limit),
                *await _datasets(connection, wanted, team, limit),
                *await _candidates(connection, wanted, team, limit),
                *await _tags(connection, wanted, team, limit),
                *await _notes(connection, wanted, team, limit),
            ]


async def _runs(connection: Connection, word: str, team: str | None, limit: int) -> list[Find]:
    rows = await connection.fetch(
        "SELECT run_id, name, status FROM runs r"
        " WHERE position(lower($1) IN lower(run_id || ' ' || name || ' ' || use_case)) > 0"
        " AND ($2::text IS NULL OR team_of_run(run_id) = $2) ORDER BY started_at DESC, run_id LIMIT $3",
        word,
        team,
        limit,
    )
    return [Find(kind="run", text=row["name"], run_id=row["run_id"], status=row["status"]) for row in rows]


async def _prompts(connection: Connection, word: str, team: str | None, limit: int) -> list[Find]:
    rows = await connection.fetch(
        "SELECT DISTINCT t.name FROM prompt_tags t"
        " LEFT JOIN prompt_namespaces n ON n.namespace = split_part(t.name, '/', 1)"
        " WHERE position(lower($1) IN lower(t.name)) > 0 AND ($2::text IS NULL OR coalesce(n.team, 'default') = $2)"
        " ORDER BY 1 LIMIT $3",
        word,
        team,
        limit,
    )
    return [Find(kind="prompt", text=row["name"], prompt=row["name"]) for row in rows]


_OF_THE_TEAM_ALONE: Final = """
    $2::text IS NULL OR team_has_dataset($2, {dataset})
        AND NOT EXISTS (SELECT FROM dataset_teams other WHERE other.dataset_id = {dataset} AND other.team <> $2)
        AND NOT EXISTS (SELECT FROM runs r WHERE r.dataset_id = {dataset} AND team_of_run(r.run_id) <> $2)
"""
"""Of samples that another team has, too, the names may be that team's."""

_NAMED_DATASETS: Final = f"""
    SELECT text, dataset_id FROM (
        SELECT DISTINCT ON (v.name) v.name || '@' || v.version AS text, v.dataset_id, v.created_at FROM dataset_versions v
        WHERE position(lower($1) IN lower(v.name)) > 0 AND ({_OF_THE_TEAM_ALONE.format(dataset="v.dataset_id")})
        ORDER BY v.name, v.version DESC
    ) named UNION ALL SELECT text, dataset_id FROM (
        SELECT d.name AS text, d.dataset_id FROM datasets d
        WHERE position(lower($1) IN lower(d.name)) > 0 AND ({_OF_THE_TEAM_ALONE.format(dataset="d.dataset_id")})
        AND NOT EXISTS (SELECT FROM dataset_versions v WHERE v.dataset_id = d.dataset_id)
        ORDER BY d.created_at DESC, d.dataset_id LIMIT $3
    ) unnamed LIMIT $3
"""  # noqa: S608


async def _datasets(connection: Connection, word: str, team: str | None, limit: int) -> list[Find]:
    """By the names of their versions, each name once; those without a version by the name under which they were brought."""
    rows = await connection.fetch(_NAMED_DATASETS, word, team, limit)
    return [Find(kind="dataset", **row) for row in rows]


async def _candidates(connection: Connection, word: str, team: str | None, limit: int) -> list[Find]:
    """By how their names or their configurations' hashes begin, which indexes tell."""
    if len(word) < SHORTEST_CANDIDATE:
        return []
    rows = await connection.fetch(
        "SELECT c.run_id, c.candidate_id FROM ("
        " SELECT run_id, candidate_id, round, index FROM candidates WHERE candidate_id LIKE $1 OR config_hash LIKE $1 LIMIT $4"
        ") c JOIN runs r USING (run_id) WHERE $2::text IS NULL OR team_of_run(c.run_id) = $2"
        " ORDER BY r.started_at DESC, c.round, c.index LIMIT $3",
        f"{_literal(word)}%",
        team,
        limit,
        MOST_CANDIDATES,
    )
    return [Find(kind="candidate", text=row["candidate_id"], **row) for row in rows]


async def _tags(connection: Connection, word: str, team: str | None, limit: int) -> list[Find]:
    rows = await connection.fetch(
        "SELECT run_id, candidate_id, item_id, replicate, text, who FROM marks"
        " WHERE kind = 'tag' AND position(lower($1) IN lower(text)) > 0"
        " AND ($2::text IS NULL OR team_of_run(run_id) = $2) ORDER BY number DESC LIMIT $3",
        word,
        team,
        limit,
    )
    return [Find(kind="tag", **row) for row in rows]


async def _notes(connection: Connection, word: str, team: str | None, limit: int) -> list[Find]:
    hidden = contents_of(connection).encrypts
    rows = await connection.fetch(
        "SELECT run_id, candidate_id, item_id, replicate, text, who FROM marks"
        " WHERE kind = 'note' AND ($1::text IS NULL OR position(lower($1) IN lower(text)) > 0)"
        " AND ($2::text IS NULL OR team_of_run(run_id) = $2) ORDER BY number DESC LIMIT $3",
        None if hidden else word,
        team,
        NEWEST_NOTES if hidden else limit,
    )
    found: list[dict[str, Any]] = [{**row} for row in rows if word.lower() in row["text"].lower()]
    return [Find(kind="note", **{**row, "text": _around(row["text"], word)}) for row in found[:limit]]


def _literal(word: str) -> str:
    """A word as it is, for LIKE."""
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _around(text: str, word: str) -> str:
    """A note's part with the word in it."""
    at = text.lower().find(word.lower())
    first = max(0, at - LONGEST_TEXT // 2)
    part = text[first : first + LONGEST_TEXT]
    return f"{'…' if first else ''}{part}{'…' if first + LONGEST_TEXT < len(text) else ''}"
