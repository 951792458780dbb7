"""The simulated model that labels support tickets, as well as its system prompt lets it.

Three things can go wrong with an answer, and a better prompt makes each of them rarer: the model misreads a doubtful
ticket, it invents a name for the label, or it wraps the label into a sentence that an exact scorer does not accept. How
often is a probability; whether it happens this time is a hash of who asks what, so a seeded request is always answered
alike.
"""

from dataclasses import dataclass

from clients.demo.deterministic_text import digest, draw, pick
from clients.demo.prompt_meaning import PromptMeaning, read_prompt
from clients.demo.tickets import LABELS, SupportTicket, find_ticket


@dataclass(frozen=True)
class Skill:
    """How well a model does with little help: probabilities of reading a ticket right."""

    plain: float = 0.985
    unaided: float = 0.25
    """A doubtful ticket about which the prompt says nothing."""
    defined: float = 0.6
    """A doubtful ticket whose label the prompt defines, without saying which label wins."""
    decided: float = 0.97
    """A doubtful ticket that the prompt settles."""
    bare: tuple[float, float, float] = (0.8, 0.9, 0.997)
    """Answering with nothing but a label: unasked, asked for one label, told to add nothing."""
    vocabulary: float = 0.82
    """Hitting the name of a label that the prompt does not name."""


SMALL = Skill()
LARGE = Skill(plain=0.99, unaided=0.5, defined=0.8, decided=0.985, bare=(0.88, 0.96, 0.999), vocabulary=0.9)

_CHATTY_FACTOR = 0.55
_COMFORTABLE_LENGTH = 1500
_COST_PER_CHARACTER = 0.015 / 1000
OWN_WORDS = {
    "billing": ("payments", "finance"),
    "bug": ("technical issue", "defect report"),
    "outage": ("service disruption", "incident"),
    "account": ("user management", "login help"),
    "feature_request": ("suggestion", "product idea"),
    "security": ("privacy matter", "abuse"),
    "shipping": ("logistics", "order status"),
    "other": ("general enquiry", "miscellaneous"),
}
SENTENCES = (
    "I think this is about {label}.",
    "This one looks like a matter of {label} to me.",
    "My assessment: {label}, with high confidence.",
    "Happy to help! I would file it under {label}.",
)


@dataclass(frozen=True)
class Occasion:
    """Everything that an answer's noise may depend on."""

    world_seed: int
    model: str
    temperature: float
    replicate: str
    """The request's `seed`, or how often this very request was made before."""


def answer_ticket(skill: Skill, instructions: str, user_text: str, occasion: Occasion, *, structured: bool = False) -> str:
    """The model's answer to a user message. `structured` answers carry the label in JSON, so they are never chatty."""
    reading = read_prompt(instructions)
    ticket = find_ticket(user_text)
    if ticket is None and not reading.labels:
        return f"This is a simulated answer to: {user_text[:200]}"
    ticket = ticket or SupportTicket(user_text, "other", None)
    noise = _Noise(occasion, digest(instructions), ticket.text)

    understood = noise.happens("reading", _chance_to_understand(skill, reading, ticket, occasion.temperature))
    label = ticket.label if understood else _mistake(reading, ticket, noise)
    named = label in reading.labels or noise.happens("naming", skill.vocabulary)
    spoken = label if named else pick(OWN_WORDS[label], noise.fresh_key, "word")
    if structured or noise.happens("form", _chance_to_be_bare(skill, reading)):
        return spoken
    return pick(SENTENCES, noise.fresh_key, "sentence").format(label=spoken)


class _Noise:
    """Draws of one answer. Part of a ticket's difficulty is its own, so it stays when only the prompt changes."""

    def __init__(self, occasion: Occasion, prompt_key: str, ticket: str) -> None:
        bucket = round(occasion.temperature * 10)
        self._lasting_share = 0.6 - 0.3 * min(occasion.temperature, 1.0)
        self._lasting_key = f"{occasion.world_seed}|{occasion.model}|{ticket}"
        self.fresh_key = f"{self._lasting_key}|{prompt_key}|{bucket}|{occasion.replicate}"

    def happens(self, what: str, chance: float) -> bool:
        lasting = draw(self.fresh_key, what, "share") < self._lasting_share
        return draw(self._lasting_key if lasting else self.fresh_key, what) < chance


def _chance_to_understand(skill: Skill, reading: PromptMeaning, ticket: SupportTicket, temperature: float) -> float:
    if ticket.rule is None:
        chance = skill.plain - (0.03 if reading.gives_up else 0.0)
    else:
        clarity = reading.clarity[ticket.rule.name]
        chance = skill.decided if clarity == 1.0 else skill.defined if clarity else skill.unaided
        chance -= 0.15 if reading.gives_up else 0.0
    overlong = max(0, reading.length - _COMFORTABLE_LENGTH) * _COST_PER_CHARACTER
    return chance - min(overlong, 0.25) - 0.04 * max(0.0, temperature - 0.7)


def _chance_to_be_bare(skill: Skill, reading: PromptMeaning) -> float:
    return skill.bare[round(reading.bare_answer * 2)] * (_CHATTY_FACTOR if reading.chatty else 1.0)


def _mistake(reading: PromptMeaning, ticket: SupportTicket, noise: _Noise) -> str:
    if reading.gives_up and ticket.label != "other":
        return "other"
    lures = ticket.rule.lures if ticket.rule else tuple(label for label in LABELS if label != ticket.label)
    return pick(lures, noise.fresh_key, "lure")
