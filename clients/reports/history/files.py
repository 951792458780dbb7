"""Where exported histories are kept, how they get there in one piece, and how they are read back."""

from __future__ import annotations

import json
import os
import re
import tempfile
from datetime import UTC
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from clients.reports.facts import RunFacts
from clients.reports.history.format import FINGERPRINT, SCHEMA_VERSION, RecordedHistory
from clients.reports.history.write import document_of, fingerprint, history_of
from ratchet._formats.yaml_text import yaml_text

FOLDER: Final = "optimizations"
LONGEST_NAME: Final = 180
"""Bytes; file systems allow 255, and a date, a number and an ending follow."""

DEEPEST: Final = 500

_BARE: Final = frozenset({"schemaVersion", "objective", "status", "cause", "reason", "reasonCode", "stopReason"})
_SPACED: Final = frozenset({"iterations"})
_COMMENTS: Final = {
    "schemaVersion": "Optimization History\nPrimary output: the best value for the treatment factor",
    "treatmentFactorName": "What was optimized",
    "fixedFactors": "Fixed factor suit",
    "objective": "Optimization settings",
    "components": "What decided, with its parameters",
    "datasetId": "What it was measured on",
    "startTime": "Timing",
    "iterations": "Iterations",
    "furtherTrials": "Trials beside the search: of the noise, on some samples only, and of the confirmation",
    "proposals": "What the proposals of each round took",
    "result": "The result that the run gave",
    "rounds": "Decided rounds, each with what had been spent by then",
    "rejections": "Proposals that were kept out",
    "bestIteration": "Primary result: best iteration found",
    "confirmation": "Best and baseline on samples that the search never saw",
    "slices": "Best and baseline by part of the dataset",
    "terminationReason": "Why optimization stopped",
    "scoreImprovement": "Summary",
    "spec": "The specification of the run, whole",
    FINGERPRINT: "sha256 over everything above",
}
_NAME: Final = re.compile(r"\w[\w.-]*")
_RUN_ID_LINE: Final = re.compile(r'^runId: (".*")$', re.MULTILINE)
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class NotAHistory(ValueError):
    """A file that is not a history this version can read."""


def history_text(facts: RunFacts, *, sample_means: bool = True) -> str:
    """The history as YAML."""
    document = document_of(history_of(facts, sample_means=sample_means))
    return yaml_text(document, bare=_BARE, spaced=_SPACED, comments=_COMMENTS)


def history_json(facts: RunFacts, *, sample_means: bool = True) -> str:
    """The same as JSON."""
    return json.dumps(document_of(history_of(facts, sample_means=sample_means)), ensure_ascii=False, indent=1) + "\n"


def write_history(facts: RunFacts, folder: Path, *, sample_means: bool = True) -> Path:
    """Write `optimizations/{use case}/{experiment}_{when}.yaml` under the folder, and return its path.

    The file appears whole or not at all. Writing a run again replaces its file; another run's file is never replaced.
    """
    text = history_text(facts, sample_means=sample_means)
    home = folder / FOLDER / file_name(facts.use_case)
    home.mkdir(parents=True, exist_ok=True)
    when = (facts.finished_at or facts.started_at).astimezone(UTC).strftime("%Y%m%d_%H%M%S")
    stem = f"{file_name(facts.experiment)}_{when}"
    written = _temporary(home, text)
    try:
        number = 1
        while True:
            path = home / (f"{stem}.yaml" if number == 1 else f"{stem}-{number}.yaml")
            if _placed(written, path, facts.run_id):
                return path
            number += 1
    finally:
        written.unlink(missing_ok=True)


def file_name(name: str) -> str:
    """A name as one part of a path: whatever could lead elsewhere is replaced."""
    safe = re.sub(r"[^\w.-]", "_", name).lstrip(".-") or "_"
    while len(safe.encode()) > LONGEST_NAME:
        safe = safe[:-1]
    if not _NAME.fullmatch(safe):
        raise ValueError(f"{name!r} cannot be made a file name")
    return safe


def put_whole(path: Path, text: str) -> Path:
    """Put a file there, whole or not at all, and return its path.

    It takes the place of one that begins with the same line; any other is somebody else's, and left alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, place = 1, path
    while place.exists() and _first_line(place) != text.partition("\n")[0]:
        number += 1
        place = path.with_name(f"{path.stem}-{number}{path.suffix}")
    written = _temporary(path.parent, text)
    try:
        written.replace(place)
    finally:
        written.unlink(missing_ok=True)
    return place


def _first_line(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline(LONGEST_NAME).rstrip("\n")


def _temporary(home: Path, text: str) -> Path:
    handle, name = tempfile.mkstemp(dir=home, prefix=".history-", suffix=".part")
    with os.fdopen(handle, "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
        os.fchmod(file.fileno(), 0o644)
    return Path(name)


def _placed(written: Path, path: Path, run_id: str) -> bool:
    """Whether the file could be put there without replacing another run's."""
    try:
        os.link(written, path)
    except FileExistsError:
        if not path.is_file() or _run_id_of(path) != run_id:
            return False
    except OSError:  # a file system without hard links
        if path.exists() and _run_id_of(path) != run_id:
            return False
    else:
        return True
    written.replace(path)
    return True


def _run_id_of(path: Path) -> str | None:
    """Whose history a file is; its id stands near the top."""
    with path.open(encoding="utf-8", errors="replace") as file:
        found = _RUN_ID_LINE.search(file.read(4096))
    try:
        return str(yaml.safe_load(found.group(1))) if found else None
    except yaml.YAMLError:
        return None


def read_history(path: Path) -> tuple[RecordedHistory, bool]:
    """A history with its types, and whether it is still as it was written."""
    history, document = read_document(path)
    return history, history.content_fingerprint == fingerprint(document)


def read_document(path: Path) -> tuple[RecordedHistory, dict[str, Any]]:
    """A history with its types, and as it stands in the file, which is YAML or JSON."""
    try:
        written = path.read_bytes()
        document = _parsed(written)
    except OSError as error:
        raise NotAHistory(f"{path}: cannot be read: {error.strerror or error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise NotAHistory(f"{path}: is neither YAML nor JSON that can be read: {error}") from None
    if not isinstance(document, dict) or "schemaVersion" not in document:
        raise NotAHistory(
            f"{path}: is not an optimization history; it has no schemaVersion: write one with `ratchet export ID`, "
            "or with --format history-json"
        )
    version = document["schemaVersion"]
    if version != SCHEMA_VERSION:
        raise NotAHistory(f"{path}: has schemaVersion {version!r}; this version of Ratchet reads {SCHEMA_VERSION!r}")
    try:
        fingerprint(document)
        return RecordedHistory.model_validate(document), document
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise NotAHistory(f"{path}: {where}: {first['msg']}") from None
    except TypeError as error:
        raise NotAHistory(f"{path}: holds a value that JSON does not know: {error}") from None


def _parsed(written: bytes) -> Any:
    if written.lstrip()[:1] == b"{":
        return json.loads(written, parse_constant=_refused)
    _refuse_harm(written)
    return yaml.load(written, Loader=_Loader)  # noqa: S506 (a safe loader)


def _refuse_harm(written: bytes) -> None:
    """What a history never has: aliases, a few lines of which can stand for more values than any memory holds, and parts so
    deep within others that reading them would overflow the stack."""
    depth = 0
    for event in yaml.parse(written, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("uses YAML aliases, which a history never does")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"nests deeper than {DEEPEST} levels, which a history never does")


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")
