"""A prompt with a section of every kind, and what tests do to it."""

from __future__ import annotations

from typing import Any

from ratchet.prompts import Change, Overrides, OverrideStore, PromptTemplate, TagState

NAME = "support/triage"


def template(name: str = NAME, **changes: Any) -> PromptTemplate:
    """The prompt of these tests; keyword arguments replace parts of it."""
    return PromptTemplate.model_validate(
        {
            "prompt": name,
            "sections": [
                {"path": "task", "body": "You sort support tickets.", "accepts_overrides": False},
                {"path": "rules/labels", "body": "Use a label of {{factors.labels}}."},
                {"path": "rules/tone", "body": "Be brief."},
                {
                    "kind": "tool",
                    "path": "tools/lookup",
                    "name": "lookup",
                    "description": "Finds an order.",
                    "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
                },
                {"kind": "example", "path": "examples", "examples": [{"input": "Where is it?", "output": "shipping"}]},
                {"path": "ticket", "body": "Ticket: {{input.ticket}}"},
            ],
            "parameters": {
                "labels": {"type": "order", "value": ["billing", "shipping", "bug"]},
                "risk": {"type": "number", "value": 0.5, "min": 0, "max": 1},
                "tries": {"type": "integer", "value": 3, "min": 1, "max": 9},
                "strict": {"type": "flag", "value": False},
                "style": {"type": "choice", "value": "plain", "choices": ["plain", "formal"]},
            },
            **changes,
        }
    )


def toned(text: str, of: PromptTemplate | None = None) -> Overrides:
    """Overrides that change one section."""
    return Overrides(sections={"rules/tone": (of or template()).override("rules/tone", text)})


async def moved(store: OverrideStore, text: str, expected: int | None, *, tag: str = "stable", **more: Any) -> TagState:
    """Move a tag to one changed section."""
    change = Change(**more.pop("change", {}))
    return await store.store(template(), toned(text), tag=tag, expected=expected, change=change, **more)
