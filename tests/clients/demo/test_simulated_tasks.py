"""What the simulated models make of prompts: tickets are sorted as well as the prompt says, and reflection improves it."""

import asyncio
import json
from importlib.resources import files
from itertools import pairwise
from typing import Any

import pytest
import yaml
from openai import AsyncOpenAI

from clients.demo import SimulatedModel
from clients.demo.models import REFLECTOR, TRIAGE_SMALL
from clients.demo.prompt_meaning import DECIDED, DEFINED, read_prompt
from clients.demo.reflector import ADVICE
from clients.demo.tickets import LABELS, RULES, known_tickets
from tests.support.model_client import content, conversation
from workflows.model.spec.request import OptimizationRequest

BASELINE = "You are a support assistant. Sort the ticket."
IMPROVEMENTS = (
    "Labels: billing, bug, outage, account, feature_request, security, shipping, other.",
    "Answer with the label only, nothing else.",
    "A data leak or a hacked profile is security above everything else.",
    "If many users are affected at once, it is an outage, not a bug.",
    "Locked out -> account",
    "A late or lost parcel is shipping, even if the customer wants a refund.",
    "Double charge → billing even if they mention that the app crashed.",
    "When the customer asks for something that does not exist yet, choose feature_request rather than bug.",
    "Thanks, job applications, press and sales offers go to other.",
)
IDEAL = "\n".join((BASELINE, *IMPROVEMENTS))


async def accuracy(client: AsyncOpenAI, prompt: str, *, seed: int = 1, temperature: float = 0.7) -> float:
    async def is_right(ticket: Any) -> bool:
        messages = conversation(ticket.text, prompt)
        answer = await content(client, "", model=TRIAGE_SMALL, messages=messages, seed=seed, temperature=temperature)
        return answer == str(ticket.label)

    right = await asyncio.gather(*(is_right(ticket) for ticket in known_tickets()))
    return sum(right) / len(right)


class TestTriage:
    async def test_what_the_prompt_says_decides_how_well_tickets_are_sorted(self, client: AsyncOpenAI) -> None:
        prompt, reached = BASELINE, [await accuracy(client, BASELINE)]
        for improvement in IMPROVEMENTS:
            prompt = f"{prompt}\n{improvement}"
            reached.append(await accuracy(client, prompt))
        assert 0.3 <= reached[0] < 0.6
        assert reached[-1] > 0.9
        assert all(later > earlier - 0.03 for earlier, later in pairwise(reached)), reached
        assert await accuracy(client, IDEAL + "\nExplain your reasoning in a friendly way first.") < 0.75
        assert await accuracy(client, IDEAL + "\n" + "Consider the situation with great care. " * 200) < reached[-1]

    async def test_a_seeded_request_is_always_answered_alike_and_an_unseeded_one_is_not(
        self, server: SimulatedModel, client: AsyncOpenAI
    ) -> None:
        text = next(ticket.text for ticket in known_tickets() if ticket.rule)
        asked = {"model": TRIAGE_SMALL, "messages": conversation(text, BASELINE)}
        assert len({await content(client, "", seed=5, **asked) for _ in range(5)}) == 1
        first = [await content(client, "", **asked) for _ in range(12)]
        assert len(set(first)) > 1
        server.reset()
        assert [await content(client, "", **asked) for _ in range(12)] == first

    @pytest.mark.parametrize(
        ("rule", "clarity", "text"),
        [
            ("double_charge", DECIDED, "Somebody who was charged twice? That is `billing`."),
            ("double_charge", DECIDED, "Classify as billing whenever an invoice is wrong."),
            ("double_charge", DEFINED, "- billing: invoices, payments and subscriptions"),
            ("double_charge", 0.0, "Wrong payments are a bug, not billing."),
            ("double_charge", 0.0, "Labels: billing, bug, outage, account, payment, shipping"),
            ("locked_out", DECIDED, "Cannot log in, forgot the password => account"),
            ("locked_out", DECIDED, "Prefer account over bug if the customer cannot sign in."),
            ("data_leak", DECIDED, "Security trumps everything when there is any sign of a breach."),
            ("many_affected", DECIDED, "Whenever the whole team is affected, say outage."),
            ("lost_parcel", DECIDED, "A refund for a lost parcel is shipping instead of billing."),
            ("missing_wish", DECIDED, "Complaints about a missing feature are a feature request, never a bug"),
            ("small_talk", DECIDED, "Anything unrelated to our product, such as job offers: use other."),
        ],
    )
    def test_rules_are_understood_in_other_words(self, rule: str, clarity: float, text: str) -> None:
        assert read_prompt(text).clarity[rule] == clarity

    def test_the_reflectors_own_advice_is_understood(self) -> None:
        for name, phrasings in ADVICE.items():
            for text in phrasings:
                reading = read_prompt(text)
                understood = {
                    "labels": reading.labels == set(LABELS),
                    "form": reading.bare_answer == 1.0 and not reading.chatty,
                }
                assert understood.get(name, name in RULES and reading.clarity[name] == DECIDED), text

    @pytest.mark.parametrize(
        "layout",
        [
            lambda text: conversation(text, IDEAL),
            lambda text: [{"role": "user", "content": f"{IDEAL}\n\nTicket: {text}"}],
            lambda text: [
                {"role": "developer", "content": IDEAL},
                {"role": "user", "content": [{"type": "text", "text": text}]},
            ],
        ],
    )
    async def test_prompt_and_ticket_are_found_in_any_layout(self, client: AsyncOpenAI, layout: Any) -> None:
        asked = [(ticket, layout(ticket.text)) for ticket in known_tickets()[:40]]
        answers = await asyncio.gather(
            *(content(client, "", model=TRIAGE_SMALL, messages=messages, seed=1) for _, messages in asked)
        )
        assert sum(answer == ticket.label for answer, (ticket, _) in zip(answers, asked, strict=True)) >= 35

    async def test_a_ticket_nobody_wrote_down_is_guessed_from_its_words(self, client: AsyncOpenAI) -> None:
        messages = conversation("The courier has lost my shipment.", IDEAL)
        assert await content(client, "", model=TRIAGE_SMALL, messages=messages, seed=2) == "shipping"


def reflection(prompt: str, records: list[tuple[str, str, str]]) -> str:
    shown = "\n".join(
        f"Input: {ticket}\nOutput: {output}\nExpected: {expected}\nScore: {float(output == expected)}\n"
        for ticket, output, expected in records
    )
    return (
        "Improve the text between the <current_value> tags.\n"
        f"<current_value>\n{prompt}\n</current_value>\n\n{shown}\n"
        "Answer with the new text only between <new_value> tags."
    )


class TestReflector:
    async def test_reflection_leads_from_the_baseline_to_a_good_prompt(self, client: AsyncOpenAI) -> None:
        best, best_score = BASELINE, await accuracy(client, BASELINE)
        tickets = known_tickets()
        for round_index in range(8):
            shown = tickets[15 * round_index : 15 * round_index + 15]
            answers = await asyncio.gather(
                *(content(client, "", model=TRIAGE_SMALL, messages=conversation(ticket.text, best), seed=1) for ticket in shown)
            )
            records = [(one.text, answer, one.label) for one, answer in zip(shown, answers, strict=True)]
            text = await content(client, reflection(best, records), model=REFLECTOR, seed=round_index)
            assert text.startswith("<new_value>")
            candidate = text.removeprefix("<new_value>").removesuffix("</new_value>").strip()
            score = await accuracy(client, candidate)
            if score > best_score:
                best, best_score = candidate, score
        assert best_score > 0.8, best

    async def test_it_advises_against_the_failures_it_sees(self, client: AsyncOpenAI) -> None:
        prompt = "\n".join((BASELINE, *IMPROVEMENTS[:2]))
        locked_out = [ticket for ticket in known_tickets() if ticket.rule and ticket.rule.name == "locked_out"]
        right = [ticket for ticket in known_tickets() if ticket.rule and ticket.rule.name == "lost_parcel"]
        records = [(ticket.text, "bug", ticket.label) for ticket in locked_out]
        records += [(ticket.text, ticket.label, ticket.label) for ticket in right]
        advised = [
            read_prompt(await content(client, reflection(prompt, records), model=REFLECTOR, seed=seed)).clarity
            for seed in range(20)
        ]
        assert sum(clarity["locked_out"] == DECIDED for clarity in advised) > 10
        assert not any(clarity["lost_parcel"] for clarity in advised)

    async def test_it_keeps_what_the_prompt_says_and_its_placeholders(self, client: AsyncOpenAI) -> None:
        prompt = "Sort {{input.ticket}} for us.\nExplain your reasoning."
        for seed in range(10):
            text = await content(client, reflection(prompt, []), model=REFLECTOR, seed=seed)
            assert "Sort {{input.ticket}} for us." in text

    async def test_it_answers_in_the_form_that_is_asked_for(self, client: AsyncOpenAI) -> None:
        request = f"Current prompt:\n{BASELINE}\n\nRewrite it."
        schema = {
            "type": "object",
            "properties": {"reasoning": {"type": "string"}, "system_prompt": {"type": "string"}},
            "required": ["reasoning", "system_prompt"],
        }
        asked = {"type": "json_schema", "json_schema": {"name": "rewrite", "schema": schema}}
        plain = await content(client, request, model=REFLECTOR, seed=1)
        assert plain.startswith(BASELINE)
        assert plain != BASELINE
        fenced = await content(client, f"{request} Put it into a fenced block.", model=REFLECTOR, seed=1)
        assert fenced.startswith(f"```\n{BASELINE}")
        answer = json.loads(await content(client, request, model=REFLECTOR, seed=1, response_format=asked))
        assert answer["system_prompt"].startswith(BASELINE)
        assert answer["reasoning"] != answer["system_prompt"]

    async def test_of_several_factors_it_rewrites_the_prompt_and_returns_the_others(self, client: AsyncOpenAI) -> None:
        request = (
            '<current_value name="greeting">Hello.</current_value><current_value name="system_prompt">Sort.</current_value>'
            ' Answer with <new_value name="greeting"> and <new_value name="system_prompt">.'
        )
        text = await content(client, request, model=REFLECTOR, seed=1)
        assert '<new_value name="greeting">Hello.</new_value>' in text
        assert '<new_value name="system_prompt">Sort.\n' in text


class TestExample:
    def test_the_packaged_example_is_complete(self) -> None:
        example = files("clients.demo") / "example"
        spec = yaml.safe_load((example / "spec.yaml").read_text("utf-8"))
        rows = [json.loads(line) for line in (example / spec["dataset"]["path"]).read_text("utf-8").splitlines()]
        request = OptimizationRequest.model_validate(spec)
        assert set(request.prices) == {TRIAGE_SMALL, REFLECTOR}
        assert spec["configuration"]["system_prompt"]["value"] == BASELINE
        assert sum(spec["dataset"]["splits"].values()) == pytest.approx(1.0)
        assert len(rows) == len({row["id"] for row in rows}) == 120
        assert {row["expected"] for row in rows} == set(LABELS)
        assert [ticket.label for ticket in known_tickets()] == [row["expected"] for row in rows]
        assert len({ticket.opening for ticket in known_tickets()}) == 120
