"""The steps of `ratchet backup` and `ratchet restore`."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from clients.backups.archive import BadBackup, ReadArchive
from clients.backups.restored_store import end_open_runs, replay_restored, restore_prompts, restore_tables
from clients.backups.written_backup import write_backup
from clients.commands.context import CommandError, Context, ExitCode
from clients.prompts.stores import prompt_errors
from clients.reports.formatting import counted
from clients.runs.service.servers import has_data, open_store, reach_store
from clients.runs.views.retention_view import bytes_text
from clients.settings import client_settings
from store.schema import StoreError


async def make_backup(context: Context, file: Path) -> int:
    """Write a backup of the store that the environment names, or of the embedded one."""
    if not has_data(context.home):
        raise CommandError(f"there is no store in {context.home}: there is nothing to back up")
    file = _new_file(file)
    try:
        async with reach_store(context.home) as url:
            with prompt_errors():
                manifest = await write_backup(url, client_settings().overrides, file)
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror or error}", ExitCode.FAILED) from None
    except StoreError as error:
        raise CommandError(str(error)) from None
    size, prompts = os.stat(file).st_size, manifest.prompts
    facts = {
        "file": str(file),
        "bytes": size,
        "schema_version": manifest.schema_version,
        "rows": {table.name: table.rows for table in manifest.tables},
        "prompts": None if prompts is None else {"store": prompts.store, "files": len(prompts.files)},
        "open_runs": list(manifest.open_runs),
    }
    lines = [
        f"{file}: {counted(manifest.rows('runs'), 'run')}, {counted(manifest.rows('answers'), 'answer')}, {bytes_text(size)}"
    ]
    if manifest.open_runs:
        lines.append(
            f"{counted(len(manifest.open_runs), 'run')} not over: their history is in Temporal's databases, not in this file"
        )
    context.facts(facts, "\n".join(lines))
    return ExitCode.DONE


def _new_file(given: Path) -> Path:
    file = given / f"ratchet-{datetime.now(UTC):%Y%m%d-%H%M%S}.zip" if given.is_dir() else given
    if file.exists():
        raise CommandError(f"{file} exists; give the name of a new file, or a directory")
    return file


async def restore_backup(context: Context, file: Path, replay: int) -> int:
    """Bring a backup back, and go through some of its runs again."""
    try:
        archive = ReadArchive(file)
        try:
            async with reach_store(context.home) as url:
                await restore_tables(archive, url)
                database = await open_store(url)
                try:
                    with prompt_errors():
                        prompts = await restore_prompts(archive, client_settings().overrides, url)
                    ended = await end_open_runs(database, archive.manifest)
                    again = await replay_restored(database, replay)
                finally:
                    await database.close()
        finally:
            archive.close()
    except (BadBackup, StoreError) as error:
        raise CommandError(f"nothing was restored: {error}") from None
    manifest = archive.manifest
    facts = {
        "file": str(file),
        "made_at": manifest.made_at,
        "rows": {table.name: table.rows for table in manifest.tables},
        "prompts": prompts,
        "terminated": ended,
        "replayed": again.replayed,
        "finished": again.finished,
        "differing": list(again.differing),
    }
    lines = [
        f"Restored {counted(manifest.rows('runs'), 'run')} and {counted(manifest.rows('answers'), 'answer')}"
        f" of {manifest.made_at.astimezone():%Y-%m-%d %H:%M}.",
        f"{again.replayed} of {counted(again.finished, 'finished run')} gone through again: "
        + (f"{len(again.differing)} differ: {', '.join(again.differing)}" if again.differing else "no difference."),
    ]
    if ended:
        lines.append(
            f"{counted(len(ended), 'run')} open then, now terminated: {', '.join(ended)}; `ratchet retry ID` goes on with the "
            "answers of each."
        )
    context.facts(facts, "\n".join(lines))
    return ExitCode.FAILED if again.differing else ExitCode.DONE
