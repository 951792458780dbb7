"""`ratchet check`: everything that can be wrong before money is spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from clients.commands.context import Context, ExitCode, command
from clients.commands.run import SpecArgument

if TYPE_CHECKING:
    from clients.checks.findings import Checked


def add_to(app: typer.Typer) -> None:
    """Register the command."""

    @command(app, "check", "Begin")
    def check(context: Context, spec: SpecArgument) -> int:
        """Check a spec: its fields, its data, its plug-ins, its models and the servers; nothing is started."""
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: check_command(context, spec))


async def check_command(context: Context, spec: Path) -> int:
    """Check and tell. The servers are looked at only when they run already: embedded ones start with the run."""
    from clients.checks.costs.estimate import estimate
    from clients.checks.costs.team_shortage import team_warning
    from clients.checks.findings import Finding, check_spec
    from clients.checks.spec_file import read_spec_file
    from clients.embedded.stack import stack_state
    from clients.runs.service.pollers import Pollers, unserved_queues, unserved_without_servers
    from clients.runs.service.servers import ServersAway, named_by_environment, reach_servers, task_queue
    from clients.settings import client_settings

    named = named_by_environment()
    checked = await check_spec(spec, own_worker=not named, home=context.home)
    request = checked.request
    away: str | None = None
    unserved: list[str] = [] if request is None or named else unserved_without_servers(request)
    asks_pollers, team_short = named or bool(unserved), None
    if named or stack_state(context.home).running:
        try:
            async with reach_servers(context.home) as servers:
                if request is not None and asks_pollers:
                    pollers = Pollers(servers.client, nearby=servers.embedded)
                    unserved = await unserved_queues(pollers, request, task_queue(), own=not named)
                if checked.known is not None and not checked.errors:
                    months, team = servers.reader.team_months, client_settings().team
                    team_short = await team_warning(months, team, estimate(checked))
        except ServersAway as error:
            away = str(error) if asks_pollers else None
    if team_short is not None:
        checked.findings.append(Finding(team_short, severity="warning"))
    for told in unserved:
        checked.findings.append(Finding(told, read_spec_file(spec).line_of(told), "warning"))
    for finding in checked.findings:
        context.note(finding.told(spec))
    if away is not None:
        context.note(f"ratchet: {away}")
    code = ExitCode.BAD_INPUT if checked.errors else ExitCode.UNREACHABLE if away else ExitCode.DONE
    _tell(context, checked, code, away)
    return code


def _tell(context: Context, checked: Checked, code: ExitCode, away: str | None) -> None:
    facts: dict[str, object] = {
        "spec": str(checked.path),
        "ok": code is ExitCode.DONE,
        "exit_code": int(code),
        "findings": [finding.as_json() for finding in checked.findings],
        "servers": away or "ok",
    }
    if checked.errors:
        count = len(checked.errors)
        context.facts(facts, f"{checked.path}: {count} {'thing is' if count == 1 else 'things are'} wrong")
        return
    from clients.checks.plan_summary import summary_of

    lines, more = summary_of(checked)
    context.facts(facts | more, "\n".join(lines) if away is None else None)
