"""Answers that people label: questions, their queues, what was said, how far people agree; and labels as a dataset."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import ConfigDict, Field, StringConstraints, model_validator

from activities.datasets import DatasetError, InlineItems, ingest
from clients.http.access.callers import CalledBy
from clients.http.access.roles import RUN
from clients.http.backend import NO_CONTROLS, Backend, RunId, Served
from clients.http.bodies import JsonRoute
from clients.http.encoded_answers import encoded
from clients.http.errors import Refused, responses
from clients.http.missing_run import existing_run, refuse_unknown_run
from clients.http.routes.dataset_uploads import refuse_taken
from clients.reports.label_agreement import LabelAgreement, agreement_of
from clients.reports.label_files import head_of, label_lines, labelled_samples
from clients.settings import dataset_settings
from ratchet._frozen import Payload
from store.read.access.access_tokens import Role
from store.read.labels import CATEGORIES, Drawn, LabelItem, QuestionKind, QuestionStanding
from store.write.access.teams import Teams
from store.write.datasets import Datasets
from store.write.labels import (
    CANDIDATE,
    CONFIRMATION,
    Labels,
    NewQuestion,
    NothingToLabel,
    TooManyQuestions,
    UnknownCandidate,
)

MOST_STEPS: Final = 9
"""So that each has a key of its own."""
MOST_ITEMS: Final = 1_000
LARGEST_SEED: Final = 2**31 - 1
TYPES: Final = {"jsonl": "application/x-ndjson", "csv": "text/csv"}

QUESTIONS: Final = f"{RUN}/questions"
QUESTION: Final = f"{QUESTIONS}/{{question_id}}"
ITEM: Final = f"{QUESTION}/items/{{position}}"

QuestionId = Annotated[int, Path(ge=1, lt=2**63, description="The number of the question.")]
Position = Annotated[int, Path(ge=0, lt=2**31, description="The answer's place in the queue, from 0.")]
Word = Annotated[str, StringConstraints(min_length=1, max_length=60, pattern=NO_CONTROLS, strip_whitespace=True)]
Named = Annotated[str, Field(min_length=1, max_length=500, pattern=NO_CONTROLS)]


class AskedQuestion(Payload):
    """What to ask people, and about which answers of the run."""

    model_config = ConfigDict(frozen=True, strict=True)

    kind: QuestionKind
    words: Annotated[str, Field(min_length=1, max_length=1_000, pattern=r"\S")]
    """The question, as people read it."""
    categories: Annotated[tuple[Word, ...], Field(strict=False, max_length=MOST_STEPS)] = ()
    """What can be said, where the kind is `categories`: two to nine."""
    steps: Annotated[int, Field(ge=2, le=MOST_STEPS)] | None = None
    """How many a scale has, from 1. Default: 5."""
    ends: Annotated[tuple[Word, ...], Field(strict=False, max_length=2)] = ()
    """What the lowest and the highest step of a scale mean, in this order. Default: worst and best."""
    drawn: Drawn = "random"
    """At random, or of those alone of which some scores passed and others did not: where judge and scorers disagree."""
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] | None = None
    """With the same one the same answers are drawn. Default: one is drawn, and told."""
    count: Annotated[int, Field(ge=1, le=MOST_ITEMS)] = 50
    """Answers, or pairs of answers, at most."""
    candidates: Annotated[tuple[Named, ...], Field(strict=False, max_length=20)] = ()
    """Whose answers. Default: those of the best; of two, baseline and best."""
    confirmation: bool = False
    """Answers of the confirmation, not of the search."""

    @model_validator(mode="after")
    def _whole(self) -> AskedQuestion:
        if self.kind == "categories" and not 2 <= len(set(self.categories)) == len(self.categories):
            raise ValueError("categories: give two to nine different ones")
        if self.kind != "categories" and self.categories:
            raise ValueError(f"categories: {self.kind} has its own; leave them out, or make the kind categories")
        if self.kind != "scale" and self.steps is not None:
            raise ValueError("steps: only a scale has some; leave them out")
        if self.ends and (self.kind != "scale" or len(self.ends) != 2):
            raise ValueError("ends: a scale has two, the lowest first; other kinds have none")
        if self.kind == "better_of_two" and len(self.candidates) not in (0, 2):
            raise ValueError("candidates: of two answers, give two candidates")
        if len(set(self.candidates)) < len(self.candidates):
            raise ValueError("candidates: one is there twice")
        return self

    @property
    def what_can_be_said(self) -> tuple[str, ...]:
        if self.kind == "scale":
            return tuple(str(step) for step in range(1, (self.steps or 5) + 1))
        return CATEGORIES.get(self.kind, self.categories)


class Questions(Payload):
    """The questions about a run, in the order in which they were asked."""

    items: tuple[QuestionStanding, ...]


class LabelQueue(Payload):
    """A part of a question's queue."""

    total: int
    items: tuple[LabelItem, ...]
    next_after: int | None
    """The position to go on after; null when this was the last part."""


class SaidLabel(Payload):
    """What somebody says of an answer."""

    label: Annotated[str, Field(min_length=1, max_length=60)]
    """One of the question's categories."""


class LabelDatasetName(Payload):
    """What to call the dataset."""

    name: Annotated[str, Field(min_length=1, max_length=200, pattern=NO_CONTROLS)]


class LabelDataset(Payload):
    """Labels as a version of a dataset: a sample for each labelled answer, with what most people said expected."""

    dataset_id: str
    name: str
    version: int
    count: int
    tied: int
    """Answers that were left out, since no label has the most."""


router = APIRouter(tags=["labels"], route_class=JsonRoute)


@router.get(QUESTIONS, operation_id="listQuestions", responses=responses(404))
async def list_questions(run_id: RunId, backend: Served) -> Questions:
    """What people are asked about a run's answers, and how many labels each has given. No decision reads them."""
    found = await backend.reader.labels.of_run(run_id)
    if not found:
        await refuse_unknown_run(backend, run_id)
    return Questions(items=tuple(found))


@router.post(QUESTIONS, operation_id="askQuestion", status_code=201, responses=responses(404, 409))
async def ask_question(run_id: RunId, asked: AskedQuestion, backend: Served, caller: CalledBy) -> QuestionStanding:
    """Draw answers of a run for people to label: right or wrong, on a scale, in categories, or the better of two."""
    await existing_run(backend, run_id)
    question = NewQuestion(
        kind=asked.kind,
        words=asked.words,
        categories=asked.what_can_be_said,
        ends=asked.ends,
        drawn=asked.drawn,
        seed=secrets.randbelow(LARGEST_SEED) if asked.seed is None else asked.seed,
        candidates=asked.candidates or await _candidates(backend, run_id, asked.kind),
        purpose=CONFIRMATION if asked.confirmation else CANDIDATE,
        count=asked.count,
    )
    try:
        made = await Labels(backend.database).ask(run_id, question, caller.name, caller.through)
    except UnknownCandidate as error:
        raise Refused(404, str(error), "candidates") from None
    except NothingToLabel as error:
        raise Refused(409, str(error), str(error).partition(": ")[0]) from None
    except TooManyQuestions as error:
        raise Refused(409, str(error)) from None
    return await _existing(backend, run_id, made)


@router.get(QUESTION, operation_id="getQuestion", responses=responses(404))
async def get_question(run_id: RunId, question_id: QuestionId, backend: Served) -> QuestionStanding:
    """One question, with how the answers were drawn and how many labels each person has given."""
    return await _existing(backend, run_id, question_id)


@router.delete(QUESTION, operation_id="removeQuestion", status_code=204, responses=responses(404), response_class=Response)
async def remove_question(run_id: RunId, question_id: QuestionId, backend: Served, caller: CalledBy) -> Response:
    """Remove a question of one's own with all that people said; an admin any."""
    question = await _existing(backend, run_id, question_id)
    if caller.role is not Role.ADMIN and caller.name != question.who:
        raise Refused(403, f"{question.who} asked this; only he and admins remove it", "question_id")
    await Labels(backend.database).remove(run_id, question_id)
    return Response(status_code=204)


@router.get(f"{QUESTION}/items", operation_id="listLabelItems", responses=responses(404), response_model=LabelQueue)
async def list_label_items(
    run_id: RunId,
    question_id: QuestionId,
    backend: Served,
    caller: CalledBy,
    after: Annotated[int, Query(ge=-1, le=2**31 - 1, description="Answers behind this position.")] = -1,
    limit: Annotated[int, Query(ge=1, le=100, description="How many at most.")] = 20,
) -> Response:
    """The queue: samples with the answers to label, and what the caller has said of them.

    Whose answers they are, what scorers made of them and what others said is not told, so that it sways nobody.
    """
    question = await _existing(backend, run_id, question_id)
    items = await backend.reader.labels.items(question, caller.name, after=after, limit=limit)
    further = items[-1].position if len(items) == limit and items[-1].position + 1 < question.items else None
    return await encoded(
        lambda: LabelQueue(total=question.items, items=tuple(items), next_after=further).model_dump_json(by_alias=True)
    )


@router.put(f"{ITEM}/label", operation_id="label", status_code=204, responses=responses(404), response_class=Response)
async def put_label(
    run_id: RunId, question_id: QuestionId, position: Position, said: SaidLabel, backend: Served, caller: CalledBy
) -> Response:
    """Say what one thinks of an answer, under the token's name; what one said before is replaced."""
    question = await _existing(backend, run_id, question_id)
    if said.label not in question.categories:
        raise Refused(422, f"label: {said.label!r} cannot be said here; use one of {', '.join(question.categories)}", "label")
    if not await Labels(backend.database).say(question_id, position, caller.name, caller.through, said.label):
        raise Refused(404, f"question {question_id} has {question.items} answers, and none at position {position}", "position")
    return Response(status_code=204)


@router.delete(f"{ITEM}/label", operation_id="unlabel", status_code=204, responses=responses(404), response_class=Response)
async def remove_label(
    run_id: RunId, question_id: QuestionId, position: Position, backend: Served, caller: CalledBy
) -> Response:
    """Take back what one said of an answer."""
    await _existing(backend, run_id, question_id)
    if not await Labels(backend.database).take_back(question_id, position, caller.name):
        raise Refused(404, f"{caller.name} said nothing of the answer at position {position}", "position")
    return Response(status_code=204)


@router.get(f"{QUESTION}/agreement", operation_id="getLabelAgreement", responses=responses(404))
async def get_label_agreement(run_id: RunId, question_id: QuestionId, backend: Served) -> LabelAgreement:
    """How far the people who labelled agree: Cohen's or Fleiss' kappa and Krippendorff's alpha, with intervals."""
    question = await _existing(backend, run_id, question_id)
    said = await backend.reader.labels.said(question_id)
    return await asyncio.to_thread(agreement_of, question, said)


@router.get(
    f"{QUESTION}/labels",
    operation_id="exportLabels",
    responses={**responses(404), 200: {"content": {kind: {"schema": {"type": "string"}} for kind in TYPES.values()}}},
    response_class=StreamingResponse,
)
async def export_labels(
    run_id: RunId,
    question_id: QuestionId,
    backend: Served,
    form: Annotated[
        Literal["jsonl", "csv"], Query(alias="format", description="JSON lines, or CSV in which no cell is a formula.")
    ] = "jsonl",
) -> StreamingResponse:
    """All labels, a line for each: who said what of which answer, when, with the sample and the answer."""
    question = await _existing(backend, run_id, question_id)
    lines = label_lines(backend.reader.labels, question, form)
    named = f'attachment; filename="labels-{question_id}.{form}"'
    return StreamingResponse(_encoded(head_of(form), lines), media_type=TYPES[form], headers={"Content-Disposition": named})


async def _encoded(head: str, lines: AsyncIterator[str]) -> AsyncIterator[bytes]:
    yield head.encode()
    async for line in lines:
        yield line.encode()


@router.post(f"{QUESTION}/dataset", operation_id="storeLabels", status_code=201, responses=responses(404, 409, 413))
async def store_labels(
    run_id: RunId, question_id: QuestionId, named: LabelDatasetName, backend: Served, caller: CalledBy
) -> LabelDataset:
    """Store labels as the newest version of a dataset: each answer is a sample, and what most people said of it is expected."""
    question = await _existing(backend, run_id, question_id)
    await refuse_taken(backend, named.name, caller.team)
    found = await labelled_samples(backend.reader.labels, question)
    if not found.items:
        raise Refused(409, f"question {question_id} has no answer of which most people say the same; label some first")
    try:
        source = InlineItems(found.items, name=named.name)
        made = await ingest(backend.database, source, named.name, largest_mb=dataset_settings().largest_dataset_mb)
    except DatasetError as error:
        raise Refused(422, str(error), "name") from None
    await Teams(backend.database).claim_dataset(made.dataset_id, caller.team)
    version = await Datasets(backend.database).version_of(named.name, made.dataset_id)
    return LabelDataset(dataset_id=made.dataset_id, name=named.name, version=version, count=made.count, tied=found.tied)


async def _existing(backend: Backend, run_id: str, question_id: int) -> QuestionStanding:
    found = await backend.reader.labels.question(run_id, question_id)
    if found is None:
        await refuse_unknown_run(backend, run_id)
        raise Refused(404, f"{run_id} has no question {question_id}; GET …/questions lists those there are", "question_id")
    return found


async def _candidates(backend: Backend, run_id: str, kind: str) -> tuple[str, ...]:
    """The best, else the baseline; of two, both."""
    run = await backend.reader.runs.load(run_id)
    best = None if run is None else run.unproven.candidate_id if run.unproven is not None else run.best_candidate_id
    baseline = None if run is None else run.baseline_candidate_id
    if kind != "better_of_two" and (best or baseline):
        return (str(best or baseline),)
    if best and baseline and best != baseline:
        return baseline, best
    raise Refused(409, f"candidates: {run_id} has no two candidates to choose by itself yet; name them", "candidates")
