"""A run gone through again from an exported file alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from clients.replay.differences import ReplayDifference, differences
from clients.replay.replayed_run import ReplayedRun
from clients.replay.trial_source import Gone
from clients.replay.trials_from_file import FromMeans
from clients.reports.facts import RunFacts
from clients.reports.history.files import NotAHistory, read_document
from clients.reports.history.format import FINGERPRINT, RecordedHistory
from clients.reports.history.read import facts_from
from clients.reports.history.write import document_of, fingerprint, history_of
from workflows.model.trial import Purpose

CHANGED = "the file is no longer as it was written"


async def replay_file(path: Path) -> tuple[RecordedHistory, list[ReplayDifference], Gone]:
    """Where a file says something else than follows from what it holds, and what was gone through."""
    history, document = read_document(path)
    facts = facts_from(history)
    for problem in _unusable(history, facts):
        raise NotAHistory(f"{path}: {problem}")
    trials = FromMeans(facts)
    replayed = ReplayedRun(facts, trials)
    try:
        again = await replayed.again()
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise NotAHistory(f"{path}: its parts contradict each other; the run cannot be gone through again ({told})") from None
    recomputed = document_of(history_of(again))
    found = [one for one in differences(document, recomputed) if one.field != FINGERPRINT]
    # Of the file itself: the last digit of a sum depends on the order of its parts, which is no change of the file.
    if document.get(FINGERPRINT) != (written := fingerprint(document)):
        found.append(ReplayDifference(FINGERPRINT, document.get(FINGERPRINT), f"{written}: {CHANGED}"))
    return history, [*replayed.findings, *found], trials.tally


def _unusable(history: RecordedHistory, facts: RunFacts) -> Iterator[str]:
    """What nothing can be worked out from, with the field and the fix."""
    if not history.splits:
        yield "splits: is missing; export the run again with this version of Ratchet"
        return
    sizes = {drawn.split.value: drawn.samples for drawn in facts.splits}
    if facts.search_split.value not in sizes:
        yield f"searchSplit: {facts.search_split.value!r} is none of the splits {', '.join(sizes)}; export the run again"
    for place, drawn in enumerate(facts.splits):
        if drawn.weights is not None and len(drawn.weights) != drawn.samples:
            yield f"splits.{place}.weights: has {len(drawn.weights)} values for {drawn.samples} samples; export the run again"
    for where, trials in (("iterations", facts.iterations), ("furtherTrials", facts.further)):
        for place, past in enumerate(trials):
            field = f"{where}.{place}"
            if past.split not in sizes:
                yield f"{field}.datasetSplit: {past.split!r} is none of the splits {', '.join(sizes)}; export the run again"
            elif past.sample_means is not None and len(past.sample_means) != sizes[past.split]:
                yield (
                    f"{field}.sampleMeans: has {len(past.sample_means)} values for {sizes[past.split]} samples; "
                    "export the run again"
                )
            elif past.answers is not None:
                told = past.answers
                counted = (("passes", told.passes), ("scores", told.scores), *told.measures.items())
                for name, values in counted:
                    if values is not None and len(values) != sizes[past.split]:
                        yield (
                            f"{field}.answers.{name}: has {len(values)} values for {sizes[past.split]} samples; "
                            "export the run again"
                        )
    if facts.iterations and facts.iterations[0].purpose is not Purpose.BASELINE:
        yield "iterations.0.trial.purpose: the first iteration is not the baseline; export the run again"
    if facts.rounds and not facts.iterations:
        yield "iterations: is empty, but rounds are not; export the run again"
