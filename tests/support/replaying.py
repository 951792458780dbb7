"""Finished runs gone through again, from the store and from an exported file."""

from __future__ import annotations

import tempfile
from pathlib import Path

from clients.replay.differences import ReplayDifference
from clients.replay.from_file import replay_file
from clients.replay.from_store import replay_store
from clients.reports.history.answers import with_answers
from clients.reports.history.files import history_json, history_text
from clients.reports.load import facts_of
from store.connection import Database
from store.read.reader import StoreReader
from store.read.replay_records import RecordedOutcomes

HISTORIES = Path(__file__).parents[1] / "system" / "replay" / "histories"
"""Where recorded histories are kept."""


async def differences_in_store(database: Database, run_id: str) -> list[ReplayDifference]:
    """What the store says otherwise than its outcomes do."""
    report = await StoreReader(database).runs.report(run_id)
    assert report is not None, run_id
    found, _ = await replay_store(report, RecordedOutcomes(database))
    return found


async def differences_in_export(
    database: Database, run_id: str, *, sample_means: bool = True, as_json: bool = False
) -> list[ReplayDifference]:
    """What the exported file says otherwise than its means do. YAML takes many times as long to read as JSON."""
    report = await StoreReader(database).runs.report(run_id)
    assert report is not None, run_id
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("history.json" if as_json else "history.yaml")
        facts = await with_answers(facts_of(report), RecordedOutcomes(database))
        write = history_json if as_json else history_text
        path.write_text(write(facts, sample_means=sample_means))
        _, found, _ = await replay_file(path)
    return found


async def nothing_differs(database: Database, run_id: str) -> None:
    """Everything that a run decided follows from what is stored, and from what is exported."""
    for where, found in (
        ("in the store", await differences_in_store(database, run_id)),
        ("in the exported file", await differences_in_export(database, run_id, as_json=True)),
    ):
        assert not found, "\n".join([f"{run_id} {where}:", *map(str, found)])
