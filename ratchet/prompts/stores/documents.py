"""Prompts as documents, for whatever keeps documents by path: a folder, a bucket.

    support/triage/stable.json                          where the tag is
    support/triage/.history/stable/0000000004.json      what it was, revision by revision
    support/triage/.versions/1.2.0.json                 an immutable version
    support/triage/.templates/6f1c….json                a template, by its hash

The tag's own document is the truth, and is replaced by compare-and-swap. Before that, what it held is put into the history,
so that no state is ever lost; whoever dies in between leaves the old state, whole. A version counts once a tag was moved
to it: what a dead writer prepared is nothing.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

from pydantic import ValidationError

from ratchet.prompts.overrides import TagState
from ratchet.prompts.prompt_errors import Damaged, VersionTaken

FORMAT = 2
HISTORY, VERSIONS, TEMPLATES = ".history", ".versions", ".templates"


class Documents(Protocol):
    """Documents by path. Each is written as a whole or not at all."""

    async def check(self, folders: list[str]) -> None:
        """Raise if one of the folders leads to where nobody may go."""
        ...

    async def read(self, path: str) -> tuple[bytes, str] | None:
        """A document, and what identifies its content for `replace`."""
        ...

    async def create(self, path: str, content: bytes) -> bool:
        """Write a document unless there is one."""
        ...

    async def replace(self, path: str, content: bytes, seen: str) -> bool:
        """Write a document in the place of the one that was seen."""
        ...

    removes: bool
    """Whether `remove` is possible: there are servers that cannot tell what they are asked to remove."""

    async def remove(self, path: str, seen: str) -> bool:
        """Remove the document that was seen, if it is still the one."""
        ...

    async def files(self, folder: str) -> list[str]:
        """The names of the documents in a folder, without those in folders below."""
        ...

    async def folders_with(self, child: str) -> list[str]:
        """Every folder that has a folder of this name."""
        ...

    async def close(self) -> None: ...


class DocumentBackend:
    """A backend over documents."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    async def close(self) -> None:
        await self._documents.close()

    async def current(self, name: str, tag: str) -> TagState | None:
        # Every operation comes here first, so that a folder that cannot be trusted is noticed before anything is written.
        await self._documents.check([f"{name}/{folder}" for folder in (f"{HISTORY}/{tag}", VERSIONS, TEMPLATES)])
        found = await self._documents.read(_tag(name, tag))
        return None if found is None else decoded(found[0], name, tag)

    async def swap(self, state: TagState) -> bool:
        found = await self._documents.read(_tag(state.name, state.tag))
        if found is None and state.revision > 1:
            return False
        if found is not None:
            old = decoded(found[0], state.name, state.tag)
            if old.revision + 1 != state.revision:
                return False
            await self._documents.create(_past(old), encoded(old))
        await self._claim_version(state)
        if found is None:
            return await self._documents.create(_tag(state.name, state.tag), encoded(state))
        return await self._documents.replace(_tag(state.name, state.tag), encoded(state), found[1])

    async def purge(self, state: TagState) -> bool:
        path = _tag(state.name, state.tag)
        found = await self._documents.read(path)
        if found is None or decoded(found[0], state.name, state.tag) != state:
            return False
        if not self._documents.removes:
            deleted = state.model_copy(update={"revision": state.revision + 1, "deleted": True})
            return await self._documents.replace(path, encoded(deleted), found[1])
        folder = f"{state.name}/{HISTORY}/{state.tag}"
        for file in await self._documents.files(folder):
            past = await self._documents.read(f"{folder}/{file}")
            if past is not None:
                await self._documents.remove(f"{folder}/{file}", past[1])
        return await self._documents.remove(path, found[1])

    async def history(self, name: str, tag: str) -> list[TagState]:
        # First where the tag is: everything before that is in the history by then.
        current = await self.current(name, tag)
        if current is None:
            return []
        folder = f"{name}/{HISTORY}/{tag}"
        past = [await self._state(f"{folder}/{file}", name, tag) for file in sorted(await self._documents.files(folder))]
        return [state for state in past if state is not None and state.revision < current.revision] + [current]

    async def tags(self, name: str) -> list[TagState]:
        files = [file for file in await self._documents.files(name) if file.endswith(".json")]
        states = [await self.current(name, file.removesuffix(".json")) for file in sorted(files)]
        return [state for state in states if state is not None]

    async def versions(self, name: str) -> list[TagState]:
        folder = f"{name}/{VERSIONS}"
        claims = [await self._state(f"{folder}/{file}", name) for file in sorted(await self._documents.files(folder))]
        kept = [await self._kept(claim) for claim in claims if claim is not None]
        return [state for state in kept if state is not None]

    async def keep_template(self, name: str, template_hash: str, content: str) -> None:
        await self._documents.create(f"{name}/{TEMPLATES}/{template_hash}.json", content.encode())

    async def template(self, name: str, template_hash: str) -> str | None:
        found = await self._documents.read(f"{name}/{TEMPLATES}/{template_hash}.json")
        return None if found is None else found[0].decode()

    async def templates(self, name: str) -> list[str]:
        return [file.removesuffix(".json") for file in await self._documents.files(f"{name}/{TEMPLATES}")]

    async def names(self) -> list[str]:
        return await self._documents.folders_with(TEMPLATES)

    async def _claim_version(self, state: TagState) -> None:
        """Say where the state's version is decided, unless it is decided already."""
        if state.version is None:
            return
        path = f"{state.name}/{VERSIONS}/{state.version}.json"
        while not await self._documents.create(path, encoded(state)):
            found = await self._documents.read(path)
            if found is None:
                continue
            claim = decoded(found[0], state.name)
            if await self._stands(claim, state) or await self._documents.replace(path, encoded(state), found[1]):
                return

    async def _stands(self, claim: TagState, state: TagState) -> bool:
        """Whether a claim serves a state's version as well; otherwise its writer died, or lost. Raises VersionTaken."""
        kept = await self._kept(claim)
        if kept is not None and kept.holds_the_same(state):
            return True
        if kept is not None:
            raise VersionTaken.by(kept)
        if (claim.tag, claim.revision) == (state.tag, state.revision):
            return True
        current = await self.current(claim.name, claim.tag)
        if current is not None and current.revision >= claim.revision:
            return False
        raise VersionTaken(
            f"version {state.version} of {state.name} is being made for tag {claim.tag!r}, by change {claim.change.id}; "
            "finish that, or take the next number"
        )

    async def _kept(self, claim: TagState) -> TagState | None:
        """The state that the tag really came to, if that is the claimed version."""
        state = await self.current(claim.name, claim.tag)
        if state is not None and state.revision > claim.revision:
            state = await self._state(_past(claim), claim.name, claim.tag)
        reached = state is not None and (state.revision, state.version) == (claim.revision, claim.version)
        return state if reached else None

    async def _state(self, path: str, name: str, tag: str | None = None) -> TagState | None:
        found = await self._documents.read(path)
        return None if found is None else decoded(found[0], name, tag)


def _tag(name: str, tag: str) -> str:
    return f"{name}/{tag}.json"


def _past(state: TagState) -> str:
    return f"{state.name}/{HISTORY}/{state.tag}/{state.revision:010}.json"


def encoded(state: TagState) -> bytes:
    """A tag's document: readable, and the same bytes for the same state."""
    ns, _, key = state.name.rpartition("/")
    sections = {
        path: {"path": path.split("/"), "expected_hash": override.expected_hash, "body": override.body}
        for path, override in state.overrides.sections.items()
    }
    document = {
        "version": FORMAT,
        "ns": ns,
        "prompt_key": key,
        "tag": state.tag,
        "sections": sections,
        "parameters": state.overrides.parameters,
        "state": state.model_dump(mode="json", exclude={"name", "tag", "overrides"}),
    }
    return (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def decoded(content: bytes, name: str, tag: str | None = None) -> TagState:
    """What a document says, if it is the document of this prompt and tag."""
    ns, _, key = name.rpartition("/")
    try:
        document: dict[str, Any] = json.loads(content)
        if document["version"] != FORMAT:
            raise Damaged(f"a document of {name} has format {document['version']!r}, this Ratchet reads {FORMAT}")
        if (document["ns"], document["prompt_key"]) != (ns, key) or (tag is not None and document["tag"] != tag):
            raise Damaged(f"a document of {name}, tag {tag!r}, says that it belongs to another prompt or tag")
        overrides = {"sections": document["sections"], "parameters": document["parameters"]}
        return TagState.model_validate({**document["state"], "name": name, "tag": document["tag"], "overrides": overrides})
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        if isinstance(error, Damaged):
            raise
        raise Damaged(f"a document of {name}{'' if tag is None else f', tag {tag!r},'} cannot be read: {error}") from None
