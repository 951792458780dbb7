"""`ratchet datasets`: what runs are measured on."""

from __future__ import annotations

from typing import Annotated

import typer

from clients.commands.context import CommandError, Context, command

PANEL = "Data"
DatasetArgument = Annotated[
    str,
    typer.Argument(metavar="ID", help="An id or the beginning of one, a name, or NAME@VERSION.", show_default=False),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    datasets = typer.Typer(name="datasets", help="List, show, add and delete datasets.", no_args_is_help=True)
    app.add_typer(datasets, rich_help_panel=PANEL)

    @command(datasets, "list", PANEL)
    def list_(context: Context) -> int:
        """List the datasets in the store, the newest first."""
        from clients.commands.dataset_store import list_datasets
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: list_datasets(context))

    @command(datasets, "show", PANEL)
    def show(
        context: Context,
        reference: DatasetArgument,
        samples: Annotated[int, typer.Option("--samples", min=0, max=1000, help="How many samples to show.")] = 3,
        offset: Annotated[int, typer.Option("--offset", min=0, help="From which sample on.")] = 0,
    ) -> int:
        """Show what is in a dataset."""
        from clients.commands.dataset_store import show_dataset
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: show_dataset(context, reference, samples, offset))

    @command(datasets, "add", PANEL)
    def add(
        context: Context,
        files: Annotated[
            list[str],
            typer.Argument(
                metavar="FILE...",
                help="A file, or s3://bucket/key; or one for each split: train=FILE validation=FILE test=FILE.",
                show_default=False,
            ),
        ],
        name: Annotated[str | None, typer.Option("--name", help="What to call it. [default: the file's name]")] = None,
        form: Annotated[
            str | None,
            typer.Option("--format", metavar="FORMAT", help="jsonl, json, csv, tsv or parquet. [default: by its ending]"),
        ] = None,
        column: Annotated[
            list[str] | None,
            typer.Option(
                "--column",
                metavar="PART=COLUMN",
                help="Which column is input, expected, id, weight, tags or split, e.g. expected=label; again for more.",
            ),
        ] = None,
        delimiter: Annotated[str | None, typer.Option("--delimiter", help="What separates columns: , ; | or a tab.")] = None,
        team: Annotated[
            str | None, typer.Option("--team", metavar="TEAM", help="Whose it is. [default: RATCHET_TEAM, else default]")
        ] = None,
    ) -> int:
        """Bring a dataset into the store. The same name with other content is a new version."""
        from clients.commands.dataset_store import add_dataset
        from clients.runs.interruption import run_async

        given = {"name": name, "format": form, "delimiter": delimiter, "columns": _columns(column or []), **_paths(files)}
        return run_async(context, lambda _: add_dataset(context, {key: value for key, value in given.items() if value}, team))

    @command(datasets, "delete", PANEL)
    def delete(context: Context, reference: DatasetArgument) -> int:
        """Delete a dataset that no run uses."""
        from clients.commands.dataset_store import delete_dataset
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: delete_dataset(context, reference))


def _paths(given: list[str]) -> dict[str, str | dict[str, str]]:
    """One file, or one for each split."""
    from workflows.model.spec.dataset import split_called

    by_split = [file.partition("=")[::2] for file in given]
    if all(path and split_called(split) for split, path in by_split):
        return {"paths": dict(by_split)}
    if len(given) > 1:
        raise CommandError("FILE: give one, or one for each split: train=FILE validation=FILE test=FILE")
    return {"path": given[0]}


def _columns(given: list[str]) -> dict[str, str | list[str]]:
    columns: dict[str, str | list[str]] = {}
    for pair in given:
        part, separator, column = pair.partition("=")
        if not separator or not column:
            raise CommandError(f"--column: {pair!r} is no PART=COLUMN; write for instance expected=label")
        if part in ("input", "tags"):
            columns[part] = [*columns.get(part, []), column]
        elif part in columns:
            raise CommandError(f"--column: {part} is given twice; only input and tags may have several columns")
        else:
            columns[part] = column
    return columns
