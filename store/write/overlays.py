"""Overlays: configurations, each stored once under its hash."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from ratchet._formats.canonical import canonical_json, content_hash
from store.connection import Connection, Database
from store.encrypted_contents import contents_of
from store.schema import StoreError
from workflows.model.spec.factors import Configuration


class Overlays:
    """Configurations by their hash."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, config_hash: str) -> dict[str, Any]:
        """A configuration, proven to be the one its hash names."""
        async with self._database.connection() as connection:
            text = await connection.fetchval("SELECT configuration FROM overlays WHERE config_hash = $1", config_hash)
        return configuration_in(text, config_hash)

    async def store(self, config_hash: str, configuration: Configuration) -> None:
        """Store a configuration under its hash, once."""
        async with self._database.connection() as connection:
            await store_overlay(connection, config_hash, configuration)

    async def remove_unused(self, before: datetime) -> int:
        """Remove configurations that no candidate, run, release or answer refers to."""
        async with self._database.connection() as connection:
            removed = await connection.execute(
                """
                DELETE FROM overlays o WHERE created_at < $1
                    AND NOT EXISTS (SELECT FROM candidates c WHERE c.config_hash = o.config_hash)
                    AND NOT EXISTS (SELECT FROM runs r WHERE r.baseline_config_hash = o.config_hash)
                    AND NOT EXISTS (SELECT FROM releases l WHERE o.config_hash IN (l.overlay_hash, l.base_hash))
                    AND NOT EXISTS (SELECT FROM answers a WHERE a.config_hash = o.config_hash)
                """,
                before,
            )
            return int(removed.rpartition(" ")[2])


async def store_overlay(connection: Connection, config_hash: str, configuration: Configuration) -> None:
    """Store a configuration under its hash, once, within a transaction."""
    await connection.execute(
        "INSERT INTO overlays (config_hash, configuration) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        config_hash,
        contents_of(connection).json_text(canonical_json(configuration)),
    )


def configuration_in(text: str | None, config_hash: str) -> dict[str, Any]:
    if text is None:
        raise StoreError(f"overlay {config_hash} is not in the store")
    configuration: dict[str, Any] = json.loads(text)
    if content_hash(configuration) != config_hash:
        raise StoreError(f"overlay {config_hash} was changed in the store: its content no longer has this hash")
    return configuration
