"""The audit log of releases, as it is read: by those who carry them out, and by those who look."""

# ruff: noqa: S608 (only constants of this module are put into statements; every value is a parameter)

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ratchet.prompts.template import PromptTemplate
from store.connection import Connection, Database
from store.encoding import from_json
from store.schema import StoreError
from workflows.model.spec.factors import Configuration
from workflows.model.spec.release import ReleaseState

_STATE = """
    release_id, prompt, kind, tag, status, message, version, base_version, base_hash, overlay_hash, change_class, changes,
    run_id, candidate_id, asked_by, asked_at, reason, evidence, approvers, deadline_at, remind_at, decided_by,
    decided_through, decided_at, comment
"""


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """A release with all that is needed to carry it out."""

    state: ReleaseState
    validated_on: str
    configuration: Configuration
    first_template: PromptTemplate | None


class ReleaseReader:
    """Releases, decided or not."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def known(self, release_id: str) -> ReleaseState | None:
        """One release, if it was ever asked for."""
        async with self._database.connection() as connection:
            return await known_release(connection, release_id)

    async def stored(self, release_id: str) -> StoredRelease:
        """One release with all that is needed to carry it out."""
        async with self._database.connection() as connection:
            return await stored_release(connection, release_id)

    async def listed(
        self, *, prompt: str | None = None, run_id: str | None = None, undecided: bool = False, limit: int = 100
    ) -> list[ReleaseState]:
        """Releases of a prompt, of a run, or of all, the newest first."""
        async with self._database.connection() as connection:
            return await listed_releases(connection, prompt=prompt, run_id=run_id, undecided=undecided, limit=limit)

    async def validated_base(self, prompt: str, canary: str, overlay_hash: str) -> tuple[str, str] | None:
        """What a canary that is out now was validated with: the tag it is a canary of, and what that pointed to."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(
                "SELECT validated_on, base_hash FROM releases WHERE prompt = $1 AND tag = $2 AND overlay_hash = $3"
                " AND kind = 'canary' AND status = 'released' ORDER BY number DESC LIMIT 1",
                prompt,
                canary,
                overlay_hash,
            )
            return None if row is None else (row["validated_on"], row["base_hash"])

    async def awaited(self, prompt: str, overlay_hash: str) -> bool:
        """Whether an undecided release of a prompt is about this."""
        async with self._database.connection() as connection:
            found: bool = await connection.fetchval(
                "SELECT EXISTS (SELECT FROM releases"
                " WHERE prompt = $1 AND decided_at IS NULL AND $2 IN (overlay_hash, base_hash))",
                prompt,
                overlay_hash,
            )
            return found


async def known_release(connection: Connection, release_id: str) -> ReleaseState | None:
    """One release, if it was ever asked for."""
    row = await connection.fetchrow(f"SELECT {_STATE} FROM releases WHERE release_id = $1", release_id)
    return None if row is None else _state(row)


async def release(connection: Connection, release_id: str) -> ReleaseState:
    """One release."""
    state = await known_release(connection, release_id)
    if state is None:
        raise StoreError(f"there is no release {release_id!r}")
    return state


async def stored_release(connection: Connection, release_id: str) -> StoredRelease:
    """One release with all that is needed to carry it out."""
    row = await connection.fetchrow(
        f"SELECT {_STATE}, validated_on, first_template, configuration"
        " FROM releases JOIN overlays ON config_hash = overlay_hash WHERE release_id = $1",
        release_id,
    )
    if row is None:
        raise StoreError(f"there is no release {release_id!r}")
    values = dict(row)
    validated_on, configuration = values.pop("validated_on"), from_json(values.pop("configuration"))
    text = values.pop("first_template")
    first_template = None if text is None else PromptTemplate.model_validate_json(text)
    return StoredRelease(_state(values), validated_on, configuration, first_template)


async def listed_releases(
    connection: Connection,
    *,
    prompt: str | None = None,
    run_id: str | None = None,
    undecided: bool = False,
    limit: int = 100,
) -> list[ReleaseState]:
    """Releases of a prompt, of a run, or of all, the newest first."""
    rows = await connection.fetch(
        f"SELECT {_STATE} FROM releases WHERE ($1::text IS NULL OR prompt = $1) AND ($2::text IS NULL OR run_id = $2)"
        " AND (NOT $3 OR decided_at IS NULL) ORDER BY number DESC LIMIT $4",
        prompt,
        run_id,
        undecided,
        limit,
    )
    return [_state(row) for row in rows]


def _state(row: Any) -> ReleaseState:
    values = dict(row)
    return ReleaseState(**{**values, "changes": from_json(values["changes"]), "evidence": from_json(values["evidence"])})
