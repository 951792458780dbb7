"""What differs between two states of a prompt, side by side: what was on the left, what is on the right."""

from __future__ import annotations

import difflib
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from clients.commands.context import CommandError, Context, ExitCode
from clients.prompts.stores import reach_prompts, unknown_prompt
from clients.reports.text.terminal_text import one_line, visible
from clients.runs.service.servers import has_data, reach_servers
from ratchet.prompts import InvalidName, OverrideStore, PromptTemplate, UnknownPrompt, UnknownTag
from ratchet.prompts.names import SOURCE
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.releases.target import released_part, released_prompt
from workflows.rules.releases.versions import changes, class_of, frozen_parts

NARROWEST = 80
BASELINE = "@baseline"
"""After a run's id: what it began with, not what it found."""

OLD, NEW, SAME = "red", "green", "dim"
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")


class Side(NamedTuple):
    """A state of a prompt that is compared."""

    label: str
    configuration: Mapping[str, Any]
    template: PromptTemplate | None


async def show_differences(context: Context, name: str, before: str, after: str) -> int:
    """Compare two states of a prompt."""
    async with reach_prompts(context) as store:
        stored = [await _stored(store, name, reference) for reference in (before, after)]
    # Only now: the servers that runs are read from may be the embedded ones, which are reached once at a time.
    old, new = [
        side if isinstance(side, Side) else await _of_run(context, name, reference) or _refuse(side)
        for side, reference in zip(stored, (before, after), strict=True)
    ]
    template = old.template or new.template
    found = changes(old.configuration, new.configuration, () if template is None else frozen_parts(template))
    size = class_of(found.values())
    differences = [
        {"factor": factor, "before": old.configuration.get(factor), "after": new.configuration.get(factor), "change": change}
        for factor, change in found.items()
    ]
    facts = {"prompt": name, "before": old.label, "after": new.label, "class": size and size.name.lower()}
    context.facts({**facts, "differences": differences})
    if not context.json:
        _print(name, old, new, found)
    return ExitCode.DONE


async def _stored(store: OverrideStore, name: str, reference: str) -> Side | CommandError:
    """What the store has under a reference; else what is wrong with it, unless it is a run."""
    try:
        if reference == SOURCE:
            return await _source(store, name)
        found = await store.resolve(name, tag=reference)
    except UnknownPrompt:
        return unknown_prompt(name, await store.names())
    except (InvalidName, UnknownTag) as error:
        return CommandError(f"{error}; nor is {reference!r} a finished run")
    version = found.state.version
    label = reference if version in (None, reference) else f"{reference} ({version})"
    return Side(label, found.configuration, found.template)


def _refuse(error: CommandError) -> Side:
    raise error


async def _source(store: OverrideStore, name: str) -> Side:
    """What the author of the newest state wrote."""
    states = [state for state in await store.list_tags(name) if not state.temporary]
    if not states:
        raise UnknownPrompt(f"{name} has no tag")
    stable = next((state for state in states if state.tag == "stable"), max(states, key=lambda state: state.change.at))
    template = (await store.resolve(name, tag=stable.tag)).template
    return Side(SOURCE, template.configuration(), template)


async def _of_run(context: Context, name: str, reference: str) -> Side | None:
    """What a run found, or began with, where the reference names one."""
    run_id = reference.removesuffix(BASELINE)
    if not has_data(context.home):
        return None
    async with reach_servers(context.home) as servers:
        run = await servers.reader.runs.load(reference) or await servers.reader.runs.load(run_id)
    if run is None or run.result is None:
        return None
    request = OptimizationRequest.model_validate(run.spec)
    target = released_prompt(request)
    if target is not None and target.prompt != name:
        raise CommandError(f"{run.run_id} worked on {target.prompt}, not on {name}")
    began = run.run_id != reference
    return Side(reference, released_part(request, request.baseline if began else run.result.best_configuration), None)


def _print(name: str, old: Side, new: Side, found: Mapping[str, Any]) -> None:
    console = Console(width=max(shutil.get_terminal_size().columns, NARROWEST), highlight=False)
    if not found:
        console.print(Text(one_line(f"{name}: {old.label} and {new.label} put the same in force")))
        return
    size = class_of(found.values())
    console.print(Text(one_line(f"{name}: {old.label} → {new.label} ({size.name.lower() if size else 'the same'})")))
    for factor, change in found.items():
        console.print(Rule(Text(one_line(f"{factor}: {change}")), align="left", style=SAME))
        console.print(_table(_lines(old.configuration.get(factor)), _lines(new.configuration.get(factor))))


def _lines(value: Any) -> list[str]:
    if value is None:
        return []
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
    return visible(text).split("\n")


def _table(old: Sequence[str], new: Sequence[str]) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    for ratio in (None, 1, None, 1):
        table.add_column(ratio=ratio, overflow="fold")
    for left, right in _rows(old, new):
        changed = left != right
        table.add_row(
            Text("-" if changed and left is not None else " ", style=OLD),
            _marked(left, right, OLD),
            Text("+" if changed and right is not None else " ", style=NEW),
            _marked(right, left, NEW),
        )
    return table


def _rows(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str | None, str | None]]:
    """Lines beside the lines they became."""
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from zip(old[i:j], new[k:m], strict=True)
            continue
        for place in range(max(j - i, m - k)):
            yield (old[i + place] if i + place < j else None, new[k + place] if k + place < m else None)


def _marked(line: str | None, other: str | None, style: str) -> Text:
    """A line with its words that the other one has not."""
    if line is None:
        return Text("")
    if line == other:
        return Text(line, style=SAME)
    if other is None:
        return Text(line, style=style)
    marked = Text(style=style)
    words, others = _WORDS.findall(line), _WORDS.findall(other)
    for kind, i, j, _, _ in difflib.SequenceMatcher(None, words, others, autojunk=False).get_opcodes():
        marked.append("".join(words[i:j]), style="" if kind == "equal" else "bold reverse")
    return marked
