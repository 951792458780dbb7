"""`ratchet check`: everything that can be wrong before money is spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from clients.commands.context import CommandError, Context, ExitCode, command
from clients.commands.run import SpecArgument

if TYPE_CHECKING:
    from clients.checks.estimate import Estimate
    from clients.checks.findings import Checked
    from workflows.model.spec.request import OptimizationRequest


def add_to(app: typer.Typer) -> None:
    """Register the command."""

    @command(app, "check", "Begin")
    def check(context: Context, spec: SpecArgument) -> int:
        """Check a spec: its fields, its data, its plug-ins, its models and the servers; nothing is started."""
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: check_command(context, spec))


async def check_command(context: Context, spec: Path) -> int:
    """Check and tell. The servers are looked at only when they run already: embedded ones start with the run."""
    from clients.checks.estimate import estimate
    from clients.checks.findings import Finding, check_spec
    from clients.checks.spec_file import read_spec_file
    from clients.checks.team_shortage import team_warning
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
    lines, more = summary_of(checked)
    context.facts(facts | more, "\n".join(lines) if away is None else None)


def _cost(costs: Estimate, budget: float) -> str:
    if costs.cost is None or costs.expected_cost is None:
        return "nothing bounds it: set budget.cost"
    limit = f", never above the budget of {budget:g}" if budget else ""
    return f"about {costs.expected_cost:.2f} expected, {costs.cost:.2f} at worst{limit}"


def _at_most(costs: Estimate) -> str:
    from clients.reports.formatting import counted

    if costs.calls is not None:
        trials = "" if costs.trials is None else f"{counted(costs.trials, 'trial')}, "
        return f"{trials}{costs.calls:,} target calls"
    if costs.trials is not None:
        return f"{costs.trials} trials, of as many target calls as the data says"
    return "nothing bounds the run: set stop.max_rounds or a budget"


def _trial(replicates: int | str, costs: Estimate) -> str:
    if replicates == "auto":
        return f"at most {costs.samples_per_trial} samples, {costs.calls_per_trial} calls, once the noise is known"
    return f"{costs.samples_per_trial} samples × {replicates} = {costs.calls_per_trial} calls"


def _optimizer(request: OptimizationRequest) -> str:
    why = request.why_its_optimizer
    return request.optimizer.name if why is None else f"{request.optimizer.name}, {why}"


def summary_of(checked: Checked) -> tuple[list[str], dict[str, object]]:
    """What the run will do, for a person and as JSON."""
    from clients.checks.estimate import estimate
    from clients.checks.prompt_source import described_prompt, prompt_facts
    from clients.reports.formatting import counted
    from clients.runs.identity import foreseen_run_id
    from workflows.rules.spec.prompt_factors import is_read
    from workflows.rules.statistics.detectable_effect import assumed_plan

    request = checked.known
    if request is None:
        raise CommandError("nothing was checked")
    costs = estimate(checked)
    data = checked.dataset
    given = request.dataset
    stored = f"{given.name} of the store" if given.id is None else f"dataset {given.id[:12]}… of the store"
    unknown = f"what {given.ref} gives when the run begins" if given.ref is not None else stored
    dataset = f"{data.count} samples" if data else unknown
    if data and data.duplicates_dropped:
        dataset += f" ({counted(data.duplicates_dropped, 'duplicate')} left out)"
    if checked.counting is not None:
        dataset += f", which count as {checked.counting:,}"
    splits = ", ".join(f"{name} {size}" for name, size in checked.splits.items())
    rows = {
        "Dataset": f"{dataset}: {splits}" if splits else dataset,
        **({} if request.prompt is None else {"Prompt": described_prompt(request)}),
        "Factors": ", ".join(request.changeable) or ("none may change" if is_read(request) else "those of the prompt"),
        "Optimizer": _optimizer(request),
        "Objective": f"{request.objective.direction.value} {request.objective.kind} of {request.metric}",
        "A trial": _trial(request.replicates, costs) if data else "as the data says",
        "At most": _at_most(costs),
    }
    if costs.expected_tokens:
        rows["Tokens"] = f"about {costs.expected_tokens:,} expected, {costs.tokens or 0:,} at worst"
    if costs.costs_money:
        rows["Cost"] = _cost(costs, request.budget.cost)
    plan = assumed_plan(request, costs.samples_per_trial) if data and costs.trials != 1 else None
    if plan is not None:
        rows["Can find"] = plan.words
    run_id = foreseen_run_id(checked)
    if run_id is not None:
        rows["Run"] = run_id
    lines = [f"{checked.path}: ok", *(f"  {name + ':':<11}{value}" for name, value in rows.items())]
    more: dict[str, object] = {
        "run_id": run_id,
        "samples": data.count if data else None,
        "duplicates_dropped": data.duplicates_dropped if data else None,
        "counting": checked.counting if checked.counting is not None or data is None else data.count,
        "dataset_id": data.dataset_id if data else request.dataset.id,
        "splits": checked.splits,
        "prompt": None if request.prompt is None else prompt_facts(request),
        "factors": list(request.changeable),
        "optimizer": {"name": request.optimizer.name, "why": request.why_its_optimizer},
        "estimate": costs.as_json(),
        "plan": plan.model_dump(mode="json") if plan else None,
    }
    return lines, more
