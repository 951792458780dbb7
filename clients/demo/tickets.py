"""The world of support tickets: the labels, the rules that settle doubtful tickets, and the tickets.

The simulated model knows the truth about every ticket of the example. Whether it gives the right answer depends on what
its system prompt tells it (`reading.py`, `triage.py`).
"""

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

LABELS = ("billing", "bug", "outage", "account", "feature_request", "security", "shipping", "other")


@dataclass(frozen=True)
class TicketRule:
    """One kind of doubtful ticket: how it is recognized, the right label, and the labels it tempts a model to give."""

    name: str
    label: str
    lures: tuple[str, ...]
    concept: re.Pattern[str]


def _concept(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


RULES: dict[str, TicketRule] = {
    rule.name: rule
    for rule in (
        TicketRule(
            "data_leak",
            "security",
            ("bug", "account", "billing"),
            _concept(
                r"leak|breach|phish|hack|attack|vulnerab|intru|compromis|suspicious|privacy|expos|stolen"
                r"|unauthori[sz]ed|someone else"
                r"|(?:other|another|foreign|stranger'?s?) (?:customer|user|person|people|compan)"
            ),
        ),
        TicketRule(
            "many_affected",
            "outage",
            ("bug",),
            _concept(
                r"every(?:one|body)|(?:many|several|multiple|all|whole|entire|lots of|more than one|other) "
                r"(?:\w+ )?(?:user|team|compan|customer|people|person|office|site|staff|organi[sz]ation|department)"
                r"|widespread|not only (?:one|them|the)|unreachable|offline|is down|unavailable"
            ),
        ),
        TicketRule(
            "locked_out",
            "account",
            ("bug",),
            _concept(
                r"lock|log(?:ging|ged)?[- ]?(?:in|on)\b|sign(?:ing|ed)?[- ]?in\b|password|two-factor|2fa"
                r"|(?:access to|get into) (?:their|the|an?) (?:account|profile)|credential|authenticat"
            ),
        ),
        TicketRule(
            "lost_parcel",
            "shipping",
            ("billing",),
            _concept(r"parcel|package|deliver|courier|shipment|carrier|in transit|never arriv|not arriv|goods|physical"),
        ),
        TicketRule(
            "double_charge",
            "billing",
            ("bug",),
            _concept(r"charg|invoice|payment|refund|\bpaid\b|\bpay(?:s|ing)?\b|\bbilled\b|subscription|money"),
        ),
        TicketRule(
            "missing_wish",
            "feature_request",
            ("bug",),
            _concept(
                r"missing (?:feature|function|capabilit|option)|not exist|never exist|does not (?:yet )?(?:offer|have)"
                r"|wish|would like|new (?:feature|function|capabilit|option)|suggest|improvement|never (?:had|built)"
                r"|not (?:yet )?(?:support|built|implement|available)|ask(?:s|ing)? for something"
            ),
        ),
        TicketRule(
            "small_talk",
            "other",
            ("feature_request", "billing", "bug"),
            _concept(
                r"thank|prais|complim|job|career|hiring|press\b|journalis|sales|partner|vendor|spam|survey"
                r"|none of|unrelated|anything else|everything else|not fit|not about (?:the|our) (?:product|service)"
            ),
        ),
    )
}


_OPENING = 36


@dataclass(frozen=True)
class SupportTicket:
    """One ticket of the example: the right label, and the rule without which it is likely to be misread."""

    text: str
    label: str
    rule: TicketRule | None

    @property
    def opening(self) -> str:
        """How the ticket begins; enough to find it, and short enough to survive most truncations."""
        return self.text[:_OPENING]

    @property
    def rest(self) -> str:
        """What follows the opening."""
        return self.text[_OPENING:]


@lru_cache(maxsize=1)
def known_tickets() -> tuple[SupportTicket, ...]:
    """The tickets of the packaged example."""
    lines = (files(__package__) / "example" / "tickets.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return tuple(
        SupportTicket(row["input"]["ticket"], row["expected"], next((RULES[tag] for tag in row["tags"] if tag in RULES), None))
        for row in rows
    )


@lru_cache(maxsize=4096)
def find_ticket(text: str) -> SupportTicket | None:
    """The known ticket that the text is or contains; for an unknown one, a guess from what it mentions, or nothing."""
    flat = " ".join(text.split())
    known = next((ticket for ticket in known_tickets() if ticket.opening in flat), None)
    return known or _guess(flat)


def _guess(text: str) -> SupportTicket | None:
    matching = [rule for rule in RULES.values() if rule.concept.search(text)]
    if not matching:
        return None
    return SupportTicket(text, matching[0].label, matching[0] if len(matching) > 1 else None)
