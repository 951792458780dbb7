"""Datasets in the store: listed, shown, added, deleted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pydantic

from activities.datasets import DatasetError, ingest, source_of
from clients.commands.context import CommandError, Context, ExitCode
from clients.local_audit import audited
from clients.reports.formatting import counted
from clients.reports.text.terminal_tables import print_table
from clients.reports.text.terminal_text import ellipsized, one_line
from clients.runs.service.servers import Servers, has_data, reach_servers
from clients.settings import client_settings, dataset_settings
from ratchet._text.explanation import explain
from store.read.datasets import DatasetDetail, DatasetRow, SampleView, ValueCount
from store.schema import StoreError
from store.write.access.teams import Teams
from store.write.datasets import Datasets
from workflows.model.spec.dataset import Dataset

SHORT_ID = 12
OPTIONS = {
    "path": "FILE",
    "paths": "FILE",
    "name": "--name",
    "format": "--format",
    "columns": "--column",
    "delimiter": "--delimiter",
}


async def list_datasets(context: Context) -> int:
    """One line per dataset."""
    found: list[DatasetRow] = []
    if has_data(context.home):
        async with reach_servers(context.home) as servers:
            found = await servers.reader.datasets.all()
    if context.json:
        context.facts({"datasets": [row.model_dump(mode="json") for row in found]})
    elif not found:
        context.say("no datasets; `ratchet datasets add FILE` brings one into the store, and so does `ratchet run`")
    else:
        _print_table(found)
    return ExitCode.DONE


def _print_table(found: list[DatasetRow]) -> None:
    rows = [
        (
            row.dataset_id[:SHORT_ID],
            _names(row),
            f"{row.count:,}",
            str(row.runs),
            f"{row.created_at.astimezone():%Y-%m-%d %H:%M}",
        )
        for row in found
    ]
    heads = ("ID", "Name", "Samples", "Runs", "Added")
    print_table(heads, rows, right=("Samples", "Runs"), folds=("Name",), spare=("Added",))


def _names(row: DatasetRow) -> str:
    return ", ".join(one_line(f"{version.name}@{version.version}") for version in row.versions) or one_line(row.name)


async def show_dataset(context: Context, reference: str, samples: int, offset: int) -> int:
    """What a dataset is and what its samples look like."""
    if not has_data(context.home):
        raise _unknown(reference)
    async with reach_servers(context.home) as servers:
        dataset_id = await _the_one_called(servers, reference)
        detail = await servers.reader.datasets.load(dataset_id)
        if detail is None:
            raise _unknown(reference)
        shown = await servers.reader.datasets.samples(dataset_id, offset=offset, limit=samples) if samples else []
    facts = detail.model_dump(mode="json") | {"samples": [sample.model_dump(mode="json") for sample in shown]}
    context.facts(facts, "\n".join([*_described(detail), *(_sample(sample) for sample in shown)]))
    return ExitCode.DONE


def _described(detail: DatasetDetail) -> list[str]:
    rows = {
        "Dataset": detail.dataset_id,
        "Names": _names(detail),
        "Samples": f"{detail.count:,}" + ("" if detail.total_weight == detail.count else f" (weight {detail.total_weight:g})"),
        "Added": f"{detail.created_at.astimezone():%Y-%m-%d %H:%M}",
        "Runs": ", ".join(detail.used_by) + (" …" if detail.runs > len(detail.used_by) else "") if detail.runs else "none",
        "Input": _counted(detail.input_fields, detail.count) or "no fields",
        "Expected": "each its own"
        if detail.count > 1 and detail.expected and detail.expected[0].samples == 1
        else _counted(detail.expected, detail.count),
        "Tags": _counted(detail.tags, detail.count) or "none",
        **({"Splits": _counted(detail.splits, detail.count)} if detail.splits else {}),
    }
    return [f"{label + ':':<10}{one_line(text)}" for label, text in rows.items()]


def _counted(values: tuple[ValueCount, ...], count: int) -> str:
    """`billing (12), refund (3)`; what every sample has needs no number."""
    texts = [(_text(value.value, 40), value.samples) for value in values]
    return ", ".join(text if samples == count else f"{text} ({samples:,})" for text, samples in texts)


def _sample(sample: SampleView) -> str:
    expected = "" if sample.expected is None else f" → {_text(sample.expected, 200)}"
    tags = f"  [{', '.join(sample.tags)}]" if sample.tags else ""
    return one_line(f"  {sample.item_id}: {_text(sample.input, 600)}{expected}{tags}")


def _text(value: Any, longest: int) -> str:
    return ellipsized(one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)), longest)


async def add_dataset(context: Context, given: dict[str, Any], team: str | None = None) -> int:
    """Ingest a file, and say under which name and version it is in the store."""
    try:
        dataset = Dataset.model_validate(given)
    except pydantic.ValidationError as error:
        raise CommandError("\n".join(_as_option(line) for line in explain(error))) from None
    try:
        source = source_of(dataset, _local, dataset_settings())
        async with reach_servers(context.home) as servers:
            whose = team or client_settings().team
            if not await servers.reader.teams.exists(whose):
                raise CommandError(f"--team: there is no team {whose!r}; `ratchet teams create {whose}` makes it")
            async with audited(servers.database, "add dataset", subject=dataset.name or source.name, refusals=(DatasetError,)):
                largest_mb = dataset_settings().largest_dataset_mb
                ingested = await ingest(servers.database, source, dataset.name, largest_mb=largest_mb)
                await Teams(servers.database).claim_dataset(ingested.dataset_id, whose)
            detail = await servers.reader.datasets.load(ingested.dataset_id)
    except DatasetError as error:
        raise CommandError(_in_options(str(error).removeprefix("dataset.path: "))) from None
    assert detail is not None
    name = dataset.name or source.name
    version = max(version.version for version in detail.versions if version.name == name)
    dropped = f" ({counted(ingested.duplicates_dropped, 'duplicate')} left out)" if ingested.duplicates_dropped else ""
    context.facts(
        {
            "dataset_id": ingested.dataset_id,
            "name": name,
            "version": version,
            "count": ingested.count,
            "duplicates_dropped": ingested.duplicates_dropped,
        },
        f"{one_line(name)}@{version}: {ingested.count:,} samples{dropped}\n"
        f"In a spec: dataset: {{id: {ingested.dataset_id}}}, or by name {{name: {json.dumps(name, ensure_ascii=False)}}}",
    )
    return ExitCode.DONE


def _as_option(message: str) -> str:
    place, separator, problem = message.partition(": ")
    field = place.partition(".")[0].partition("[")[0]
    if field not in OPTIONS:
        return message
    return f"{OPTIONS[field]}{separator}{problem if place == field else message}"


def _in_options(message: str) -> str:
    """What a spec says in a field, this command takes as an option."""
    told = re.sub(r"dataset\.columns\.(\w+)", r"--column \1=…", message)
    told = re.sub(r"dataset\.paths\.(\w+)", r"\1=FILE", told)
    return re.sub(r"dataset\.(delimiter|format)(: )?", lambda found: f"--{found[1]}{' ' if found[2] else ''}", told)


def _local(path: str) -> Path:
    file = Path(path)
    if not file.is_file():
        raise DatasetError(f"there is no file {path!r}; correct the path")
    return file


async def delete_dataset(context: Context, reference: str) -> int:
    """Delete a dataset that no run uses."""
    if not has_data(context.home):
        raise _unknown(reference)
    async with reach_servers(context.home) as servers:
        dataset_id = await _the_one_called(servers, reference)
        await _refuse_one_of_several(servers, reference)
        async with audited(servers.database, "delete dataset", subject=dataset_id):
            try:
                await Datasets(servers.database).delete(dataset_id)
            except StoreError as error:
                raise CommandError(str(error)) from None
    context.facts({"dataset_id": dataset_id, "deleted": True}, f"deleted {dataset_id}")
    return ExitCode.DONE


async def _the_one_called(servers: Servers, reference: str) -> str:
    found = await servers.reader.datasets.called(reference)
    if not found:
        raise _unknown(reference)
    if len(found) > 1:
        raise CommandError(f"{reference!r} is the beginning of {', '.join(id[:20] for id in found)}; give more of it")
    return found[0]


async def _refuse_one_of_several(servers: Servers, name: str) -> None:
    """A name stands for its newest version, which is not a good guess when something is deleted."""
    versions = [version for row in await servers.reader.datasets.all() for version in row.versions if version.name == name]
    if len(versions) > 1:
        newest = max(version.version for version in versions)
        raise CommandError(f"{name!r} has {len(versions)} versions; say which, e.g. {name}@{newest}")


def _unknown(reference: str) -> CommandError:
    return CommandError(f"there is no dataset {reference!r}; `ratchet datasets list` shows those there are")
