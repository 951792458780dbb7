"""Who is who: configurations and their hashes, parents that were there before, and answers that are told apart."""

from __future__ import annotations

from collections.abc import Iterator

from clients.replay.differences import ReplayDifference, differences
from clients.reports.facts import Iteration, RunFacts
from ratchet._formats.canonical import content_hash
from workflows.model.trial import Purpose, Split


def contradictions(facts: RunFacts) -> Iterator[ReplayDifference]:
    """Where trials contradict each other, or the configuration that they name."""
    for where, trials in (("iterations", facts.iterations), ("further", facts.further)):
        for place, past in enumerate(trials):
            field = f"{where}[{place}]"
            yield from differences(past.config_hash, content_hash(past.configuration), f"{field}.config_hash")
            if past.config_hash[:8] not in past.candidate_id:
                yield ReplayDifference(f"{field}.candidate_id", past.candidate_id, f"…-{past.config_hash[:8]}")
            if past.purpose is not Purpose.EXPLORATION:
                yield from differences(past.first, 0, f"{field}.first")
    yield from _must_pass(facts)
    yield from _of_the_search(facts)
    for place, past in enumerate(facts.further):
        yield from _beside_the_search(facts, past, f"further[{place}]")


def _must_pass(facts: RunFacts) -> Iterator[ReplayDifference]:
    """Samples that must pass, but that the spec does not name; which samples have a tag, no file says."""
    named = facts.request.judgement.must_pass
    if named is not None and named.tags:
        return
    wanted = named.samples if named is not None else []
    for at, drawn in enumerate(facts.splits):
        for place, name in drawn.must_pass.items():
            if name not in wanted:
                yield ReplayDifference(f"splits[{at}].mustPass[{place}]", name, f"one of {', '.join(wanted)}")


def _of_the_search(facts: RunFacts) -> Iterator[ReplayDifference]:
    known = {one.candidate_id for one in facts.further if one.purpose is Purpose.EXPLORATION}
    answered: dict[str, int] = {}
    for place, past in enumerate(facts.iterations):
        field = f"iterations[{place}]"
        parents = [parent for parent in past.parents if parent in known]
        yield from differences(list(past.parents), parents, f"{field}.parents")
        known.add(past.candidate_id)
        yield from differences(past.first_replicate, answered.get(past.config_hash, 0), f"{field}.first_replicate")
        answered[past.config_hash] = max(answered.get(past.config_hash, 0), _answers(facts, past))
    if facts.iterations:
        first = facts.iterations[0]
        yield from differences(first.config_hash, content_hash(facts.request.baseline), "iterations[0].config_hash")
        yield from differences(first.index, 0, "iterations[0].index")


def _answers(facts: RunFacts, past: Iteration) -> int:
    """Up to which replicate a configuration has been answered; the noise is measured on the baseline's."""
    noise = [one.replicates for one in facts.further if one.purpose is Purpose.NOISE] if not past.round else []
    return max([past.first_replicate + past.replicates, *noise])


def _beside_the_search(facts: RunFacts, past: Iteration, field: str) -> Iterator[ReplayDifference]:
    """A trial of a candidate that the search has measured, too."""
    same = next((one for one in facts.iterations if one.candidate_id == past.candidate_id), None)
    if past.purpose is Purpose.EXPLORATION or same is None:
        return
    yield from differences(past.round, same.round, f"{field}.round")
    yield from differences(list(past.parents), list(same.parents), f"{field}.parents")
    afresh = past.purpose is Purpose.CONFIRMATION and past.split != Split.TEST
    expected = 0
    if afresh:
        alike = [one for one in facts.iterations if one.config_hash == past.config_hash]
        parts = [1 for one in facts.further if one.purpose is Purpose.EXPLORATION and one.config_hash == past.config_hash]
        expected = max([_answers(facts, one) for one in alike] + parts)
    yield from differences(past.first_replicate, expected, f"{field}.first_replicate")
    if past.purpose is Purpose.NOISE or not same.round:
        yield from differences(past.index, 0, f"{field}.index")
