"""Prompts that come in from files, go out to files, or move from one store to another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clients.commands.context import CommandError, Context, ExitCode
from clients.prompts.stores import existing, prompt_errors, reach_prompts, user
from clients.prompts.version_files import BadVersionFile, PromptVersion, PromptVersions, read_versions, written_versions
from clients.reports.text.terminal_text import one_line
from ratchet.prompts import Change, OverrideStore, PromptTemplate, TagState, migrate

IMPORTED = "imported"
"""The tag that walks through the versions which come in, so that no tag that anybody reads does."""

LARGEST_FILE = 4 * 1024 * 1024


async def seed_prompt(context: Context, file: Path, tag: str, by: str | None, reason: str) -> int:
    """Store a prompt under a tag that does not exist yet."""
    template = _template(file)
    async with reach_prompts(context) as store:
        before = await store.current(template.name, tag)
        change = Change(action="seed", by=by or user(), why=reason)
        state = await store.seed(template, tag=tag, change=change)
    new = before is None
    at = state.version or f"revision {state.revision}"
    told = f"{state.name}: {tag} is {at}" if new else f"{state.name}: {tag} is there already, at {at}, and stays as it is"
    context.facts({"prompt": state.name, **_facts(state), "seeded": new}, one_line(told))
    return ExitCode.DONE


def _template(file: Path) -> PromptTemplate:
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise CommandError(f"{file} has {file.stat().st_size:,} bytes; a prompt has at most {LARGEST_FILE:,}")
        text = file.read_text("utf-8")
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise CommandError(f"{file}: byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None
    with prompt_errors(str(file)):
        return PromptTemplate.from_yaml(text)


async def export_versions(context: Context, name: str, folder: Path, tag: str) -> int:
    """Write every version as a file."""
    async with reach_prompts(context) as store:
        await existing(store, name)
        versions = [await store.resolve(name, tag=str(state.version)) for state in await store.versions(name)]
        current = await store.current(name, tag)
    if current is None or current.version is None:
        raise CommandError(
            f"--tag: {name} has no version under {tag!r}; `ratchet prompts tags {name}` shows where its tags are"
        )
    try:
        files = written_versions(versions, current.version, folder)
    except BadVersionFile as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error.strerror or error}") from None
    numbers = [str(version.state.version) for version in versions]
    context.facts(
        {"prompt": name, "current": current.version, "versions": numbers, "files": [str(file) for file in files]},
        f"{name}: {_count(numbers)} in {folder}, {current.version} is current",
    )
    return ExitCode.DONE


async def import_versions(context: Context, source: Path, name: str | None, tag: str, by: str | None, reason: str) -> int:
    """Bring in every version in a folder."""
    try:
        found = read_versions(source, name)
    except BadVersionFile as error:
        raise CommandError(str(error)) from None
    prompt = found.versions[0].template.name
    async with reach_prompts(context) as store:
        new = await _new(store, found.versions)
        await _walk_through(store, new, by or user(), reason)
        state = await _first_tag(store, prompt, found, tag, by or user(), reason)
    numbers = [str(version.number) for version in new]
    facts = {"prompt": prompt, "current": str(found.current), "versions": numbers, **_facts(state)}
    told = f"{prompt}: {_count(numbers)} came in; {tag} is {state.version or f'at revision {state.revision}'}"
    moves = f"; `ratchet rollback {prompt} --to {found.current} --tag {tag}` moves it to {found.current}"
    context.facts(facts, one_line(told + ("" if state.version == str(found.current) else moves)))
    return ExitCode.DONE


async def _new(store: OverrideStore, versions: Sequence[PromptVersion]) -> list[PromptVersion]:
    """Those that are not here yet. One that is here with other content stops everything before anything is written."""
    known = {state.version: state for state in await store.versions(versions[0].template.name)}
    for version in versions:
        here = known.get(str(version.number))
        if here is not None and (here.config_hash, here.template_hash) != (version.hash, version.template.hash):
            raise CommandError(
                f"{version.template.name} has a version {version.number} already, with other content; versions never change"
            )
    return [version for version in versions if str(version.number) not in known]


async def _walk_through(store: OverrideStore, versions: Sequence[PromptVersion], by: str, reason: str) -> None:
    """Each version in its turn under a tag of its own. Cut off and begun again, it goes on where it was."""
    if not versions:
        return
    prompt, previous = versions[0].template.name, None
    for version in versions:
        at = await store.current(prompt, IMPORTED)
        state = await store.store(
            version.template,
            version.overrides,
            tag=IMPORTED,
            expected=None if at is None else at.revision,
            change=_came_in(version, by, reason),
            version=str(version.number),
            parent=previous,
            frozen_may_change=True,
        )
        previous = state.version
    await store.delete(prompt, tag=IMPORTED, expected=state.revision, change=Change(action="imported", by=by))


def _came_in(version: PromptVersion, by: str, reason: str) -> Change:
    """The change that brought a version in; made when its file says that it was made."""
    change = Change(action="import", by=by, why=version.why or reason)
    return change if version.at is None else change.model_copy(update={"at": version.at})


async def _first_tag(store: OverrideStore, prompt: str, found: PromptVersions, tag: str, by: str, reason: str) -> TagState:
    """A tag that does not exist yet gets the current version; one that does is somebody's, and stays."""
    present = await store.current(prompt, tag)
    if present is not None:
        return present
    change = Change(action="import", by=by, why=reason)
    return await store.copy_tag(prompt, source=str(found.current), tag=tag, expected=None, change=change)


async def migrate_prompts(context: Context, source: str, destination: str) -> int:
    """Copy everything from one store to another."""
    if source == destination:
        raise CommandError("FROM and TO are the same store; give two")
    async with reach_prompts(context, source) as old, reach_prompts(context, destination) as new:
        moved = await migrate(old, new)
    facts = {"prompts": moved.prompts, "templates": moved.templates, "changes": moved.changes}
    context.facts(facts, f"{moved.prompts} prompt{'' if moved.prompts == 1 else 's'} with {moved.changes} changes went over")
    return ExitCode.DONE


def _count(versions: Sequence[str]) -> str:
    return f"version {versions[0]}" if len(versions) == 1 else f"{len(versions) or 'no'} versions"


def _facts(state: TagState) -> dict[str, object]:
    return {"tag": state.tag, "revision": state.revision, "version": state.version, "hash": state.config_hash}
