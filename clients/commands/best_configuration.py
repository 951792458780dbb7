"""`ratchet best`: what a run has found, as other programs read it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clients.commands.context import CommandError, Context, ExitCode, command
from clients.commands.steer import RunArgument

if TYPE_CHECKING:
    from clients.reports.facts import RunFacts


def add_to(app: typer.Typer) -> None:
    """Register the command."""

    @command(app, "best", "Watch")
    def best(
        context: Context,
        run_id: RunArgument,
        factor: Annotated[
            str | None,
            typer.Argument(metavar="[FACTOR]", help="Only this factor's value: a text as it is.", show_default=False),
        ] = None,
    ) -> int:
        """Print the best configuration, or one factor of it, and nothing else: `ratchet best ID system_prompt > prompt.txt`.

        All of it is printed as YAML, which `ratchet propose` reads. While the run goes on it is the best so far.
        """
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: print_best(context, run_id, factor))


async def print_best(context: Context, run_id: str, factor: str | None) -> int:
    """Print what a run stands for; how sure that is goes to stderr."""
    from clients.reports.load import facts_of
    from clients.runs.lookup import reach_run

    async with reach_run(context.home, run_id) as (servers, _):
        report = await servers.reader.runs.report(run_id)
    if report is None:
        raise CommandError(f"{run_id} has not begun; there is no best configuration yet")
    facts = facts_of(report)
    found = _configuration(facts)
    if factor is not None and factor not in found:
        raise CommandError(f"{run_id} has no factor {factor!r}; it has {', '.join(found)}")
    if not facts.is_over:
        context.note(f"ratchet: {run_id} is {facts.status}: this is the best so far")
    if context.json:
        context.facts({"run_id": run_id, "over": facts.is_over, **_as_json(found, factor)})
    else:
        _write(_text(found, factor))
    return ExitCode.DONE


def _configuration(facts: RunFacts) -> dict[str, Any]:
    """That of the result; of a run without one that of the best so far, which is the baseline at first."""
    from clients.reports.facts import best_iteration

    if facts.result is not None and facts.result.best_configuration:
        return dict(facts.result.best_configuration)
    best = best_iteration(facts)
    return dict(best.configuration if best is not None else facts.request.baseline)


def _as_json(found: dict[str, Any], factor: str | None) -> dict[str, Any]:
    return {"configuration": found} if factor is None else {"factor": factor, "value": found[factor]}


def _text(found: dict[str, Any], factor: str | None) -> str:
    import json

    from ratchet._formats.yaml_text import yaml_text

    if factor is None:
        return yaml_text(found)
    value = found[factor]
    return f"{value}\n" if isinstance(value, str) else f"{json.dumps(value, ensure_ascii=False)}\n"


def _write(text: str) -> None:
    """To a program as it is; on a terminal what would steer it is shown instead."""
    from ratchet._text.visible import visible

    sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()
