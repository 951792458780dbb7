"""Notes of what a run may have imported: only what its user alone could have written counts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from clients.checks.plugin_inspection import first_changed
from clients.checks.plugin_process import PluginUse
from clients.runs.service.run_code import CodeNote, CodeNotes, RunCode, notes_for
from clients.runs.service.servers import Servers


def servers(*, embedded: bool, address: str = "temporal:7233") -> Servers:
    return cast(Servers, SimpleNamespace(embedded=embedded, temporal_address=address, namespace="default"))


def note(tmp_path: Path, run_id: str = "run", **files: str) -> CodeNote:
    code = RunCode(
        spec="spec.yaml",
        directory=str(tmp_path),
        task_queue="q",
        uses=(PluginUse("target.ref", "mine:target", 3, None),),
        files=files,
    )
    return CodeNote(run_id=run_id, execution="first", code=code)


@pytest.fixture
def notes(tmp_path: Path) -> CodeNotes:
    kept = CodeNotes(tmp_path / "code")
    kept.write(note(tmp_path))
    return kept


def place(notes: CodeNotes) -> Path:
    [found] = notes.folder.glob("*.json")
    return found


def test_a_note_is_read_as_it_was_written_and_gone_when_it_is_forgotten(notes: CodeNotes, tmp_path: Path) -> None:
    assert notes.read("run") == note(tmp_path)
    assert notes.read("other") is None
    [(state, found)] = notes.all()
    assert (found, list(notes.all({state}))) == (note(tmp_path), [])
    notes.forget("run")
    assert notes.read("run") is None


def test_a_note_that_others_may_read_or_write_is_none_of_ours(notes: CodeNotes) -> None:
    for mode in (0o620, 0o604, 0o644):
        place(notes).chmod(mode)
        assert notes.read("run") is None
        assert list(notes.all()) == []
    place(notes).chmod(0o600)
    assert notes.read("run") is not None
    notes.folder.chmod(0o755)
    assert notes.read("run") is None


def test_a_link_is_no_note(notes: CodeNotes, tmp_path: Path) -> None:
    place(notes).rename(tmp_path / "elsewhere.json")
    (notes.folder / "0.json").symlink_to(tmp_path / "elsewhere.json")
    assert list(notes.all()) == []
    linked = tmp_path / "linked"
    linked.symlink_to(notes.folder)
    assert CodeNotes(linked).read("run") is None


def test_a_note_under_the_name_of_another_run_does_not_count_for_it(notes: CodeNotes, tmp_path: Path) -> None:
    mine = place(notes)
    notes.write(note(tmp_path, "other"))
    [other] = set(notes.folder.glob("*.json")) - {mine}
    mine.replace(other)
    assert notes.read("other") is None


def test_what_is_no_note_is_nothing(notes: CodeNotes) -> None:
    for text in ("", "[]", "{}", "\x00", '{"run_id": "run"}', "[" * 100_000):
        place(notes).write_text(text)
        assert notes.read("run") is None


def test_a_file_that_is_gone_has_changed(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("x = 1")
    unknown = note(tmp_path, **{str(mine): "0" * 64}).code
    assert first_changed(unknown.files) == str(mine)
    mine.unlink()
    assert first_changed(unknown.files) == str(mine)


def test_runs_on_named_servers_are_noted_in_the_state_folder_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folder(home: str, **where: Any) -> Path:
        return notes_for(servers(**where), tmp_path / home).folder

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert folder("a", embedded=True) == tmp_path / "a" / "code"
    assert folder("a", embedded=False) == folder("b", embedded=False)
    assert folder("a", embedded=False).is_relative_to(tmp_path / "state" / "ratchet")
    assert folder("a", embedded=False) != folder("a", embedded=False, address="other:7233")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    assert folder("a", embedded=False).is_relative_to(tmp_path / "user" / ".local" / "state")
