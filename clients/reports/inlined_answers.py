"""What the page would ask the server for, read at once, so that a report has it inside: JSON texts by their paths.

A path carries the options that tell answers apart, in the order of their names; `report_source.js` looks them up.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from pydantic import TypeAdapter

from clients.reports.spec_texts import SpecText, spec_text
from clients.wire import (
    Happening,
    Log,
    MarkPage,
    RoundPage,
    candidate_of,
    detail_of,
    rejected_of,
    round_of,
    slices_of,
)
from ratchet._files import IMAGES, data_url
from ratchet._frozen import Payload
from ratchet.optimizer import Direction
from store import events
from store.connection import Database
from store.read.candidates import StoredCandidate
from store.read.reader import StoreReader
from store.read.rows.proposal_rows import ProposalPage
from store.read.rows.report_rows import RunReport
from store.read.rows.round_rows import RejectionPage
from store.read.rows.run_rows import RunDetail
from store.read.rows.trial_rows import TrialDetail, TrialInFull
from store.read.samples.comparisons import ComparedSample
from workflows.model.spec.release import ReleaseState
from workflows.model.trial import SEARCHING, Purpose

MOST_CANDIDATES: Final = 200
"""Of which a summary holds what they change and how they were judged: the best ones. All are in its charts and tables."""
MOST_SAMPLES: Final = 1000
"""With what both sides answered, in a full report."""
MOST_EVENTS: Final = 1000
LARGEST_IMAGES_MB: Final = 8
"""Of images of samples, all together; what is larger is left out."""
_NAMED_IMAGE: Final = re.compile(r'"\$file": ?"sha256:([0-9a-f]{64})"')
MOST_PROPOSALS: Final = 200
"""Of which a report holds what their proposers were asked and answered, the first rounds first; and as many rejections."""
LARGEST_PROPOSALS_MB: Final = 2
"""Of these together in a summary; in full eight times as much."""
LARGEST_MB: Final = 32
"""Of candidates, or of answers with their traces; a browser would take long to open more."""

_RELEASES: Final = TypeAdapter(tuple[ReleaseState, ...])
_TRIAL: Final = TypeAdapter(TrialDetail)


async def inlined_answers(
    database: Database,
    run_id: str,
    *,
    in_full: bool = False,
    slice_fields: Sequence[str] | None = None,
    written: str | None = None,
) -> dict[str, str]:
    """Read a run as the page would. In full it holds every candidate, and what best and baseline answered to each sample.

    `written` is its spec as its author wrote it, which only Temporal knows.
    """
    reader = StoreReader(database)
    newest = await reader.events.last_id(run_id)
    report, progress, outline = (
        await reader.runs.report(run_id),
        await reader.runs.progress(run_id),
        await reader.outlines.load(run_id),
    )
    if report is None or progress is None or outline is None:
        return {}
    execution: Literal["closed", "unknown"] = "closed" if report.run.status in events.TERMINAL else "unknown"
    answers = {
        "": _json(detail_of(report.run, progress, execution=execution, last_event_id=newest)),
        "/outline": outline.model_dump_json(exclude_none=True),
        "/rounds": _json(RoundPage(total=len(report.rounds), items=tuple(round_of(row) for row in report.rounds))),
        "/rejections": _json(RejectionPage(total=len(report.rejections), items=report.rejections)),
        "/releases": _RELEASES.dump_json(report.releases, by_alias=True).decode(),
        "/log": await _log(reader, run_id),
        "/marks": _json(MarkPage(total=len(report.marks), items=report.marks)),
    }
    answers |= await asyncio.to_thread(_spec, report.run, written)
    answers |= await _candidates(reader, report, None if in_full else MOST_CANDIDATES)
    if tried := await reader.candidates.tried(run_id):
        answers["/factors"] = _json(tried)
    answers |= await _proposals(reader, run_id, LARGEST_PROPOSALS_MB * 2**20 * (8 if in_full else 1))
    answers |= await _comparisons(reader, report, MOST_SAMPLES if in_full else 0)
    answers |= await _slices(reader, report, slice_fields)
    images = await _images(reader, answers.values()) if in_full else {}
    return {f"/optimizations/{run_id}{path}": answer for path, answer in answers.items()} | images


async def _images(reader: StoreReader, answers: Iterable[str]) -> dict[str, str]:
    """The images that the samples in these answers name, as data URLs by the paths that the server has them under."""
    found: dict[str, str] = {}
    left = LARGEST_IMAGES_MB * 2**20
    for digest in dict.fromkeys(digest for answer in answers for digest in _NAMED_IMAGE.findall(answer)):
        file = await reader.files.load(digest)
        if file is not None and file.media_type in IMAGES and len(file.content) <= left:
            left -= len(file.content)
            found[f"/files/{digest}"] = json.dumps(data_url(file.media_type, file.content))
    return found


def _json(answer: Payload) -> str:
    return answer.model_dump_json(by_alias=True)


def _spec(run: RunDetail, written: str | None) -> dict[str, str]:
    try:
        return {"/spec": _json(SpecText(text=spec_text(run.spec, run.task_queue), written=written, dataset_id=run.dataset_id))}
    except ValueError:  # of another version: the run has it as it is stored
        return {}


async def _log(reader: StoreReader, run_id: str) -> str:
    found = await reader.events.newest(run_id, limit=MOST_EVENTS)
    happened = (Happening(id=event.id, type=event.type, at=event.created_at, facts=event.payload) for event in found)
    return _json(Log(items=tuple(happened), has_more=False))


async def _candidates(reader: StoreReader, report: RunReport, most: int | None) -> dict[str, str]:
    """What the best candidates change, and how they were judged."""
    found: dict[str, str] = {}
    size = 0
    for trial in _ranked(report)[:most]:
        if size > LARGEST_MB * 2**20:
            break
        candidate = await reader.candidates.load(report.run.run_id, trial.candidate_id)
        if candidate is None:  # deleted a moment ago
            break
        pieces = await asyncio.to_thread(_candidate, report.run.run_id, candidate, trial)
        size += sum(map(len, pieces.values()))
        found |= pieces
    return found


def _candidate(run_id: str, candidate: StoredCandidate, trial: TrialInFull) -> dict[str, str]:
    return {
        f"/candidates/{trial.candidate_id}": _json(candidate_of(run_id, candidate)),
        f"/trials/{trial.candidate_id}": _TRIAL.dump_json(trial, by_alias=True).decode(),
    }


async def _proposals(reader: StoreReader, run_id: str, most_bytes: int) -> dict[str, str]:
    """What proposers were asked and answered, and what was kept out with its text, as long as there is room."""
    page = await reader.proposals.page(run_id, limit=MOST_PROPOSALS)
    if page is None:
        return {}
    left, items = most_bytes, []
    for item in page.items:
        left -= len(_json(item))
        if left < 0:
            break
        items.append(item)
    found = {"/proposals": _json(ProposalPage(total=len(items), items=tuple(items)))}
    for rejected in await reader.proposals.all_rejected(run_id, MOST_PROPOSALS):
        told = _json(await asyncio.to_thread(rejected_of, run_id, rejected))
        left -= len(told)
        if left < 0:
            break
        found[f"/rejections/{rejected.rejection.round}/{rejected.rejection.proposed_index}"] = told
    return found


def _ranked(report: RunReport) -> list[TrialInFull]:
    """Trials of the search: the best, the baseline, those that were the best once, and the others by their scores."""
    run = report.run
    sign = -1.0 if run.direction == Direction.MAXIMIZE else 1.0
    first = (_winner(run), run.baseline_candidate_id)

    def rank(trial: TrialInFull) -> tuple[bool, bool, bool, float]:
        kept = trial.judged is not None and trial.judged.kept
        score = math.inf if trial.score is None else sign * trial.score
        return trial.candidate_id != first[0], trial.candidate_id != first[1], not kept, score

    return sorted((trial for trial in report.trials if trial.purpose in SEARCHING), key=rank)


def _winner(run: RunDetail) -> str | None:
    """The search's, whether it holds or not."""
    return run.unproven.candidate_id if run.unproven is not None else run.best_candidate_id


async def _comparisons(reader: StoreReader, report: RunReport, samples: int) -> dict[str, str]:
    """Best and baseline sample by sample, as the search and as the confirmation measured them."""
    run_id, best, baseline = report.run.run_id, _winner(report.run), report.run.baseline_candidate_id
    if best is None or baseline is None or best == baseline:
        return {}
    found: dict[str, str] = {}
    for purpose in (None, Purpose.CONFIRMATION):
        one, other = (run_id, baseline, purpose), (run_id, best, purpose)
        compared = await reader.comparisons.load(one, other, limit=max(samples, 1))  # with none, nothing is judged
        if compared is None:
            continue
        if not samples:
            compared = compared.model_copy(update={"items": ()})
        option = f"&purpose={purpose.value}" if purpose is not None else ""
        told = _json(compared)
        if len(told) > LARGEST_MB * 2**20:
            told = _json(compared.model_copy(update={"items": tuple(map(_without_traces, compared.items))}))
        found[f"/comparison?against={baseline}&candidate={best}{option}"] = told
    return found


def _without_traces(sample: ComparedSample) -> ComparedSample:
    """A sample whose answers do not tell how they came about."""
    sides = {
        name: tuple(answer.model_copy(update={"trace": None}) for answer in getattr(sample, name))
        for name in ("baseline_answers", "candidate_answers")
    }
    return sample.model_copy(update=sides)


async def _slices(reader: StoreReader, report: RunReport, fields: Sequence[str] | None) -> dict[str, str]:
    """Scores by slice: of the best beside the baseline, and of all trials where there are not too many."""
    run_id, best = report.run.run_id, _winner(report.run)
    found: dict[str, str] = {}
    if best is not None and (of_best := await reader.slices.of_trial(run_id, best, None, fields)):
        found[f"/trials/{best}/slices"] = _json(slices_of(run_id, best, of_best))
    offered = await reader.slice_scores.slices(run_id)
    if offered is None:
        return found
    if not offered.all_at_once:
        offered = offered.model_copy(update={"fields": ()})
    for one in offered.fields:
        if scores := await reader.slice_scores.scores(run_id, one.field, None):
            found[f"/slices/scores?field={one.field}"] = _json(scores)
    return found | {"/slices": _json(offered)}
