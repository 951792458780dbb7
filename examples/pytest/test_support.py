"""Three experiments, and an ordinary test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from support import TicketSorting

import ratchet
from ratchet import experiment

TICKETS = "tickets.jsonl"


@experiment.measure(use_case=TicketSorting, data=TICKETS, margin=0.05)
def measure_sorting(use_case: TicketSorting, sample: ratchet.Sample) -> str:
    return use_case.sort(sample.input["ticket"])


@experiment.explore(use_case=TicketSorting, data=TICKETS, factors={"most_words": [5, 10]})
def explore_how_much_is_read(use_case: TicketSorting, sample: ratchet.Sample) -> str:
    return use_case.sort(sample.input["ticket"])


def with_another_word(current: Mapping[str, Any], records: Sequence[ratchet.Record], factors: Sequence[str]) -> dict[str, str]:
    """Give new instructions: a long word of tickets that went astray sends the next ones where they belong."""
    failed = [record for record in records if record.score < 1]
    words = Counter((word, record.expected) for record in failed for word in record.inputs["ticket"].split() if len(word) > 6)
    if not words:
        return {}
    (word, queue), _ = max(words.items(), key=lambda counted: (counted[1], counted[0]))
    return {"instructions": f"{current['instructions']}\n{queue}: {word}"}


@experiment.optimize(
    use_case=TicketSorting,
    treatment_factor="instructions",
    scorer="success_rate",
    mutator=with_another_word,
    samples_per_iteration=80,
    max_iterations=8,
    no_improvement_window=3,
    data=TICKETS,
    baseline="ticket-sorting",
    stop={"score": 1.0},
)
def optimize_instructions(use_case: TicketSorting, sample: ratchet.Sample, captor: experiment.Captor) -> None:
    captor.record(use_case.sort(sample.input["ticket"]))


def test_that_a_refund_is_billing() -> None:
    assert TicketSorting().sort("I want a refund") == "billing"
