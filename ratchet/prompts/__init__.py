"""Prompts: templates, override stores, and the renderer for production code.

Importing it pulls in neither Temporal nor a client of any store.
"""

from ratchet.prompts.addresses import open_store
from ratchet.prompts.compiled import Rendered, RenderedTool
from ratchet.prompts.followed import Prompt
from ratchet.prompts.migration import Migrated, migrate
from ratchet.prompts.modifications import Modification, apply_modifications
from ratchet.prompts.overrides import Change, Difference, Resolved, TagState
from ratchet.prompts.prompt_errors import (
    Damaged,
    FrozenChanged,
    InvalidName,
    InvalidOverride,
    InvalidTemplate,
    PromptError,
    StaleBase,
    StaleTag,
    StoreAway,
    StoreRefused,
    UnknownPrompt,
    UnknownTag,
    UnknownVersion,
    VersionTaken,
)
from ratchet.prompts.renderer import Counters, Renderer, aresolve, resolve
from ratchet.prompts.sections import Example, ExampleSection, TextSection, ToolSection
from ratchet.prompts.store import OverrideStore
from ratchet.prompts.template import Overrides, PromptTemplate, SectionOverride, effective_hash, prompt_part

__all__ = [
    "Change",
    "Counters",
    "Damaged",
    "Difference",
    "Example",
    "ExampleSection",
    "FrozenChanged",
    "InvalidName",
    "InvalidOverride",
    "InvalidTemplate",
    "Migrated",
    "Modification",
    "OverrideStore",
    "Overrides",
    "Prompt",
    "PromptError",
    "PromptTemplate",
    "Rendered",
    "RenderedTool",
    "Renderer",
    "Resolved",
    "SectionOverride",
    "StaleBase",
    "StaleTag",
    "StoreAway",
    "StoreRefused",
    "TagState",
    "TextSection",
    "ToolSection",
    "UnknownPrompt",
    "UnknownTag",
    "UnknownVersion",
    "VersionTaken",
    "apply_modifications",
    "aresolve",
    "effective_hash",
    "migrate",
    "open_store",
    "prompt_part",
    "resolve",
]
