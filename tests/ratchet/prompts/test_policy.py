"""A structured prompt: frozen task, rules and skills, a policy of typed parameters, and the mutations that led to it."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet.prompts import InvalidOverride, InvalidTemplate, Overrides, PromptTemplate
from ratchet.prompts.policy import policy_template, with_recent_mutations

PARAMETERS: dict[str, Any] = {
    "health_threshold": {"type": "number", "value": 0.3, "min": 0, "max": 1},
    "max_combat_attempts": {"type": "integer", "value": 3, "min": 1, "max": 50},
    "skill_priority": {"type": "order", "value": ["explore", "flee"]},
    "mood": {"type": "choice", "value": "calm", "choices": ["calm", "bold"]},
    "careful": {"type": "flag", "value": True},
}
TEXT = """\
TASK DEFINITION
You play NetHack.

RULES AND CONSTRAINTS
- Never waste a potion
- Explore systematically

AVAILABLE SKILLS
- explore: Look around
- flee: Run

DECISION POLICY PARAMETERS
{
  "health_threshold": 0.3,
  "max_combat_attempts": 3,
  "skill_priority": ["explore","flee"],
  "mood": "calm",
  "careful": true
}"""


def _policy(**parts: Any) -> PromptTemplate:
    given: dict[str, Any] = {
        "task": "You play NetHack.\n",
        "rules": ["Never waste a potion", "Explore systematically"],
        "skills": {"explore": "Look around", "flee": "Run"},
        "parameters": PARAMETERS,
    }
    return policy_template("games/nethack", **{**given, **parts})


def test_it_reads_as_the_documents_say() -> None:
    policy = _policy()
    assert policy.text(policy.configuration()) == TEXT


def test_what_mutates_is_what_the_text_shows_and_nothing_else_may_change() -> None:
    policy = _policy()
    mutated = Overrides(parameters={"health_threshold": 0.4, "skill_priority": ["flee", "explore"]})
    shown = policy.text(policy.configuration(mutated))
    assert shown == TEXT.replace("0.3,", "0.4,").replace('["explore","flee"]', '["flee","explore"]')
    with pytest.raises(InvalidOverride, match="section 'rules' is frozen"):
        policy.check(Overrides(sections={"rules": policy.override("rules", "Cheat.")}))


def test_the_last_five_mutations_can_be_told() -> None:
    told = with_recent_mutations(TEXT, [f"mutation {number}" for number in range(7)])
    assert told == f"{TEXT}\n\nRECENT MUTATIONS\n" + "\n".join(f"- mutation {number}" for number in range(2, 7))
    assert with_recent_mutations(TEXT, []) == TEXT
    assert with_recent_mutations("", ["one\nRULES"]).endswith("- one RULES")


def test_the_order_of_skills_orders_all_of_them() -> None:
    with pytest.raises(
        InvalidTemplate, match=r"parameters\.skill_priority orders explore, flee, but the skills are explore, flee, eat"
    ):
        _policy(skills={"explore": "Look around", "flee": "Run", "eat": "Eat"})


def test_a_parameter_out_of_its_range_is_refused_by_name() -> None:
    with pytest.raises(InvalidTemplate, match=r"parameters\.health_threshold"):
        _policy(parameters={"health_threshold": {"type": "number", "value": 3, "min": 0, "max": 1}})
