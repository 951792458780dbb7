"""The prompt of a spec: where it is read from, and what it was when the run began."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from ratchet._frozen import SpecPart
from ratchet._values import PathText
from ratchet.prompts.names import PromptName, checked_tag, is_version
from ratchet.prompts.template import PromptTemplate

STABLE = "stable"


def _is_tag_or_version(text: str) -> str:
    return text if is_version(text) else checked_tag(text)


LARGEST_PROMPT = 256 * 1024
"""Bytes of a template as JSON. It goes through the workflow once, and with the spec from one execution to the next."""


class PromptSnapshot(SpecPart):
    """A prompt as the run found it. What is effective of it is the baseline: the factors `section:…` and `param:…`."""

    template: PromptTemplate
    """The prompt as it is written: its sections and parameters, and which of them may change."""
    overlay_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The content hash of what was effective, with the tag's overrides: the base that a release of this run replaces."""
    revision: int | None = None
    """The tag's revision then; none for a prompt from a file."""
    version: str | None = None
    """The version that the tag was at, if it was at one."""

    def refuse_too_large(self) -> None:
        """Raise ValueError where it would not fit into a workflow's messages."""
        size = len(self.template.model_dump_json(by_alias=True).encode())
        if size > LARGEST_PROMPT:
            raise ValueError(f"is {size:,} bytes as JSON; at most {LARGEST_PROMPT:,} fit, make sections or examples shorter")


class PromptSource(SpecPart):
    """The prompt to improve.

    Every section is a factor `section:<path>`, every parameter a factor `param:<name>`; frozen ones never change. Targets use
    the rendered prompt: as one text `{{factors.prompt}}`, as messages with the examples as question and answer
    `{{factors.messages}}`, its tools as `{{factors.tools}}`, which chat targets send by themselves. Parameters go by their bare
    names, too.
    """

    name: PromptName | None = None
    """A stored prompt, as `namespace/key`."""
    tag: Annotated[str, AfterValidator(_is_tag_or_version)] = STABLE
    """What of the stored prompt is the baseline: what is effective at this tag, or was at this version, when the run begins."""
    file: PathText | None = None
    """Instead of a name: a YAML file, whose sections are the baseline as they are written. It is relative to the spec for the
    CLI, and inside RATCHET_DATA_DIR for a worker."""
    publish: bool | None = None
    """Put every candidate into the store of prompts while it is tried, under the temporary tag that targets are told as
    `overrides_tag`, so that a service which renders the prompt itself finds it. Default: for a stored prompt whose target runs
    elsewhere (http, activity, external)."""
    snapshot: SkipJsonSchema[PromptSnapshot | None] = None
    """Set by Ratchet itself when the prompt was read; leave it out."""

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("snapshot")
    @classmethod
    def _fits(cls, value: PromptSnapshot | None) -> PromptSnapshot | None:
        if value is not None:
            value.refuse_too_large()
        return value

    @model_validator(mode="after")
    def _one_source(self) -> PromptSource:
        if (self.name is None) == (self.file is None):
            raise ValueError("needs the name of a stored prompt, or a file; give exactly one of the two")
        if self.file is not None and self.tag != STABLE:
            raise ValueError("tag belongs to a stored prompt; drop it, or give the prompt's name instead of a file")
        return self

    @property
    def described(self) -> str:
        """The prompt and where it is read, in words: `support/triage (stable, 1.2.0)`."""
        found = self.snapshot
        if found is None:
            return self.file or f"{self.name} ({self.tag})"
        at = found.version or f"revision {found.revision}"
        return f"{found.template.name} ({self.file or f'{self.tag}, {at}'})"
