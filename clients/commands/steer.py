"""`ratchet stop`, `cancel`, `pause`, `resume`, `adjust`, `propose`, `delete`: what may be asked of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from clients.commands.context import CommandError, Context, command

RunArgument = Annotated[str, typer.Argument(metavar="ID", help="The run's id, as `ratchet list` shows it.", show_default=False)]
PANEL = "Steer"


def add_to(app: typer.Typer) -> None:
    """Register the commands."""

    @command(app, "stop", PANEL)
    def stop(
        context: Context,
        run_id: RunArgument,
        reason: Annotated[
            str | None, typer.Option("--reason", metavar="TEXT", help="Why; it is written in the report.")
        ] = None,
    ) -> int:
        """End a run early: what is in flight finishes, the best is kept, confirmed and reported."""
        from clients.runs.interruption import run_async
        from clients.runs.updates import stop_run

        return run_async(context, lambda _: stop_run(context, run_id, reason))

    @command(app, "cancel", PANEL)
    def cancel(context: Context, run_id: RunArgument) -> int:
        """Cancel a run: trials in flight are cut off, and what is known so far is kept."""
        from clients.runs.interruption import run_async
        from clients.runs.updates import cancel_run

        return run_async(context, lambda _: cancel_run(context, run_id))

    @command(app, "pause", PANEL)
    def pause(context: Context, run_id: RunArgument) -> int:
        """Let a run rest before its next round."""
        return _update(context, run_id, "pause")

    @command(app, "resume", PANEL)
    def resume(context: Context, run_id: RunArgument) -> int:
        """Let a paused run go on."""
        return _update(context, run_id, "resume")

    @command(app, "adjust", PANEL)
    def adjust(
        context: Context,
        run_id: RunArgument,
        cost: Annotated[float | None, typer.Option("--cost", help="What it may cost in all.")] = None,
        tokens: Annotated[int | None, typer.Option("--tokens", help="Tokens in all.")] = None,
        samples: Annotated[int | None, typer.Option("--samples", help="Target calls in all.")] = None,
        trials: Annotated[int | None, typer.Option("--trials", help="Trials in all.")] = None,
        wall_time: Annotated[str | None, typer.Option("--wall-time", metavar="TIME", help="Time in all: 90s, 15m, 2h.")] = None,
        concurrent_trials: Annotated[int | None, typer.Option("--concurrent-trials", help="Trials side by side.")] = None,
        concurrent_samples: Annotated[int | None, typer.Option("--concurrent-samples", help="Target calls in flight.")] = None,
        priority: Annotated[
            int | None, typer.Option("--priority", help="1 to 5: whose calls go first where runs wait for the same endpoint.")
        ] = None,
        requests_per_minute: Annotated[
            list[str] | None,
            typer.Option("--requests-per-minute", metavar="MODEL=N", help="How often a model, or a URL, may be called."),
        ] = None,
        tokens_per_minute: Annotated[
            list[str] | None,
            typer.Option("--tokens-per-minute", metavar="MODEL=N", help="Tokens of a model, or of a URL, in and out."),
        ] = None,
        max_rounds: Annotated[int | None, typer.Option("--max-rounds", help="Rounds after the baseline.")] = None,
        no_improvement: Annotated[
            int | None, typer.Option("--no-improvement", help="Rounds in a row without a better one.")
        ] = None,
        min_delta: Annotated[
            float | None, typer.Option("--min-delta", help="How much better counts for --no-improvement.")
        ] = None,
        score: Annotated[float | None, typer.Option("--score", help="The score that is good enough.")] = None,
    ) -> int:
        """Change budgets, limits and stop rules of an open run; what is left out stays, and a budget of 0 is unlimited."""
        budget = {"cost": cost, "tokens": tokens, "samples": samples, "trials": trials, "wall_time": wall_time}
        rest: dict[str, Any] = {
            "concurrent_trials": concurrent_trials,
            "concurrent_samples": concurrent_samples,
            "priority": priority,
            "rate_limits": rate_limits_of(requests_per_minute or [], tokens_per_minute or []),
            "max_rounds": max_rounds,
            "no_improvement": no_improvement,
            "min_delta": min_delta,
            "score": score,
        }
        return _update(context, run_id, "adjust", adjustment_of(budget, rest))

    @command(app, "propose", PANEL)
    def propose(
        context: Context,
        run_id: RunArgument,
        file: Annotated[
            Path,
            typer.Argument(
                metavar="FILE", help="Values by factor, as YAML or JSON; - reads standard input.", show_default=False
            ),
        ],
        rationale: Annotated[
            str | None, typer.Option("--rationale", metavar="TEXT", help="Why it may be better; it is written in the report.")
        ] = None,
    ) -> int:
        """Offer a candidate of your own, tried in the next round; factors left out keep the baseline's values.

        What could never be tried is refused at once, with exit code 2: an unknown or frozen factor, a value that its factor
        does not take, a placeholder that was lost, a configuration that was tried already.
        """
        from clients.commands.proposal_file import read_proposal

        return _update(context, run_id, "propose", read_proposal(file, rationale))

    @command(app, "delete", PANEL)
    def delete(
        context: Context,
        run_id: RunArgument,
        yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; needed where nobody is there to be asked.")] = False,
    ) -> int:
        """Delete a finished run from the store, with its trials, answers and events, for good."""
        from clients.runs.interruption import run_async
        from clients.runs.updates import delete_run

        return run_async(context, lambda _: delete_run(context, run_id, yes=yes))


def rate_limits_of(requests: list[str], tokens: list[str]) -> dict[str, dict[str, str]] | None:
    """`MODEL=N`, as often as given, as the update's limits by model."""
    limits: dict[str, dict[str, str]] = {}
    for field, given in (("requests_per_minute", requests), ("tokens_per_minute", tokens)):
        for text in given:
            name, separator, number = text.rpartition("=")
            if not separator or not name or not number.replace("_", "").isdecimal():
                option = field.replace("_", "-")
                raise CommandError(f"adjust: --{option}: {text!r} is no limit; write MODEL=N, e.g. --{option} gpt-5-mini=300")
            limits.setdefault(name, {})[field] = number
    return limits or None


def adjustment_of(budget: dict[str, Any], rest: dict[str, Any]) -> dict[str, Any]:
    """The update's input, checked here so that a mistake is told before anything is asked of a server."""
    import pydantic

    from ratchet._text.explanation import explain
    from workflows.model.spec.execution import Adjustment

    given = {name: value for name, value in rest.items() if value is not None}
    limits = {name: value for name, value in budget.items() if value is not None}
    if limits:
        given["budget"] = limits
    if not given:
        raise CommandError("adjust: give at least one new limit, e.g. --cost 5 or --max-rounds 30")
    try:
        return Adjustment.model_validate(given).model_dump(mode="json", exclude_none=True)
    except pydantic.ValidationError as error:
        told = "; ".join(_by_option(line) for line in explain(error))
        raise CommandError(f"adjust: {told}") from None


def _by_option(line: str) -> str:
    """`budget.wall_time: …` as the person wrote it: `--wall-time: …`."""
    where, separator, problem = line.partition(": ")
    return f"--{where.removeprefix('budget.').replace('_', '-')}{separator}{problem}"


def _update(context: Context, run_id: str, name: str, argument: dict[str, Any] | None = None) -> int:
    from clients.runs.interruption import run_async
    from clients.runs.updates import update_run

    return run_async(context, lambda _: update_run(context, run_id, name, argument))
