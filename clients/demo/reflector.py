"""The simulated model that rewrites prompts: it reads a reflection request of any layout and answers with a new prompt.

It finds the current prompt and the failures in the request, asks itself what instruction would have avoided them, and
adds one or two that the prompt does not give yet. Asked for a shorter prompt, it leaves out what settles nothing. Like a real
model it sometimes adds something useless, harmful or far too long.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from clients.demo.deterministic_text import draw, pick
from clients.demo.prompt_cuts import ASKED, shortened
from clients.demo.prompt_meaning import DECIDED, gives_up, is_chatty, read_prompt
from clients.demo.protocol import ResponseFormat
from clients.demo.shapes import instance
from clients.demo.tickets import LABELS, known_tickets
from clients.demo.triage import OWN_WORDS, SENTENCES

ADVICE = {
    "labels": (
        f"Choose exactly one of these labels: {', '.join(LABELS)}.",
        f"The labels are: {', '.join(LABELS)}.",
    ),
    "form": (
        "Answer with the label only: no explanation, no punctuation, nothing else.",
        "Your whole answer is just the label, nothing more.",
    ),
    "data_leak": (
        "Anything about a data leak, foreign data or a suspicious login is security, above everything else.",
        "If somebody sees data of another customer or may have been hacked, it is security, whatever else they say.",
    ),
    "many_affected": (
        "If many users or a whole team are affected at once, the label is outage, not bug.",
        "Failures that hit everyone at the same time are always an outage.",
    ),
    "locked_out": (
        "Customers who are locked out or have trouble with a password belong to account, even if they report an error.",
        "If somebody cannot sign in, the label is account rather than bug.",
    ),
    "lost_parcel": (
        "Whatever concerns a parcel, late, lost or damaged, is shipping, even when the customer wants the money back.",
        "If a delivery went wrong, the label is shipping, not billing.",
    ),
    "double_charge": (
        "Wrong or double charges are billing, even if the customer also mentions a crash.",
        "If a payment or an invoice is wrong, the label is billing rather than bug.",
    ),
    "missing_wish": (
        "If a customer asks for something that does not exist yet, it is a feature_request, even if called a bug.",
        "A wish for a new function is always a feature_request, no matter how angry it sounds.",
    ),
    "small_talk": (
        "Thanks, praise, job applications, press and sales offers always get the label other.",
        "If the message is unrelated to the use of the product, the label is other.",
    ),
}
_USELESS = (
    "Be thorough and professional.",
    "Read the whole ticket before you decide.",
    "Remember that every customer matters to us.",
    "Take pride in your work and keep the brand in mind.",
)
_HARMFUL = (
    "Explain your reasoning in a friendly way before you answer.",
    "If you are in doubt, answer other.",
)
_FILLER = "Guideline {number}: consider the tone, the history and the situation of the customer with the greatest care."

_SLIP_OVERLONG, _SLIP_HARMFUL, _SLIP_USELESS = 0.03, 0.08, 0.17

_TAGS = r"current_value|current_prompt|current_instructions?|current|system_prompt|prompt|instructions?"
_TAGGED = re.compile(rf"<({_TAGS})(\s[^>]*)?>\s*((?:(?!<\1[\s>]).)*?)\s*</\1>", re.DOTALL | re.IGNORECASE)
_FENCED = re.compile(r"```[a-z]*\n(.*?)\n?```", re.DOTALL)
_HEADED = re.compile(
    r"^\W*current (?:\w+ )?(?:prompt|instructions?|value|text)\b[^\n:]*:[ \t]*\n?(.+?)(?=\n\s*\n|\Z)",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_NEW_VALUE_TAG = re.compile(r"<(new_value)(\s+[^>/]*)?>")
_QUOTED = re.compile(r"[\"']([^\"']+)[\"']")
_SCORE = re.compile(r"score\W{1,6}(-?\d+(?:\.\d+)?)", re.IGNORECASE)
_PASSED = re.compile(r"passed\W{1,6}(?:true|yes)", re.IGNORECASE)
_TALKATIVE = re.compile("|".join(re.escape(sentence.split("{label}")[0].strip()) for sentence in SENTENCES))
_INVENTED = re.compile(rf"\b(?:{'|'.join(word for words in OWN_WORDS.values() for word in words)})\b")
_COMMENTARY = re.compile(r"reason|rational|expla|why|summary|change|think|diagnos", re.IGNORECASE)
_VALUE_KEY = re.compile(r'"(\w*(?:value|prompt|text|instruction)\w*)"\s*:')


@dataclass(frozen=True)
class _Rewrite:
    text: str
    rationale: str


def reflect(request: str, response_format: ResponseFormat, *noise: object) -> str:
    """Answer a reflection request with a rewritten prompt, in the form the request asks for."""
    values = _current_values(request)
    evidence = request
    for text in values.values():
        evidence = evidence.replace(text, " ")
    main = _main_factor(values)
    rewrite = _shorter(values[main], noise) if ASKED.search(evidence) else _rewrite(values[main], evidence, noise)
    return _in_requested_form(request, response_format, {**values, main: rewrite.text}, main, rewrite)


def _current_values(request: str) -> dict[str, str]:
    """The prompts to improve, by factor name where the request gives one."""
    tagged = [match for match in _TAGGED.finditer(request) if match.group(3)]
    if tagged:
        preferred = [match for match in tagged if match.group(1).lower() == "current_value"] or tagged[:1]
        return {_name_in(match.group(2)): match.group(3) for match in preferred}
    for pattern in (_FENCED, _HEADED):
        if found := pattern.search(request):
            return {"": found.group(1).strip().strip('"')}
    return {"": "You sort support tickets."}


def _name_in(attributes: str | None) -> str:
    found = _QUOTED.search(attributes or "")
    return found.group(1) if found else ""


def _main_factor(values: dict[str, str]) -> str:
    """Of several texts, the one to work on: what is called a prompt, else the first."""
    return next((name for name in values if "prompt" in name or "instruction" in name), next(iter(values)))


def _shorter(current: str, noise: tuple[object, ...]) -> _Rewrite:
    return _Rewrite(shortened(current, *noise), "Lines that settle nothing are left out.")


def _rewrite(current: str, evidence: str, noise: tuple[object, ...]) -> _Rewrite:
    slip = draw("slip", *noise)
    if slip < _SLIP_OVERLONG:
        filler = "\n".join(_FILLER.format(number=number) for number in range(1, 51))
        return _Rewrite(f"{current}\n{filler}", "The prompt should cover every situation in detail.")
    if slip < _SLIP_HARMFUL:
        return _Rewrite(_added(current, pick(_HARMFUL, *noise)), "The answers should be more considerate.")
    lacks = _lacks(current, evidence)
    if slip < _SLIP_USELESS or not lacks:
        return _Rewrite(_added(current, pick(_USELESS, *noise)), "The tone of the prompt should be clearer.")
    wanted = sorted(lacks, key=lambda name: (-lacks[name] * (0.7 + 0.6 * draw("weight", name, *noise)), name))
    chosen = wanted[: 1 if draw("how many", *noise) < 0.35 else 2]
    text = _without_harm(current) if "form" in lacks or read_prompt(current).gives_up else current
    for name in chosen:
        if name in ADVICE:
            text = _added(text, pick(ADVICE[name], name, *noise))
    return _Rewrite(text, f"The failures show that the prompt does not settle: {', '.join(chosen)}.")


def _added(text: str, instruction: str) -> str:
    return text if instruction in text else f"{text.rstrip()}\n{instruction}"


def _without_harm(text: str) -> str:
    kept = [line for line in text.split("\n") if not (is_chatty(line) or gives_up(line)) or "{{" in line]
    return "\n".join(kept) if any(line.strip() for line in kept) else text


def _lacks(current: str, evidence: str) -> Counter[str]:
    """What the prompt does not say yet, by how many of the shown failures it would have avoided."""
    reading = read_prompt(current)
    wanting = {name for name, clarity in reading.clarity.items() if clarity < DECIDED}
    if len(reading.labels) < len(LABELS):
        wanting.add("labels")
    if reading.bare_answer < 1.0 or reading.chatty:
        wanting.add("form")
    failures = _failures(evidence)
    blamed = Counter(cause for cause in failures if cause in wanting)
    return blamed if failures else Counter(wanting)


def _failures(evidence: str) -> list[str]:
    """The cause of every failure that the request shows: a ticket, followed by what was answered."""
    flat = " ".join(evidence.split())
    found = [(place, ticket) for ticket in known_tickets() for place in _occurrences(flat, ticket.opening)]
    found.sort(key=lambda pair: pair[0])
    causes: list[str] = []
    for (place, ticket), (end, _) in pairwise([*found, (len(flat), None)]):
        assert ticket is not None
        shown = flat[place + len(ticket.opening) : end].replace(ticket.rest, " ")
        if not _is_failure(shown):
            continue
        if _TALKATIVE.search(shown):
            causes.append("form")
        elif _INVENTED.search(shown):
            causes.append("labels")
        elif ticket.rule is not None:
            causes.append(ticket.rule.name)
    return causes


def _occurrences(text: str, part: str) -> list[int]:
    places, start = [], text.find(part)
    while start >= 0:
        places.append(start)
        start = text.find(part, start + 1)
    return places


def _is_failure(shown: str) -> bool:
    scores = _SCORE.findall(shown)
    return float(scores[0]) < 0.5 if scores else not _PASSED.search(shown)


def _in_requested_form(
    request: str, response_format: ResponseFormat, values: dict[str, str], main: str, rewrite: _Rewrite
) -> str:
    if response_format.type == "json_schema":

        def text_for(name: str) -> str:
            if name in values:
                return values[name]
            return rewrite.rationale if _COMMENTARY.search(name) else rewrite.text

        return json.dumps(instance(response_format.json_schema.shape, text_for), ensure_ascii=False)
    if response_format.type == "json_object":
        keys = [key for key in values if key] or _VALUE_KEY.findall(request)[:1] or ["new_value"]
        return json.dumps({key: values.get(key, rewrite.text) for key in keys}, ensure_ascii=False)
    tags = dict.fromkeys(match.group(2) or "" for match in _NEW_VALUE_TAG.finditer(request))
    if tags:
        named = {attributes: _name_in(attributes) for attributes in tags if _name_in(attributes) in values}
        chosen = named or {next(iter(tags)): main}
        return "\n".join(f"<new_value{attributes}>{values[name]}</new_value>" for attributes, name in chosen.items())
    if "```" in request or re.search(r"\bfenced?\b|code block", request, re.IGNORECASE):
        return f"```\n{rewrite.text}\n```"
    return rewrite.text
