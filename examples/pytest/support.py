"""A use case: support tickets are sorted by an agent that does as its instructions say, and here nothing more."""

from __future__ import annotations

import ratchet


@ratchet.use_case("ticket-sorting")
class TicketSorting:
    """Everything that `__init__` sets is a factor."""

    def __init__(self) -> None:
        self.most_words = 40  # a fixed factor: it stays as it is
        self.instructions = "billing: refund, charged\nbug: crash"  # the treatment factor

    @ratchet.treatment_source("instructions")
    def initial_instructions(self) -> str:
        return self.instructions

    @ratchet.factor_setter("instructions")
    def follow(self, instructions: str) -> None:
        self.instructions = instructions

    @ratchet.criterion
    def right_queue(self, outcome: str, sample: ratchet.Sample) -> bool:
        """The ticket is in the queue where it belongs."""
        return bool(outcome == sample.expected)

    def sort(self, ticket: str) -> str:
        """What an agent would do with a model."""
        words = ticket.lower().split()[: self.most_words]
        for rule in self.instructions.splitlines():
            queue, _, triggers = rule.partition(":")
            if any(trigger.strip() in words for trigger in triggers.split(",")):
                return queue.strip()
        return "other"
