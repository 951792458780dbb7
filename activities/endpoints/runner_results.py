"""What a runner says of an experiment, read strictly: whatever breaks the contract is an aggregation failure, never a score."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, get_args

from activities.targets.faults import Refused
from ratchet._formats.canonical import NotCanonical, normalize, normalize_text
from workflows.model.activities.external_trials import ExperimentState, ExperimentStatus, GivenAnswer
from workflows.model.failures import quoted, shorten
from workflows.model.spec.extensions.scorer_options import Scorer, placed_scorers
from workflows.rules.scoring.external_answers import UNUSABLE

NOT_SAID_BY_RUNNERS = {"unknown", "unreachable"}
LONGEST_QUOTE = 200
MOST_PAGES = 100_000


def state_from(url: str, reply: Mapping[str, Any]) -> ExperimentState:
    """Where the experiment stands, in the words of the contract."""
    status = reply.get("status")
    known = [name for name in get_args(ExperimentStatus) if name not in NOT_SAID_BY_RUNNERS]
    if status not in known:
        raise Refused(f"runner {url}: status is {_quoted(status)}; give one of {', '.join(known)}")
    error = reply.get("error")
    return ExperimentState(status=status, error=None if error is None else shorten(str(error), 1_000))


async def read_results(
    page: Callable[[str | None], Awaitable[Mapping[str, Any]]], scorers: Sequence[Scorer]
) -> list[GivenAnswer]:
    """Every item of every page."""
    reported = {name for _, scorer in placed_scorers(scorers) if (name := scorer.reported_name) is not None}
    answers: list[GivenAnswer] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MOST_PAGES):
        reply = await page(cursor)
        items = reply.get("items")
        if not isinstance(items, list):
            raise Refused(f"the results have no list `items`, but {_quoted(items)}")
        answers += [_answer(item, len(answers) + place, reply.get("mask_id"), reported) for place, item in enumerate(items)]
        cursor = reply.get("next")
        if cursor is None:
            return answers
        if not isinstance(cursor, str) or cursor in seen:
            raise Refused(f"the results' `next` is {_quoted(cursor)}; give the cursor of another page, or null")
        seen.add(cursor)
    raise Refused(f"the results have more than {MOST_PAGES:,} pages")


def _answer(item: Any, place: int, mask_id: Any, reported: set[str]) -> GivenAnswer:
    """One item as an answer that says which overlay it was made with.

    An item must say which sample it is about; whatever else is wrong with it is that sample's failure.
    """
    sample_id, replicate = _pair(item, place)
    try:
        read = normalize(item)
    except (NotCanonical, RecursionError) as error:
        return _faulty(sample_id, replicate, f"the runner's answer cannot be read: {error}")
    assert isinstance(read, dict)
    if "value" not in read and read.get("error") is None:
        raise Refused(f"items[{place}] (sample {sample_id}) has neither value nor error")
    if read.get("error") is None:
        _refuse_missing_scores(read, place, reported)
    echoed = read.get("mask_id", mask_id)
    if not isinstance(echoed, str):
        fault = "the runner does not say which overlay it used; give mask_id with the item or with the results"
        return GivenAnswer(sample_id=sample_id, replicate=replicate, fault=fault, kind="other overlay")
    return GivenAnswer(sample_id=sample_id, replicate=replicate, answer={**read, "overlay_hash": echoed})


def _pair(item: Any, place: int) -> tuple[str, int]:
    """Which sample an item is about, and which replicate of it."""
    if not isinstance(item, dict):
        raise Refused(f"items[{place}] is {_quoted(item)}; give an object with id and value, or id and error")
    sample_id, replicate = item.get("id"), item.get("replicate", 0)
    if not isinstance(sample_id, str) or "\x00" in sample_id or not _is_unicode(sample_id):
        raise Refused(f"items[{place}].id is {_quoted(sample_id)}; give the id of the sample")
    if not isinstance(replicate, int) or isinstance(replicate, bool):
        raise Refused(f"items[{place}].replicate is {_quoted(replicate)}; give the number that the sample had")
    return normalize_text(sample_id), replicate


def _is_unicode(text: str) -> bool:
    return text.isascii() or text == text.encode("utf-8", "ignore").decode()


def _faulty(sample_id: str, replicate: int, fault: str) -> GivenAnswer:
    return GivenAnswer(sample_id=sample_id, replicate=replicate, fault=fault, kind=UNUSABLE)


def _refuse_missing_scores(item: Mapping[str, Any], place: int, reported: set[str]) -> None:
    """Scores that the runner gives itself must be there, for every answer: a gap is no score of 0."""
    scores = item.get("scores") or {}
    for name in sorted(reported):
        score = scores.get(name) if isinstance(scores, Mapping) else None
        value = score.get("value") if isinstance(score, Mapping) else score
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise Refused(f"items[{place}].scores.{name} is {_quoted(score)}; a scorer of kind reported needs a number")


def _quoted(value: Any) -> str:
    return quoted(value, LONGEST_QUOTE)
