"""What there is of prompts: which, with which tags and versions, and what each puts in force."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from clients.commands.context import CommandError, Context, ExitCode
from clients.prompts.stores import anything_there, existing, reach_prompts, unknown_prompt
from clients.reports.text.terminal_tables import print_table
from clients.reports.text.terminal_text import ellipsized, one_line, visible
from clients.runs.service.servers import has_data, reach_servers
from ratchet._text.placeholders import Unfillable, UnknownPlaceholder
from ratchet.prompts import OverrideStore, Resolved, TagState, UnknownPrompt
from ratchet.prompts.policy import recent_mutations, with_recent_mutations
from ratchet.prompts.template import PARAMETER
from workflows.model.spec.release import ReleaseState

SHORT_HASH = 12
LONGEST_CELL = 60


async def list_prompts(context: Context) -> int:
    """One line per prompt."""
    found: list[dict[str, Any]] = []
    if anything_there(context):
        async with reach_prompts(context) as store:
            found = [await _summary(store, name) for name in await store.names()]
    if context.json:
        context.facts({"prompts": found})
    elif not found:
        context.say("no prompts; `ratchet prompts seed FILE` stores one, and so does a run that is released")
    else:
        print_table(
            ("Prompt", "Tags", "Versions", "Changed"),
            map(_summary_row, found),
            right=("Versions",),
            folds=("Tags",),
            spare=("Changed", "Versions"),
            longest=LONGEST_CELL,
        )
    return ExitCode.DONE


async def _summary(store: OverrideStore, name: str) -> dict[str, Any]:
    states = await store.list_tags(name)
    lasting = [state for state in states if not state.temporary]
    return {
        "prompt": name,
        "tags": [_tag_facts(state) for state in lasting],
        "temporary_tags": len(states) - len(lasting),
        "versions": [state.version for state in await store.versions(name)],
        "changed_at": max((state.change.at for state in lasting), default=None),
    }


def _summary_row(row: dict[str, Any]) -> tuple[str, ...]:
    tags = ", ".join(f"{tag['tag']} {tag['version'] or tag['hash'][:SHORT_HASH]}" for tag in row["tags"])
    return (row["prompt"], tags, str(len(row["versions"])), _when(row["changed_at"]))


async def show_prompt(context: Context, name: str, tag: str) -> int:
    """What a tag puts in force."""
    async with reach_prompts(context) as store:
        found = await resolved(store, name, tag)
        steps = await recent_mutations(store, found.state)
    facts = {**_tag_facts(found.state), "prompt": name, "sections": _sections(found), "parameters": _parameters(found)}
    context.facts({**facts, "recent_mutations": steps}, with_recent_mutations("\n".join(_described(found)), steps))
    return ExitCode.DONE


async def resolved(store: OverrideStore, name: str, reference: str) -> Resolved:
    """What a tag or a version puts in force; a prompt that is unknown is told with what was probably meant."""
    try:
        return await store.resolve(name, tag=reference)
    except UnknownPrompt:
        raise unknown_prompt(name, await store.names()) from None


def _sections(found: Resolved) -> list[dict[str, Any]]:
    return [
        {
            "path": section.path,
            "kind": section.kind,
            "tokens": section.tokens,
            "hash": section.hash,
            "frozen": not section.accepts_overrides,
            "overridden": section.path in found.state.overrides.sections,
            "value": section.value,
        }
        for section in found.descriptor.sections
    ]


def _parameters(found: Resolved) -> list[dict[str, Any]]:
    return [
        {
            **parameter.model_dump(mode="json", exclude_none=True),
            "name": name,
            "value": found.configuration[f"{PARAMETER}{name}"],
            "overridden": name in found.state.overrides.parameters,
        }
        for name, parameter in found.template.parameters.items()
    ]


def _described(found: Resolved) -> Iterable[str]:
    state, sections = found.state, _sections(found)
    yield f"Prompt:   {state.name}"
    yield f"Tag:      {state.tag}, revision {state.revision}{f', version {state.version}' if state.version else ''}"
    yield f"Hash:     {state.config_hash}"
    yield one_line(f"Changed:  {_when(state.change.at)} by {state.change.by or 'nobody named'}: {_why(state)}")
    yield f"Tokens:   {sum(section['tokens'] for section in sections):,}"
    for parameter in _parameters(found):
        mark = " (changed)" if parameter["overridden"] else ""
        yield one_line(f"  {parameter['name']} = {_value(parameter['value'])}{mark}  {_range(parameter)}")
    for section in sections:
        marks = [section["kind"], f"{section['tokens']:,} tokens"]
        marks += [mark for mark in ("frozen", "overridden") if section[mark]]
        yield f"\n── {section['path']} ({', '.join(marks)})"
        yield visible(section["value"] if isinstance(section["value"], str) else json.dumps(section["value"], indent=2))


def _range(parameter: dict[str, Any]) -> str:
    match parameter["type"]:
        case "number" | "integer":
            return f"{parameter['min']:g} … {parameter['max']:g}"
        case "choice":
            return f"one of {', '.join(_value(choice) for choice in parameter['choices'])}"
    return str(parameter["type"])


async def render_prompt(context: Context, name: str, tag: str, given: Sequence[str], file: Path | None, mutations: bool) -> int:
    """The text for one input."""
    inputs = _inputs(given, file)
    async with reach_prompts(context) as store:
        found = await resolved(store, name, tag)
        steps = await recent_mutations(store, found.state) if mutations else []
    try:
        rendered = found.render(inputs)
        messages, tools = rendered.messages, rendered.tools
    except UnknownPlaceholder as error:
        raise CommandError(
            f"{name}: nothing fills {{{{{error.name}}}}}; give it, e.g. --input {_input_name(error.name)}=…"
        ) from None
    except Unfillable as error:
        raise CommandError(f"{name}: {error}") from None
    text = with_recent_mutations(rendered.text, steps)
    facts = {"text": text, "messages": messages, "tools": [_tool(tool) for tool in tools]}
    context.facts({"prompt": name, **_tag_facts(found.state), **facts}, visible(text) if sys.stdout.isatty() else text)
    return ExitCode.DONE


def _tool(tool: Any) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}


def _input_name(placeholder: str) -> str:
    return placeholder.removeprefix("input").lstrip(".") or "NAME"


def _inputs(given: Sequence[str], file: Path | None) -> Any:
    if file is not None and given:
        raise CommandError("--input-file: is the whole input; leave --input out")
    if file is not None:
        try:
            return json.loads(file.read_text("utf-8"))
        except OSError as error:
            raise CommandError(f"--input-file: {file} cannot be read: {error.strerror or error}") from None
        except ValueError as error:
            raise CommandError(f"--input-file: {file} is not JSON: {error}") from None
    inputs = {}
    for pair in given:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise CommandError(f"--input: {pair!r} is no NAME=VALUE; write for instance ticket='My parcel is late'")
        inputs[name] = value
    return inputs


async def list_tags(context: Context, name: str, history: str | None, temporary: bool) -> int:
    """Where the tags are, or where one was."""
    async with reach_prompts(context) as store:
        await existing(store, name)
        states = await store.list_tags(name) if history is None else (await store.history(name, history))[::-1]
    if history is None and not temporary:
        states = [state for state in states if not state.temporary]
    if context.json:
        context.facts({"prompt": name, "history" if history else "tags": [_tag_facts(state) for state in states]})
    elif not states:
        context.say(f"{name} has no tag{f' {history!r}, and never had one' if history else ''}")
    else:
        headings = ("Tag", "Revision", "Version", "Hash", "Changed", "By", "Why")
        spare = ("Hash", "Changed", "Revision")
        print_table(headings, map(_row, states), right=("Revision",), folds=("Why",), spare=spare, longest=LONGEST_CELL)
    return ExitCode.DONE


def _row(state: TagState) -> tuple[str, ...]:
    version = "(deleted)" if state.deleted else state.version or ""
    why = f"{_why(state)}{f' (for {state.owner})' if state.owner else ''}"
    return (
        state.tag,
        str(state.revision),
        version,
        state.config_hash[:SHORT_HASH],
        _when(state.change.at),
        state.change.by,
        why,
    )


async def list_releases(context: Context, name: str | None, limit: int) -> int:
    """The audit log."""
    found: list[ReleaseState] = []
    if has_data(context.home):
        async with reach_servers(context.home) as servers:
            found = await servers.reader.releases.listed(prompt=name, limit=limit)
    if context.json:
        context.facts({"releases": [state.model_dump(mode="json") for state in found]})
    elif not found:
        context.say(f"nothing was released{f' of {name}' if name else ''} yet")
    else:
        headings = ("Asked", *(() if name else ("Prompt",)), "Tag", "Kind", "Status", "Version", "By", "Why")
        rows = (_release_row(state, name is None) for state in found)
        print_table(headings, rows, folds=("Why", "By"), spare=("Kind", "Asked", "Tag"), longest=LONGEST_CELL)
    return ExitCode.DONE


def _release_row(state: ReleaseState, named: bool) -> tuple[str, ...]:
    what = (state.prompt, state.tag) if named else (state.tag,)
    version = f"{state.base_version or '(new)'} → {state.version or '?'}"
    by = " / ".join(dict.fromkeys(name for name in (state.asked_by, state.decided_by) if name))
    why = state.comment or state.reason or state.message
    return (_when(state.asked_at), *what, state.kind, state.status.replace("_", " "), version, by, why)


def _tag_facts(state: TagState) -> dict[str, Any]:
    return {
        "tag": state.tag,
        "revision": state.revision,
        "version": state.version,
        "hash": state.config_hash,
        "template_hash": state.template_hash,
        "temporary": state.temporary,
        "owner": state.owner,
        "deleted": state.deleted,
        "change": state.change.model_dump(mode="json"),
    }


def _why(state: TagState) -> str:
    return state.change.why or state.change.action


def _when(at: Any) -> str:
    return "" if at is None else f"{at.astimezone():%Y-%m-%d %H:%M}"


def _value(value: Any) -> str:
    return ellipsized(one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)), LONGEST_CELL)
