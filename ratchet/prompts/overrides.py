"""What override stores keep: the states of tags, each made by one change, and what a backend must be able to do.

A tag has a revision, which only grows, over deletion and return as well. Every change of a tag is one compare-and-swap from
one revision to the next, and every state a tag ever had stays in its history.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Protocol, runtime_checkable
from uuid import uuid4

from pydantic import AwareDatetime, Field, JsonValue

from ratchet._frozen import Payload
from ratchet._values import CanonicalMapping, ShortText, Text
from ratchet.prompts.names import ParameterName, PromptName, TagName, Version
from ratchet.prompts.template import Descriptor, Overrides, PromptTemplate

if TYPE_CHECKING:
    import asyncio
    from contextlib import AbstractAsyncContextManager

    from ratchet.prompts.compiled import Rendered


class Change(Payload):
    """Who changed a tag, why, and on what evidence."""

    id: Annotated[str, Field(min_length=1, max_length=300)] = Field(default_factory=lambda: uuid4().hex)
    """Names this very change: asked for again, it is answered with the state it made, and changes nothing."""
    action: ParameterName = "store"
    """What kind of change it is: seed, store, copy, delete, release, rollback, …"""
    by: ShortText = ""
    why: Text = ""
    evidence: CanonicalMapping = Field(default_factory=dict)
    """What there is: the run, its scores, a verdict."""
    at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))


class TagState(Payload):
    """A tag at one revision."""

    name: PromptName
    tag: TagName
    revision: Annotated[int, Field(ge=1)]
    template_hash: str
    """The template that the overrides are for."""
    frozen_hash: str
    """Of the template's frozen parts."""
    config_hash: str
    """Of the full configuration in force: what was validated is what is shipped."""
    overrides: Overrides = Field(default_factory=Overrides)
    version: Version | None = None
    """The immutable version that this is, if it is one."""
    parent: Version | None = None
    """The version that it was made from."""
    temporary: bool = False
    """Made for a run, and of no use without it."""
    owner: ShortText | None = None
    """The run that a temporary tag was made for."""
    change: Change
    deleted: bool = False
    """Whether this change removed the tag; what it held stays readable in the history."""

    def holds_the_same(self, other: TagState) -> bool:
        """Whether two states put the same prompt in force."""
        return self.template_hash == other.template_hash and self.config_hash == other.config_hash


@dataclass(frozen=True, slots=True)
class Resolved:
    """A prompt as a tag or a version puts it in force."""

    template: PromptTemplate
    state: TagState
    configuration: dict[str, JsonValue]

    @property
    def hash(self) -> str:
        """The hash of the configuration in force."""
        return self.state.config_hash

    @property
    def descriptor(self) -> Descriptor:
        """What is in force, section by section."""
        return self.template.descriptor(self.state.overrides)

    def render(self, given: Any = None) -> Rendered:
        return self.template.render(self.configuration, given)


@dataclass(frozen=True, slots=True)
class Difference:
    """A factor that two states of a prompt put differently; None where it is missing."""

    factor: str
    before: JsonValue
    after: JsonValue


class Backend(Protocol):
    """Where states are kept. Each call happens as a whole or not at all, whatever dies in between."""

    async def current(self, name: str, tag: str) -> TagState | None:
        """The newest state of a tag, a deletion included."""
        ...

    async def swap(self, state: TagState) -> bool:
        """Make this the tag's newest state if the one before it is the newest now; else change nothing and say False.

        A state with a version keeps that version, too. Raises VersionTaken, and changes nothing, when the version holds
        something else.
        """
        ...

    async def purge(self, state: TagState) -> bool:
        """Remove a temporary tag with all it ever was, if this is its newest state; else change nothing and say False."""
        ...

    async def history(self, name: str, tag: str) -> list[TagState]:
        """Every state the tag ever had, in order."""
        ...

    async def tags(self, name: str) -> list[TagState]:
        """The newest state of every tag, deletions included."""
        ...

    async def versions(self, name: str) -> list[TagState]:
        """The state that introduced each version, in any order."""
        ...

    async def keep_template(self, name: str, template_hash: str, content: str) -> None:
        """Keep a template under its hash; one that is there already stays."""
        ...

    async def template(self, name: str, template_hash: str) -> str | None: ...

    async def templates(self, name: str) -> list[str]:
        """The hashes of all templates kept for a prompt."""
        ...

    async def names(self) -> list[str]:
        """Every prompt of which something is kept."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Announcing(Protocol):
    """A backend that tells of changes as they happen."""

    def changes(self) -> AbstractAsyncContextManager[asyncio.Queue[str | None]]:
        """The names of prompts whose tags move, as they move; None says that the connection was lost and listening is over."""
        ...
