"""How a simulated model understands a system prompt: by what the prompt means, not by a magic sentence.

The prompt is cut into clauses. A clause can name labels, demand a form of answer, or settle a kind of doubtful ticket:
it mentions the kind and the right label, and says which of several labels wins. Paraphrases count, a rule that says the
contrary does not.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from clients.demo.tickets import LABELS, RULES, TicketRule

DEFINED = 0.5
DECIDED = 1.0


@dataclass(frozen=True)
class PromptMeaning:
    """What a prompt tells the model."""

    labels: frozenset[str]
    """Labels that the prompt names."""
    clarity: dict[str, float]
    """For every rule: 0 not mentioned, DEFINED by a description of the label, DECIDED if it says which label wins."""
    bare_answer: float
    """0 nothing said about the form, 0.5 one label is asked for, 1 nothing but the label is allowed."""
    chatty: bool
    """The prompt asks for explanations or courtesies, which the answer will then contain."""
    gives_up: bool
    """The prompt sends doubtful tickets to `other`."""
    length: int


_CLAUSE_END = re.compile(r"[\n;]+|(?<=[.!?])\s+")
_REFERS_BACK = re.compile(r"(?:that|this|these|those|it|they|then|such|choose|use)\b", re.IGNORECASE)
_ARROW = re.compile(r"→|->|=>")
_LABEL = {
    "billing": r"\bbilling\b",
    "bug": r"\bbugs?\b",
    "outage": r"\boutages?\b",
    "account": r"\baccounts?\b",
    "feature_request": r"\bfeature[ _-]requests?\b",
    "security": r"\bsecurity\b",
    "shipping": r"\bshipping\b",
    "other": r"\bother\b(?!\s+(?:words?|than|tickets?|labels?|text|categor|customers?|people|users?|teams?|compan))",
}
_LABELS = {label: re.compile(pattern, re.IGNORECASE) for label, pattern in _LABEL.items()}
_ANY_LABEL = "|".join(_LABEL.values())
_CONCESSION = re.compile(
    r"(?:even (?:if|when|though|while)|no matter|regardless of|despite|whatever (?:else|it|the|they))[^,.;:→]*", re.IGNORECASE
)
_OVERRULED = re.compile(
    r"(?:\bnot|\bnever|\brather than|\binstead of|\bover|\babove|\bbefore|\bbeats|\bthan)\s+(?:as\s+|an?\s+|the\s+)?"
    rf"[\"'`*]*(?:{_ANY_LABEL})",
    re.IGNORECASE,
)
_DECISIVE = re.compile(
    r"\beven\b|\bover\b|rather|instead|\bnot\b|regardless|no matter|whatever|always|\babove\b|before|priorit|preced"
    r"|trump|outrank|overrid|\bwins?\b|\bfirst\b|despite|\bif\b|\bwhen(?:ever)?\b|\bany(?:thing)?\b|\bevery(?:thing)?\b",
    re.IGNORECASE,
)
_ANSWER = re.compile(r"label|categor|word|answer|output|respon|repl|return|name|write|print|class", re.IGNORECASE)
_BARE = re.compile(
    r"\bonly\b|\bjust\b|nothing (?:else|but|more)|\bsolely\b|\balone\b|\bbare\b"
    r"|(?:\bno|without|don't|do not|never|omit|skip)\s+(?:\w+\s+){0,3}"
    r"(?:expla|other text|extra|preamble|comment|sentence|reason|justif)",
    re.IGNORECASE,
)
_ONE = re.compile(r"exactly one|one of|single|one word|one label|verbatim|exact(?:ly)?\b", re.IGNORECASE)
_DENIED = re.compile(r"(?:\bno\b|\bnot\b|\bnever\b|without|don't|avoid|omit|skip)[^.;]*", re.IGNORECASE)
_CHATTY = re.compile(
    r"expla(?:in|nation)|your reason|reasoning|justif|step[- ]by[- ]step|think (?:aloud|out loud)|friendly|apologi[sz]e"
    r"|empath|greet|polite|thank the customer|full sentence",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"in doubt|\bunsure|not (?:\w+ )?(?:sure|certain)|uncertain|unclear|ambiguous|cannot (?:tell|decide)", re.IGNORECASE
)


def is_chatty(clause: str) -> bool:
    """Whether the clause asks for more than a label."""
    return bool(_CHATTY.search(_DENIED.sub(" ", clause)))


def gives_up(clause: str) -> bool:
    """Whether the clause sends every doubtful ticket to `other`."""
    return bool(_DOUBT.search(clause) and _LABELS["other"].search(clause))


@lru_cache(maxsize=512)
def read_prompt(text: str) -> PromptMeaning:
    """Understand a system prompt. The same text is read once."""
    clauses = [clause for part in _joined(_CLAUSE_END.split(text)) for clause in _parts(part)]
    decisions = [clause for clause in clauses if len(_named(clause)) < 4]
    return PromptMeaning(
        labels=frozenset(_named(text)),
        clarity={name: max((_clarity(rule, clause) for clause in decisions), default=0.0) for name, rule in RULES.items()},
        bare_answer=max((_bareness(clause) for clause in clauses), default=0.0),
        chatty=any(is_chatty(clause) for clause in clauses),
        gives_up=any(gives_up(clause) for clause in clauses),
        length=len(text),
    )


def _joined(clauses: list[str]) -> list[str]:
    """`Charged twice? That is billing.` is one statement."""
    joined: list[str] = []
    for clause in filter(None, clauses):
        if joined and _REFERS_BACK.match(clause) and not _named(joined[-1]):
            joined[-1] = f"{joined[-1]} {clause}"
        else:
            joined.append(clause)
    return joined


def _parts(clause: str) -> list[str]:
    """`a → x, b → y` says two things; every other clause says one."""
    return clause.split(",") if len(_ARROW.findall(clause)) > 1 else [clause]


def _named(text: str) -> list[str]:
    return [label for label in LABELS if _LABELS[label].search(text)]


def _clarity(rule: TicketRule, clause: str) -> float:
    stated = _OVERRULED.sub(" ", _CONCESSION.sub(" ", clause))
    concept, label = rule.concept.search(stated), _LABELS[rule.label].search(stated)
    if concept is None or label is None:
        return 0.0
    return DECIDED if concept.start() < label.start() or _DECISIVE.search(clause) else DEFINED


def _bareness(clause: str) -> float:
    if not _ANSWER.search(clause):
        return 0.0
    if _BARE.search(clause):
        return 1.0
    return 0.5 if _ONE.search(clause) else 0.0
