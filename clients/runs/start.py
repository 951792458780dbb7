"""Starting a run of a spec, or finding the one there is."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from activities.endpoints.endpoint_policy import named_by, note_allowed
from activities.preparing.factor_files import FactorFileMissing, keep_factor_files
from clients.checks.costs.estimate import estimate
from clients.checks.costs.team_shortage import team_warning
from clients.checks.findings import Checked, check_spec
from clients.checks.plan_summary import question_before, summary_of
from clients.commands.context import CommandError, Context, ExitCode
from clients.embedded.home import Home
from clients.local_audit import audited
from clients.runs.answered_run import Answered, NotRescored, answered_run
from clients.runs.attendance import attend, leave_started
from clients.runs.identity import further_ids
from clients.runs.interruption import Interruption
from clients.runs.lookup import WORKFLOW, KnownRun, existing_run, known_run, noted_as_written, reach_run, spec_as_written
from clients.runs.questions import agreed, is_at_terminal
from clients.runs.retried_run import NotRetried, Retried, needs_code, retried_run, told_to_retry_elsewhere
from clients.runs.run_options import RunOptions
from clients.runs.service.run_code import CodeMissing, code_to_retry, note_code, notes_for
from clients.runs.service.servers import Servers, named_by_environment, once_back, reach_servers, task_queue
from clients.runs.start_plan import StartPlan, plan_run, served_on, sized, with_known_size
from clients.runs.views.summary import show_end
from clients.settings import client_settings
from store.write.access.teams import Teams
from workflows.fair_shares import share_of
from workflows.model.spec.extensions.scorer_options import placed_scorers
from workflows.model.spec.request import OptimizationRequest


@dataclass(frozen=True)
class BegunRun:
    """A run that was found or started."""

    run_id: str
    plan: StartPlan
    is_finished: bool = False
    status: str = ""
    """Of one that is finished."""


async def run_spec(context: Context, path: Path, options: RunOptions, interruption: Interruption) -> int:
    """Check, then attach to the open run, show the finished one, or start one."""
    embedded = not named_by_environment()
    checked = await check_spec(path, own_worker=embedded, whole_engine=options.whole_engine, home=context.home)
    refuse_findings(context, checked)
    if options.dry_run:
        return tell_plan(context, checked)
    if not named_by_environment():
        context.say(f"Servers: embedded, in {context.home}")
    async with reach_servers(context.home) as servers:
        if options.retry_failed:
            plan = await once_back(servers, lambda: plan_run(servers, checked, team=client_settings().team), context.note)
            before = await once_back(servers, lambda: _chosen(servers, plan.run_id, new=False), context.note)
            await _confirm(context, servers, plan.team, await with_known_size(context, servers, checked, plan), options)
            _allow(context, servers, plan, checked)
            return await start_retry(context, servers, plan, before, options, interruption)
        begun = await begin_run(context, servers, checked, options)
        if begun.is_finished:
            return await _show_finished(context, servers, begun, options)
        if options.detach:
            return await leave_started(context, servers, begun.run_id, begun.plan)
        return await attend(context, servers, begun.run_id, begun.plan.plugins, options, interruption)


async def begin_run(context: Context, servers: Servers, checked: Checked, options: RunOptions) -> BegunRun:
    """Find the finished run of a spec, attach to the open one, or start one."""
    source = await _answers_of(servers, options.rescore_of)
    team = client_settings().team if source is None else await servers.reader.teams.of_run(source.run_id)
    plan = await once_back(servers, lambda: plan_run(servers, checked, source, team), context.note)
    run = await once_back(servers, lambda: _chosen(servers, plan.run_id, new=options.new), context.note)
    if run.is_finished:
        return BegunRun(run.run_id, plan, is_finished=True, status=run.status)
    run_id = run.run_id
    if run.is_open:
        context.say(f"{run_id} is {run.status}; attached to it ({options.words.new} would start another)")
    else:
        if source is None or _asks_a_judge(plan.request):
            await _confirm(context, servers, plan.team, await with_known_size(context, servers, checked, plan), options)
        _allow(context, servers, plan, checked)
        plan = replace(plan, request=_looked_at_first(context, plan.request, options))
        run_id = await _start(servers, plan, run_id, fresh=options.new)
        context.say(f"Started {run_id}" + (f", which scores the answers of {source.run_id} anew" if source else ""))
    await _note(context, servers, plan, run_id)
    return BegunRun(run_id, plan)


async def _answers_of(servers: Servers, run_id: str | None) -> Answered | None:
    if run_id is None:
        return None
    await existing_run(servers, run_id)
    try:
        return await answered_run(servers.reader, run_id)
    except NotRescored as error:
        raise CommandError(str(error)) from None


def _allow(context: Context, servers: Servers, plan: StartPlan, checked: Checked) -> None:
    """Have this home's own workers accept what this spec names: who runs it here is their operator."""
    assert checked.request is not None
    if servers.embedded or plan.plugins is not None or plan.program is not None:
        home = Home.at(context.home)
        home.make()
        note_allowed(home.allowed, named_by(checked.request))


def refuse_findings(context: Context, checked: Checked) -> None:
    """Warnings are told; errors end the command before anything is started."""
    for warning in checked.warnings:
        context.note(warning.told(checked.path))
    if checked.errors:
        told = "\n".join(finding.told(checked.path) for finding in checked.errors)
        findings = [finding.as_json() for finding in checked.findings]
        raise CommandError(f"{checked.path} cannot be run:\n{told}", facts={"findings": findings})


async def _note(context: Context, servers: Servers, plan: StartPlan, run_id: str) -> None:
    """Keep what code the run needs, so that `dev`, `watch` and `retry` serve it."""
    code = plan.code
    if code is None:
        return

    run = await once_back(servers, lambda: known_run(servers, run_id), context.note)
    try:
        await note_code(servers, context.home, run, code)
    except OSError as error:
        context.note(f"ratchet: only `ratchet run` of its spec will serve {run_id}, as that cannot be noted: {error}")


async def _chosen(servers: Servers, first: str, *, new: bool) -> KnownRun:
    """The newest run of this spec, or with `new` an id that was never used."""
    newest: KnownRun | None = None
    for run_id in further_ids(first):
        run = await known_run(servers, run_id)
        if not run.exists:
            return run if new or newest is None else newest
        if new and not run.is_open and not run.is_finished:
            return run  # refused before it began; nothing is lost by using its id
        newest = run
    raise AssertionError("there is always a further id")


async def _confirm(context: Context, servers: Servers, team: str, checked: Checked, options: RunOptions) -> None:
    """Before more money may be spent than nobody minds, a person at a terminal is asked; anybody else says so beforehand.

    Where the month of its team does not cover it, everybody is told.
    """
    costs = estimate(checked)
    short = await once_back(servers, lambda: team_warning(servers.reader.team_months, team, costs), context.note)
    if short is not None:
        context.note(f"{checked.path}: warning: {short}")
    told = question_before(costs, options.ask_above)
    if options.yes or told is None:
        return
    if not is_at_terminal(context):
        raise CommandError(
            f"{told} There is nobody to ask: give {options.words.yes} to start it, "
            f"or set budget.cost to at most {options.ask_above:g}",
            facts={"estimate": costs.as_json()},
        )
    if not await agreed(f"{told} Start?", unless_said=True):
        raise CommandError("nothing was started", ExitCode.CANCELLED)


def _asks_a_judge(request: OptimizationRequest) -> bool:
    """Whether scoring alone may cost something."""
    return any(scorer.asked_model is not None for _, scorer in placed_scorers(request.scorers))


def tell_plan(context: Context, checked: Checked) -> int:
    """What the run would do and cost; nothing is started."""
    lines, more = summary_of(checked)
    context.facts({"spec": str(checked.path), "dry_run": True, **more}, "\n".join([*lines, "Nothing was started."]))
    return ExitCode.DONE


async def start_retry(
    context: Context, servers: Servers, plan: StartPlan, before: KnownRun, options: RunOptions, interruption: Interruption
) -> int:
    """Start a run that takes over what a finished one was answered, and asks again for what failed or is missing."""
    if not before.is_open and not before.is_finished:
        raise CommandError(f"there is nothing to retry: {before.run_id} never began; run it first")
    source = await _retried(servers, before.run_id)
    if source.removed:
        context.note(f"{before.run_id}: {source.removed} What they were is asked again, and paid again.")
    request = _looked_at_first(context, plan.request.model_copy(update={"retry_of": before.run_id}), options)
    retry = replace(plan, request=request)
    fresh = await _chosen(servers, plan.run_id, new=True)
    run_id = await _start(servers, retry, fresh.run_id, fresh=True)
    await _note(context, servers, retry, run_id)
    takes = "asks everything anew" if source.removed else f"takes over all answers of {before.run_id} but the failed ones"
    context.say(f"Started {run_id}, which {takes}")
    if options.detach:
        return await leave_started(context, servers, run_id, retry)
    return await attend(context, servers, run_id, retry.plugins, options, interruption)


async def _retried(servers: Servers, run_id: str) -> Retried:
    try:
        return await retried_run(servers.reader, run_id)
    except NotRetried as error:
        raise CommandError(str(error)) from None


async def retry_run(context: Context, run_id: str, options: RunOptions, interruption: Interruption) -> int:
    """Retry a finished run by its id, with the spec that the store keeps."""
    async with reach_run(context.home, run_id) as (servers, run):
        source = await _retried(servers, run_id)
        request = source.request
        try:
            code = await code_to_retry(notes_for(servers, context.home), run_id, request, task_queue())
        except CodeMissing as error:
            raise CommandError(str(error)) from None
        if code is None and needs_code(request, task_queue()):
            raise CommandError(told_to_retry_elsewhere(run_id))
        if code is not None and code.task_queue != request.execution.evaluation_task_queue:
            context.note(
                f"the code beside {code.spec} has changed since {run_id} began: it is retried with the code as it is now"
            )
            request = request.model_copy(update={"execution": served_on(request, code.task_queue)})
        memo: dict[str, Any] = {"host": platform.node(), **noted_as_written(await spec_as_written(run))}
        memo |= {} if code is None else {"spec": code.spec, "plugins": True}
        await _confirm(context, servers, source.team, await sized(servers, source, request), options)
        first = StartPlan(request, source.first_id, code, memo, source.team)
        return await start_retry(context, servers, first, run, options, interruption)


def _looked_at_first(context: Context, request: OptimizationRequest, options: RunOptions) -> OptimizationRequest:
    """Ask whoever is there to be asked, where the spec leaves it open."""
    mode = request.execution.first_look
    if options.ending.strict:
        mode = "strict"
    elif options.yes:
        mode = "tell" if mode == "ask" else mode
    elif mode == "tell" and options.asks_after_look and not options.detach and is_at_terminal(context):
        mode = "ask"
    return request.model_copy(update={"execution": request.execution.model_copy(update={"first_look": mode})})


async def _start(servers: Servers, plan: StartPlan, run_id: str, *, fresh: bool) -> str:
    """Start the workflow; when somebody else was faster, join theirs, or with `fresh` take the next id."""
    conflict = WorkflowIDConflictPolicy.FAIL if fresh else WorkflowIDConflictPolicy.USE_EXISTING
    if not await Teams(servers.database).claim_run(run_id, plan.team):
        raise CommandError(f"the id {run_id!r} is another team's; give the spec another name")
    try:
        await keep_factor_files(servers.database, run_id, plan.files)
    except FactorFileMissing as error:
        raise CommandError(str(error)) from None
    action = "start" if plan.request.retry_of is None else "retry"
    try:
        async with audited(servers.database, action, run_id=run_id, refusals=(WorkflowAlreadyStartedError,)):
            await servers.client.start_workflow(
                WORKFLOW,
                plan.request.model_dump(mode="json", by_alias=True),
                id=run_id,
                task_queue=task_queue(),
                id_conflict_policy=conflict,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                memo={"ratchet": plan.memo},
                priority=share_of(run_id, plan.request.execution.priority),
                static_summary=f"optimize {plan.request.name}",
            )
    except WorkflowAlreadyStartedError:
        return await _start(servers, plan, (await _chosen(servers, plan.run_id, new=True)).run_id, fresh=True)
    return run_id


async def _show_finished(context: Context, servers: Servers, run: BegunRun, options: RunOptions) -> int:
    again = "`--new` runs it again."
    if run.status != "completed":
        again = "`--retry-failed` goes on with the answers that it has, `--new` pays for all of them again."
    remark = f"This spec ran before, as {run.run_id} ({run.status}); nothing was called or paid. {again}"
    return await show_end(context, servers, run.run_id, options.ending, remark)
