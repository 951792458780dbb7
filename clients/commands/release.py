"""`ratchet release`, `rollback`, `approve`, `reject`: what becomes of a winner."""

from __future__ import annotations

from typing import Annotated

import typer

from clients.commands.context import CommandError, Context, command

PANEL = "Release"
RunArgument = Annotated[str, typer.Argument(metavar="ID", help="The run's id, as `ratchet list` shows it.", show_default=False)]
ByOption = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who does this. [default: your user name]")]
TagOption = Annotated[str, typer.Option("--tag", help="The tag that moves.")]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is written in the audit log.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""

    @command(app, "release", PANEL)
    def release(
        context: Context,
        what: Annotated[
            str, typer.Argument(metavar="ID", help="A finished run; with --from, a prompt: NAMESPACE/KEY.", show_default=False)
        ],
        prompt: Annotated[
            str | None, typer.Option("--prompt", metavar="NS/KEY", help="Which prompt. [default: the one that the spec names]")
        ] = None,
        tag: Annotated[str | None, typer.Option("--tag", help="The tag that moves. [default: the spec's, else stable]")] = None,
        canary: Annotated[
            bool, typer.Option("--canary", help="Move the tag `canary`; the real one stays where it is.")
        ] = False,
        source: Annotated[
            str | None, typer.Option("--from", metavar="TAG", help="Release what this tag points to, such as a canary.")
        ] = None,
        force: Annotated[
            bool, typer.Option("--force", help="Release it although the confirmation shows a regression.")
        ] = False,
        by: ByOption = None,
        reason: ReasonOption = "",
    ) -> int:
        """Release the winner of a finished run, or what a canary has proven.

        The tag moves only if it still points to what the winner was compared with; otherwise nothing changes.
        """
        from clients.prompts.stores import user
        from clients.runs.interruption import run_async
        from clients.runs.release_calls import release_run, release_tag
        from clients.runs.winner_release import ReleaseOptions

        options = ReleaseOptions(prompt=prompt, tag=tag, canary=canary, force=force, by=by or user(), reason=reason)
        if source is None:
            return run_async(context, lambda _: release_run(context, what, options))
        if canary or prompt is not None:
            raise CommandError("--from: names the tag of the prompt given as ID; leave --canary and --prompt out")
        return run_async(context, lambda _: release_tag(context, what, source, options))

    @command(app, "rollback", PANEL)
    def rollback(
        context: Context,
        prompt: Annotated[str, typer.Argument(metavar="NS/KEY", help="The prompt.", show_default=False)],
        to: Annotated[
            str | None, typer.Option("--to", metavar="VERSION", help="Any version. [default: the one before the present one]")
        ] = None,
        tag: TagOption = "stable",
        by: ByOption = None,
        reason: ReasonOption = "",
    ) -> int:
        """Move a tag back to an earlier version, or to any other, as a step of its own in the audit log."""
        from clients.prompts.stores import user
        from clients.runs.interruption import run_async
        from clients.runs.release_calls import roll_back
        from clients.runs.winner_release import ReleaseOptions

        options = ReleaseOptions(tag=tag, by=by or user(), reason=reason)
        return run_async(context, lambda _: roll_back(context, prompt, to, options))

    @command(app, "approve", PANEL)
    def approve(
        context: Context,
        run_id: RunArgument,
        by: ByOption = None,
        comment: Annotated[str, typer.Option("--comment", metavar="TEXT", help="Why; it is written in the audit log.")] = "",
    ) -> int:
        """Approve the release that a run asked for, and carry it out."""
        from clients.runs.interruption import run_async
        from clients.runs.release_calls import rule_on

        return run_async(context, lambda _: rule_on(context, run_id, "approve", by, comment))

    @command(app, "reject", PANEL)
    def reject(
        context: Context,
        run_id: RunArgument,
        by: ByOption = None,
        comment: Annotated[str, typer.Option("--comment", metavar="TEXT", help="Why; it is written in the audit log.")] = "",
    ) -> int:
        """Reject the release that a run asked for; nothing moves."""
        from clients.runs.interruption import run_async
        from clients.runs.release_calls import rule_on

        return run_async(context, lambda _: rule_on(context, run_id, "reject", by, comment))
