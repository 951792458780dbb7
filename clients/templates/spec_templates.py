"""The specs that people begin with: which there are, what each improves, and what it needs beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from clients.own_modules import own_module

SAMPLES: Final = "tickets.jsonl"


@dataclass(frozen=True)
class SpecTemplate:
    """A spec to begin with."""

    files: tuple[str, ...]
    """Its spec first; each by its path among the templates."""
    improves: str
    needs: str | None = None
    """What must lie where the workers are, for those who have the spec alone."""


TEMPLATES: Final[Mapping[str, SpecTemplate]] = {
    "chat": SpecTemplate(("chat/spec.yaml", SAMPLES), "a chat model's prompt"),
    "chain": SpecTemplate(("chain/spec.yaml", SAMPLES), "a chain of prompts"),
    "prompt": SpecTemplate(
        ("prompt/spec.yaml", "prompt/triage.yaml", SAMPLES),
        "a prompt of sections in a file of its own",
        "a prompt: name one that is stored (prompt: NAME), or put triage.yaml into the workers' RATCHET_DATA_DIR",
    ),
    "python": SpecTemplate(
        ("python/spec.yaml", "python/agent.py", SAMPLES),
        "a Python function",
        "its module, agent.py, where the workers find plug-ins (RATCHET_PLUGIN_PATH, RATCHET_PLUGINS)",
    ),
}
_PATH: Final = re.compile(rf"^( *)path: {re.escape(SAMPLES)}\n", re.M)
_FOR_FILES: Final = re.compile(r"\A(?:#.*\n)+")
_ITEMS_OF_A_FILE: Final = "# One JSON object a line: "


def template_text(path: str) -> str:
    """One file of the templates."""
    return files(own_module("clients.templates")).joinpath(path).read_text("utf-8")


def whole_spec(name: str) -> str:
    """A template's spec with its samples inside, for places that have no files."""
    text = _FOR_FILES.sub("# A spec: what to improve, how to measure it, and when to stop.\n", template_text(_spec_of(name)))
    samples = template_text(SAMPLES).splitlines()
    text = text.replace(_ITEMS_OF_A_FILE, "# Samples, or a stored dataset (name: …) in their place: ")
    return _PATH.sub(lambda found: "\n".join([f"{found[1]}items:", *(f"{found[1]}  - {line}" for line in samples), ""]), text)


def _spec_of(name: str) -> str:
    return TEMPLATES[name].files[0]
