"""`ratchet prompts`: what is in force under which tag, and how prompts come in and go out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clients.commands.context import Context, command

PANEL = "Release"
NameArgument = Annotated[str, typer.Argument(metavar="NS/KEY", help="The prompt, e.g. support/triage.", show_default=False)]
TagOption = Annotated[str, typer.Option("--tag", help="A tag, or a version such as 1.2.0.")]
ByOption = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who does this. [default: your user name]")]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept in the tag's history.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    prompts = typer.Typer(name="prompts", help="List, show, compare, render, store and move prompts.", no_args_is_help=True)
    app.add_typer(prompts, rich_help_panel=PANEL)
    _add_looking(prompts)
    _add_storing(prompts)


def _add_looking(prompts: typer.Typer) -> None:
    @command(prompts, "list", PANEL)
    def list_(context: Context) -> int:
        """List the prompts, and where their tags are."""
        from clients.prompts.views import list_prompts
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: list_prompts(context))

    @command(prompts, "show", PANEL)
    def show(context: Context, name: NameArgument, tag: TagOption = "stable") -> int:
        """Show a prompt as a tag puts it in force: its sections, their lengths, and its parameters."""
        from clients.prompts.views import show_prompt
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: show_prompt(context, name, tag))

    @command(prompts, "diff", PANEL)
    def diff(
        context: Context,
        name: NameArgument,
        before: Annotated[
            str, typer.Argument(metavar="BEFORE", help="A tag, a version, a run, RUN@baseline, or `source`.")
        ] = "source",
        after: Annotated[str, typer.Argument(metavar="AFTER", help="Likewise.")] = "stable",
    ) -> int:
        """Show side by side what differs. `source` is the prompt as its author wrote it; a run stands for its winner."""
        from clients.prompts.diffs import show_differences
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: show_differences(context, name, before, after))

    @command(prompts, "render", PANEL)
    def render(
        context: Context,
        name: NameArgument,
        tag: TagOption = "stable",
        given: Annotated[
            list[str] | None,
            typer.Option("--input", metavar="NAME=VALUE", help="What {{input.NAME}} stands for; again for more."),
        ] = None,
        file: Annotated[
            Path | None, typer.Option("--input-file", metavar="FILE", help="The whole input, as JSON.", show_default=False)
        ] = None,
        mutations: Annotated[bool, typer.Option("--mutations", help="With the last steps that led to it, for people.")] = False,
    ) -> int:
        """Render a prompt for one input, as production code would."""
        from clients.prompts.views import render_prompt
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: render_prompt(context, name, tag, given or [], file, mutations))

    @command(prompts, "tags", PANEL)
    def tags(
        context: Context,
        name: NameArgument,
        history: Annotated[
            str | None, typer.Option("--history", metavar="TAG", help="Every state that this tag ever had.", show_default=False)
        ] = None,
        temporary: Annotated[bool, typer.Option("--temporary", help="Those of candidates under evaluation, too.")] = False,
    ) -> int:
        """List the tags of a prompt, or the history of one."""
        from clients.prompts.views import list_tags
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: list_tags(context, name, history, temporary))

    @command(prompts, "releases", PANEL)
    def releases(
        context: Context,
        name: Annotated[
            str | None, typer.Argument(metavar="[NS/KEY]", help="Of one prompt. [default: all]", show_default=False)
        ] = None,
        limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many, the newest first.")] = 20,
    ) -> int:
        """Show the audit log: what was released when, by whom and why, and what was not."""
        from clients.prompts.views import list_releases
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: list_releases(context, name, limit))


def _add_storing(prompts: typer.Typer) -> None:
    @command(prompts, "seed", PANEL)
    def seed(
        context: Context,
        file: Annotated[Path, typer.Argument(metavar="FILE", help="The prompt, as YAML.", show_default=False)],
        tag: Annotated[str, typer.Option("--tag", help="The tag to put it under.")] = "stable",
        by: ByOption = None,
        reason: ReasonOption = "",
    ) -> int:
        """Store a prompt under a tag that does not exist yet. A tag that does is left as it is."""
        from clients.prompts.transfers import seed_prompt
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: seed_prompt(context, file, tag, by, reason))

    @command(prompts, "import", PANEL)
    def import_(
        context: Context,
        source: Annotated[
            Path,
            typer.Argument(metavar="DIR", help="A folder that `export` wrote, or one file of it.", show_default=False),
        ],
        name: Annotated[
            str | None, typer.Option("--name", metavar="NS/KEY", help="For files that do not say which prompt they are of.")
        ] = None,
        tag: Annotated[
            str, typer.Option("--tag", help="The tag that gets the current version, if it does not exist yet.")
        ] = "stable",
        by: ByOption = None,
        reason: ReasonOption = "",
    ) -> int:
        """Bring in every version in a folder. A version that is here already must be the same; no tag that exists moves."""
        from clients.prompts.transfers import import_versions
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: import_versions(context, source, name, tag, by, reason))

    @command(prompts, "apply", PANEL)
    def apply(
        context: Context,
        run_id: Annotated[str, typer.Argument(metavar="ID", help="A finished run of `compress`.", show_default=False)],
        tag: Annotated[
            str | None, typer.Option("--tag", help="The tag that moves. [default: the one that the run began with]")
        ] = None,
        by: ByOption = None,
        reason: ReasonOption = "",
    ) -> int:
        """Put in force what a run made shorter, in the store that RATCHET_OVERRIDES names.

        The tag moves only if it still points to what the run began with. It becomes a version, but nobody approves it and
        it is not in the audit log: that is what `ratchet release` is for.
        """
        from clients.prompts.application import apply_run
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: apply_run(context, run_id, tag, by, reason))

    @command(prompts, "export", PANEL)
    def export(
        context: Context,
        name: NameArgument,
        folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write them.", show_default=False)],
        tag: Annotated[str, typer.Option("--tag", help="The tag whose version is the current one.")] = "stable",
    ) -> int:
        """Write every version as `prompt_v1.0.0.yaml`, and `versions.json`, which says which is current."""
        from clients.prompts.transfers import export_versions
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: export_versions(context, name, folder, tag))

    @command(prompts, "migrate", PANEL)
    def migrate(
        context: Context,
        source: Annotated[
            str, typer.Argument(metavar="FROM", help="postgres, file:DIR, s3://…, redis://…", show_default=False)
        ],
        destination: Annotated[str, typer.Argument(metavar="TO", help="Likewise.", show_default=False)],
    ) -> int:
        """Copy every prompt with its versions, its tags and their whole history from one store to another."""
        from clients.prompts.transfers import migrate_prompts
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: migrate_prompts(context, source, destination))
