"""Several runs as one report: what the page asks of all of them, how each two compare, and a folder with a file for each run.

Nothing in it refers to anything but its own files, which lie beside each other: it opens without a server.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from clients.reports.comparisons.side_by_side import ComparedStanding, Incomparable, SideBySide, UnknownEntrant, side_by_side
from clients.reports.html import ReportedRun, html, html_of_several
from clients.wire import ListedOptimization
from ratchet.optimizer import Direction
from store.read.reader import StoreReader

INDEX: Final = "index.html"
MOST_TOGETHER: Final = 6
"""Runs of which each two are compared; of more, each is compared with the first."""
MOST_SAMPLES: Final = 1000
"""Of a comparison in full."""
_GENERATED: Final = '<meta name="generator" content="Ratchet report">'
_LONGEST_NAME: Final = 60


class NoReportFolder(ValueError):
    """A folder holds something else."""


@dataclass(frozen=True)
class ReportedRuns:
    """Several runs, with all that a report of them holds."""

    runs: Sequence[ReportedRun]
    answers: Mapping[str, Mapping[str, str]]
    """Of each run, what its part of the page asks for."""
    shared: Mapping[str, str]
    """What the page asks for beside that: the list, and comparisons."""
    pairs: Sequence[Mapping[str, Any]]

    def as_file(self) -> str:
        """Write all of them as one HTML file."""
        everything = {path: answer for one in self.answers.values() for path, answer in one.items()}
        return html_of_several(self.runs, {**everything, **self.shared}, self.pairs)

    def as_files(self) -> dict[str, str]:
        """Write an HTML file for each, and one that lists and compares them: texts by names, for one folder."""
        names = file_names(list(self.answers))
        rounds = {path: one[path] for one in self.answers.values() for path in one if path.endswith("/rounds")}
        texts = {INDEX: html_of_several(self.runs, {**rounds, **self.shared}, self.pairs, names)}
        for one in self.runs:
            run_id = one.facts.run_id
            texts[names[run_id]] = html(one.facts, self.answers[run_id], one.gates, home=INDEX)
        return texts


async def reported_runs(
    reader: StoreReader, runs: Sequence[ReportedRun], answers: Mapping[str, Mapping[str, str]], *, in_full: bool
) -> ReportedRuns:
    """Put runs together with how they compare; `answers` are those of each run by its id."""
    run_ids = [one.facts.run_id for one in runs]
    pairs, shared = await compared(reader, run_ids, in_full=in_full)
    everything = {path: answer for one in answers.values() for path, answer in one.items()}
    return ReportedRuns(runs, answers, listed(everything, run_ids) | shared, pairs)


def listed(answers: Mapping[str, str], run_ids: Sequence[str]) -> dict[str, str]:
    """The list of runs, by what is known of each."""
    names = {field.alias or name for name, field in ListedOptimization.model_fields.items()}
    found = [json.loads(answers[f"/optimizations/{run_id}"]) for run_id in run_ids]
    items = [{name: value for name, value in one.items() if name in names} for one in found]
    return {"/optimizations": json.dumps({"total": len(items), "items": items})}


async def compared(
    reader: StoreReader, run_ids: Sequence[str], *, in_full: bool
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Compare each two runs; of many, each with the first. What is told of each pair, and what the page asks for."""
    pairs: list[dict[str, Any]] = []
    answers: dict[str, str] = {}
    for one, other in combinations(run_ids, 2) if len(run_ids) <= MOST_TOGETHER else ((run_ids[0], two) for two in run_ids[1:]):
        try:
            found = await side_by_side(reader, [one, other])
        except (Incomparable, UnknownEntrant) as problem:
            pairs.append({"of": [one, other], "problem": str(problem)})
            continue
        pairs.append({"of": [one, other], **_told(found.compared[0])})
        answers[f"/comparison?of={one}&of={other}"] = found.model_dump_json(by_alias=True)
        answers |= await _samples(reader, found, MOST_SAMPLES if in_full else 0)
    return pairs, answers


def _told(standing: ComparedStanding) -> dict[str, Any]:
    judged = standing.judged
    sign = 1.0 if standing.direction == Direction.MAXIMIZE else -1.0
    evidence = None if judged is None else judged.evidence
    return {
        "verdict": None if judged is None else judged.verdict.value,
        "difference": None if evidence is None or evidence.refused else sign * evidence.effect,
        "fixed": standing.counts["fixed"],
        "broken": standing.counts["broken"],
    }


async def _samples(reader: StoreReader, found: SideBySide, samples: int) -> dict[str, str]:
    """A pair sample by sample, as the page asks for it."""
    reference, other = found.reference, found.compared[0]
    purpose = "confirmation" if found.samples == "held-back" else None
    sides = [(one.optimization_id, one.candidate_id, purpose) for one in (reference, other)]
    compared = await reader.comparisons.load(sides[0], sides[1], limit=samples)
    if compared is None:  # deleted a moment ago
        return {}
    asked = f"against={reference.candidate_id}&against_run={reference.optimization_id}&candidate={other.candidate_id}"
    option = "" if purpose is None else f"&purpose={purpose}"
    return {f"/optimizations/{other.optimization_id}/comparison?{asked}{option}": compared.model_dump_json(by_alias=True)}


def file_names(run_ids: Sequence[str]) -> dict[str, str]:
    """A file for each run, by its id as far as that can be one on every system."""
    return {run_id: f"run-{_plain(run_id)}.html" for run_id in run_ids}


def download_name(run_ids: Sequence[str], ending: str) -> str:
    """What a report of runs is called where people keep it: by the first, and how many come with it."""
    others = f"-and-{len(run_ids) - 1}-more" if len(run_ids) > 1 else ""
    return f"report-{_plain(run_ids[0])}{others}.{ending}"


def _plain(run_id: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", run_id)[:_LONGEST_NAME]
    is_same = plain == run_id and plain == plain.lower()  # names that differ in their case alone are one on some systems
    return plain if is_same else f"{plain}-{sha256(run_id.encode('utf-8', 'replace')).hexdigest()[:8]}"


def write_folder(folder: Path, texts: Mapping[str, str]) -> None:
    """Write all files, the first one last of all: whoever opens it finds the others. Raises NoReportFolder, OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()) and not _is_report(folder):
        raise NoReportFolder(f"{folder} is not empty and no report; name a new folder, or one that a report was written to")
    for name in (*(name for name in texts if name != INDEX), INDEX):
        part = folder / f".{name}.part"
        part.write_text(texts[name], encoding="utf-8")
        os.replace(part, folder / name)


def _is_report(folder: Path) -> bool:
    try:
        with (folder / INDEX).open(encoding="utf-8", errors="replace") as file:
            return _GENERATED in file.read(4096)
    except OSError:
        return False
