"""The audit log of releases: a row per release that was asked for, which never changes once it is decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ratchet.prompts.template import PromptTemplate
from store.connection import Connection, Database
from store.encoding import from_json, storable_json, storable_text
from store.events import Event, EventType, RunUnknown, announce, lock_run
from store.schema import StoreError
from store.write.overlays import store_overlay
from workflows.model.spec.factors import Configuration
from workflows.model.spec.release import ReleaseState, ReleaseStatus, ReleaseStep

_STATE = """
    release_id, prompt, kind, tag, status, message, version, base_version, base_hash, overlay_hash, change_class, changes,
    run_id, candidate_id, asked_by, asked_at, reason, evidence, approvers, deadline_at, remind_at, decided_by,
    decided_through, decided_at, comment
"""


@dataclass(frozen=True, slots=True)
class NewRelease:
    """A release that is asked for, with the configurations it is about."""

    state: ReleaseState
    validated_on: str
    """The tag that the base was at."""
    configurations: Mapping[str, Configuration]
    """The base's and the candidate's, by hash."""
    first_template: PromptTemplate | None = None
    """What a prompt that is not there yet begins with."""


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """A release with all that is needed to carry it out."""

    state: ReleaseState
    validated_on: str
    configuration: Configuration
    first_template: PromptTemplate | None


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a release ends."""

    status: ReleaseStatus
    message: str
    by: str
    at: datetime
    version: str | None = None
    comment: str = ""
    through: str = ""


class Releases:
    """Releases by their ids; what is decided never changes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, new: NewRelease) -> StoredRelease:
        """Store a release that is asked for; asked for again, the row that is there."""
        async with self._database.transaction() as connection:
            state = new.state
            for config_hash, configuration in new.configurations.items():
                await store_overlay(connection, config_hash, configuration)
            await connection.execute(
                """
                INSERT INTO releases (release_id, prompt, kind, tag, status, message, validated_on, base_hash, base_version,
                                      overlay_hash, version, change_class, changes, run_id, candidate_id, asked_by,
                                      asked_at, reason, evidence, approvers, deadline_at, remind_at, first_template)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
                        $23)
                ON CONFLICT (release_id) DO NOTHING
                """,
                state.release_id,
                state.prompt,
                state.kind,
                state.tag,
                state.status,
                storable_text(state.message),
                new.validated_on,
                state.base_hash,
                state.base_version,
                state.overlay_hash,
                state.version,
                state.change_class,
                storable_json(state.changes),
                state.run_id,
                state.candidate_id,
                storable_text(state.asked_by),
                state.asked_at,
                storable_text(state.reason),
                storable_json(state.evidence),
                list(state.approvers),
                state.deadline_at,
                state.remind_at,
                None if new.first_template is None else new.first_template.model_dump_json(by_alias=True),
            )
            stored = await _stored(connection, state.release_id)
            await _announce(connection, stored.state)
            return stored

    async def accept(self, step: ReleaseStep) -> ReleaseState:
        """Keep who approved it, and how that is known, before it is carried out."""
        async with self._database.transaction() as connection:
            await connection.execute(
                "UPDATE releases SET status = 'accepted', decided_by = $2, comment = $3, decided_through = $4"
                " WHERE release_id = $1 AND status = 'pending'",
                step.release_id,
                storable_text(step.by),
                storable_text(step.comment),
                storable_text(step.through),
            )
            stored = await _release(connection, step.release_id)
            await _announce(connection, stored)
            return stored

    async def settle(self, release_id: str, settled: Settlement) -> ReleaseState:
        """End a release. What is decided stays: the first settlement counts."""
        async with self._database.transaction() as connection:
            await connection.execute(
                "UPDATE releases SET status = $2, message = $3, version = coalesce($4, version), decided_at = $6,"
                " decided_by = coalesce(decided_by, $5), comment = coalesce(nullif($7, ''), comment),"
                " decided_through = CASE WHEN decided_by IS NULL THEN $8 ELSE decided_through END"
                " WHERE release_id = $1 AND decided_at IS NULL",
                release_id,
                settled.status,
                storable_text(settled.message),
                settled.version,
                storable_text(settled.by),
                settled.at,
                storable_text(settled.comment),
                storable_text(settled.through),
            )
            stored = await _release(connection, release_id)
            await _announce(connection, stored)
            return stored

    async def remind(self, release_id: str) -> ReleaseState:
        """A reminder goes out, once."""
        async with self._database.transaction() as connection:
            await connection.execute(
                "UPDATE releases SET remind_at = NULL WHERE release_id = $1 AND status = 'pending'", release_id
            )
            stored = await _release(connection, release_id)
            if stored.status == "pending":
                await _announce(connection, stored, "approval_due")
            return stored

    async def known(self, release_id: str) -> ReleaseState | None:
        """One release, if it was ever asked for."""
        async with self._database.connection() as connection:
            return await _known(connection, release_id)

    async def stored(self, release_id: str) -> StoredRelease:
        """One release with all that is needed to carry it out."""
        async with self._database.connection() as connection:
            return await _stored(connection, release_id)

    async def listed(
        self, *, prompt: str | None = None, run_id: str | None = None, undecided: bool = False, limit: int = 100
    ) -> list[ReleaseState]:
        """Releases of a prompt, of a run, or of all, the newest first."""
        async with self._database.connection() as connection:
            return await releases(connection, prompt=prompt, run_id=run_id, undecided=undecided, limit=limit)

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


async def _known(connection: Connection, release_id: str) -> ReleaseState | None:
    """One release, if it was ever asked for."""
    row = await connection.fetchrow(f"SELECT {_STATE} FROM releases WHERE release_id = $1", release_id)  # noqa: S608
    return None if row is None else _state(row)


async def _release(connection: Connection, release_id: str) -> ReleaseState:
    """One release."""
    state = await _known(connection, release_id)
    if state is None:
        raise StoreError(f"there is no release {release_id!r}")
    return state


async def _stored(connection: Connection, release_id: str) -> StoredRelease:
    """One release with all that is needed to carry it out."""
    row = await connection.fetchrow(
        f"SELECT {_STATE}, validated_on, first_template, configuration"  # noqa: S608
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


async def releases(
    connection: Connection,
    *,
    prompt: str | None = None,
    run_id: str | None = None,
    undecided: bool = False,
    limit: int = 100,
) -> list[ReleaseState]:
    """Releases of a prompt, of a run, or of all, the newest first."""
    rows = await connection.fetch(
        f"SELECT {_STATE} FROM releases WHERE ($1::text IS NULL OR prompt = $1) AND ($2::text IS NULL OR run_id = $2)"  # noqa: S608
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


async def _announce(connection: Connection, state: ReleaseState, type: EventType = "release_changed") -> None:
    """Tell it with the run's events, where a run is behind it and still there."""
    if state.run_id is None:
        return
    try:
        run = await lock_run(connection, state.run_id)
    except RunUnknown:
        return
    facts = {"release_id": state.release_id, "prompt": state.prompt, "tag": state.tag, "kind": state.kind}
    more = {"status": state.status, "version": state.version, "message": state.message}
    await announce(connection, run, [Event(f"{type}/{state.release_id}/{state.status}", type, facts | more)])
