"""The audit log of releases: a row per release that was asked for, which never changes once it is decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from ratchet.prompts.template import PromptTemplate
from store.connection import Connection, Database
from store.encoding import storable_json, storable_text
from store.encrypted_contents import contents_of
from store.events import Event, EventType, RunUnknown, announce, lock_run
from store.read.releases import StoredRelease, release, stored_release
from store.write.overlays import store_overlay
from workflows.model.spec.factors import Configuration
from workflows.model.spec.release import ReleaseState, ReleaseStatus, ReleaseStep


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
            state, first, contents = new.state, new.first_template, contents_of(connection)
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
                contents.json(state.changes),
                state.run_id,
                state.candidate_id,
                storable_text(state.asked_by),
                state.asked_at,
                storable_text(state.reason),
                storable_json(state.evidence),
                list(state.approvers),
                state.deadline_at,
                state.remind_at,
                None if first is None else contents.json_text(first.model_dump_json(by_alias=True)),
            )
            stored = await stored_release(connection, state.release_id)
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
            stored = await release(connection, step.release_id)
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
            stored = await release(connection, release_id)
            await _announce(connection, stored)
            return stored

    async def remind(self, release_id: str) -> ReleaseState:
        """A reminder goes out, once."""
        async with self._database.transaction() as connection:
            await connection.execute(
                "UPDATE releases SET remind_at = NULL WHERE release_id = $1 AND status = 'pending'", release_id
            )
            stored = await release(connection, release_id)
            if stored.status == "pending":
                await _announce(connection, stored, "approval_due")
            return stored


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
