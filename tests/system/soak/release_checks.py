"""Tags are linear: every release that moved one was compared with what the tag was at just before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.system.soak.recorded_history import History, Row, Violation


def tags_are_linear(history: History) -> Iterator[Violation]:
    """Revisions have no gap and no fork, the tag is at the last one, and each audit row's base is the row's before."""
    changes: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in history.tables["prompt_changes"]:
        changes[row["name"], row["tag"]].append(row)
    at = {(row["name"], row["tag"]): row["revision"] for row in history.tables["prompt_tags"]}
    releases: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sorted(history.tables["releases"], key=lambda one: int(one["number"])):
        if row["status"] == "released":
            releases[row["prompt"], row["tag"]].append(row)
    for (name, tag), rows in changes.items():
        rows.sort(key=lambda one: int(one["revision"]))
        revisions = [row["revision"] for row in rows]
        if revisions != list(range(revisions[0], revisions[0] + len(revisions))):
            yield Violation("tag not linear", name, f"{tag} has the revisions {revisions}")
        if at.get((name, tag)) != revisions[-1]:
            yield Violation("tag not linear", name, f"{tag} is at {at.get((name, tag))}, its last change is {revisions[-1]}")
    for (name, tag), asked in releases.items():
        moved = [row["config_hash"] for row in changes[name, tag]]
        for before, after in pairwise(asked):
            if after["base_hash"] != before["overlay_hash"]:
                told = f"{after['release_id']} moved {tag} from {after['base_hash'][:12]}, where it was not"
                yield Violation("release without its base", name, told)
        if moved[-1:] != [asked[-1]["overlay_hash"]]:
            told = f"{tag} is at {moved[-1][:12] if moved else None}, the audit log says {asked[-1]['overlay_hash'][:12]}"
            yield Violation("audit log and tag differ", name, told)
        if len(moved) - len(asked) not in (0, 1):
            told = f"{tag} moved {len(moved)} times, {len(asked)} releases are told"
            yield Violation("audit log and tag differ", name, told)


def releases_are_decided(history: History) -> Iterator[Violation]:
    """No release is left half-way."""
    for row in history.tables["releases"]:
        if row["status"] in {"pending", "accepted"}:
            yield Violation("release left half-way", row["prompt"], f"{row['release_id']} is {row['status']}")
