"""Starting a run of a spec, or finding the one there is."""

from __future__ import annotations

import asyncio
import platform
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from activities.datasets import DatasetError, ingest
from activities.endpoints.endpoint_policy import named_by, note_allowed
from activities.preparing.prompt_snapshot import UnusablePrompt
from clients.checks.estimate import estimate
from clients.checks.findings import Checked, check_spec, in_the_spec, with_size
from clients.checks.plugin_inspection import modules_of, plugin_uses
from clients.checks.prompt_source import with_stored_prompt
from clients.commands.check import summary_of
from clients.commands.context import CommandError, Context, ExitCode
from clients.embedded.home import Home, is_held, is_shared
from clients.local_audit import audited
from clients.reports.removal_notes import removal_text
from clients.runs.answered_run import Answered, NotRescored, answered_run
from clients.runs.follow import RunFollower, display_for
from clients.runs.identity import by_dataset_id, further_ids, is_plugin_queue, plugin_task_queue, run_id_of, without_number
from clients.runs.interruption import Interruption
from clients.runs.lookup import WORKFLOW, KnownRun, existing_run, known_run, reach_run
from clients.runs.questions import agreed, is_at_terminal
from clients.runs.run_code import CodeMissing, RunCode, code_to_retry, note_code, notes_for
from clients.runs.servers import Servers, named_by_environment, once_back, reach_servers, task_queue
from clients.runs.summary import EndView, show_end
from clients.runs.workers import PluginCode, workers_for
from clients.settings import client_settings, dataset_settings
from store.read.teams import DEFAULT_TEAM
from store.write.datasets import Datasets
from store.write.teams import Teams
from workflows.fair_shares import share_of
from workflows.model.spec.dataset import Dataset
from workflows.model.spec.execution import Execution
from workflows.model.spec.named_plugins import is_of_program
from workflows.model.spec.request import OptimizationRequest
from workflows.model.spec.scorer_options import placed_scorers
from workflows.rules.spec.check import check_request
from workflows.rules.spec.prompt_factors import is_read


@dataclass(frozen=True)
class OptionWords:
    """What options are called where the run is asked for."""

    new: str = "--new"
    yes: str = "--yes"


@dataclass(frozen=True)
class RunOptions:
    """How a run is to be started and shown."""

    new: bool = False
    detach: bool = False
    yes: bool = False
    ask_above: float = 1.0
    dry_run: bool = False
    retry_failed: bool = False
    rescore_of: str | None = None
    """The run whose answers are scored, instead of asking the target."""
    ending: EndView = field(default_factory=EndView)
    whole_engine: bool = True
    """Whether to refuse an installation that lacks a part of the engine."""
    words: OptionWords = OptionWords()
    asks_after_look: bool = True
    """Whether whoever starts it at a terminal stays to be asked after the first look."""


@dataclass(frozen=True)
class StartPlan:
    """A checked spec, ready to be started."""

    request: OptimizationRequest
    run_id: str
    code: RunCode | None
    memo: dict[str, Any]
    """What is shown of the run where it was not started: nobody obeys it."""
    team: str = DEFAULT_TEAM
    """Whose the run is."""
    program: PluginCode | None = None
    """What only the program that asks for the run can serve, since its own functions are called."""

    @property
    def plugins(self) -> PluginCode | None:
        """What a worker of our own needs for it."""
        return None if self.code is None else self.code.plugins


@dataclass(frozen=True)
class BegunRun:
    """A run that was found or started."""

    run_id: str
    plan: StartPlan
    is_finished: bool = False


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
            await _confirm(context, await _sized(context, servers, checked, plan), options)
            _allow(context, servers, plan, checked)
            return await start_retry(context, servers, plan, before, options, interruption)
        begun = await begin_run(context, servers, checked, options)
        if begun.is_finished:
            return await _show_finished(context, servers, begun.run_id, options)
        if options.detach:
            return await _leave(context, servers, begun.run_id, begun.plan)
        return await attend(context, servers, begun.run_id, begun.plan.plugins, options, interruption)


async def begin_run(context: Context, servers: Servers, checked: Checked, options: RunOptions) -> BegunRun:
    """Find the finished run of a spec, attach to the open one, or start one."""
    source = await _answers_of(servers, options.rescore_of)
    team = client_settings().team if source is None else await servers.reader.teams.of_run(source.run_id)
    plan = await once_back(servers, lambda: plan_run(servers, checked, source, team), context.note)
    run = await once_back(servers, lambda: _chosen(servers, plan.run_id, new=options.new), context.note)
    if run.is_finished:
        return BegunRun(run.run_id, plan, is_finished=True)
    run_id = run.run_id
    if run.is_open:
        context.say(f"{run_id} is {run.status}; attached to it ({options.words.new} would start another)")
    else:
        if source is None or _asks_a_judge(plan.request):
            await _confirm(context, await _sized(context, servers, checked, plan), options)
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


async def plan_run(servers: Servers, checked: Checked, source: Answered | None = None, team: str = DEFAULT_TEAM) -> StartPlan:
    """Bring the dataset into the store, and name the run by what it will do. `source` is the run whose answers are all that is
    scored."""
    request = checked.request
    assert request is not None
    if not await servers.reader.teams.exists(team):
        raise CommandError(f"--team: there is no team {team!r}; `ratchet teams create {team}` makes it")
    foreign = await servers.reader.teams.foreign_parts(team, request)
    if foreign:
        raise CommandError("\n".join([f"{checked.path} cannot be run:", *(f"{checked.path}: {one}" for one in foreign)]))
    known = await _with_its_prompt(servers, checked.path, request)
    dataset_id = await _ingested(servers, checked, team)
    if source is not None:
        try:
            source.refuse_other_answers(known, dataset_id)
        except NotRescored as error:
            raise CommandError(f"{checked.path}: {error}") from None
        request, known = source.scored_by(request), source.scored_by(known)
    plugins = checked.plugins
    run_id = run_id_of(known, dataset_id, plugins.fingerprints, plugins.sources, team)
    if request.dataset.ref is None and (request.dataset.items is None or request.dataset.is_read_from_files):
        request = by_dataset_id(request, dataset_id)
    uses = plugin_uses(request)
    memo: dict[str, Any] = {"spec": str(checked.path.resolve()), "host": platform.node()}
    if not uses or request.execution.evaluation_task_queue is not None:
        return StartPlan(request, run_id, None, memo, team)
    queue = plugin_task_queue(task_queue(), plugins.code_hash)
    request = request.model_copy(update={"execution": _served_on(request, queue)})
    spec = checked.path.resolve()
    imported = [use for use in uses if not is_of_program(use.reference)]
    if len(imported) < len(uses):
        program = PluginCode(spec.parent, modules_of(imported), queue)
        return StartPlan(request, run_id, None, memo | {"program": True}, team, program)
    code = RunCode(
        spec=str(spec), directory=str(spec.parent), task_queue=queue, uses=tuple(plugin_uses(request)), files=plugins.files
    )
    return StartPlan(request, run_id, code, memo | {"plugins": True}, team)


def _served_on(request: OptimizationRequest, queue: str) -> Execution:
    return request.execution.model_copy(update={"evaluation_task_queue": queue})


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


async def _with_its_prompt(servers: Servers, path: Path, request: OptimizationRequest) -> OptimizationRequest:
    """The request as the run will find it; what is wrong with it only then is told before anything is started."""
    if is_read(request):
        return request
    try:
        read = await with_stored_prompt(request, servers.database_url)
    except UnusablePrompt as error:
        raise CommandError(f"{path}: {error}") from None
    problems = check_request(read)
    if problems:
        raise CommandError("\n".join([f"{path} cannot be run:", *(f"{path}: {problem}" for problem in problems)]))
    return read


async def _ingested(servers: Servers, checked: Checked, team: str) -> str:
    """The dataset's id. What a plug-in gives is only known when the run begins; until then the plug-in speaks for it."""
    request = checked.request
    assert request is not None
    given = request.dataset
    if given.ref is not None:
        return given.ref
    if given.id is not None or checked.dataset is None:
        return await _stored(servers, checked.path, given, team)
    source = checked.source
    if source is None:
        await Teams(servers.database).claim_dataset(checked.dataset.dataset_id, team)
        return checked.dataset.dataset_id
    try:
        largest_mb = dataset_settings().largest_dataset_mb
        ingested = await ingest(servers.database, source, given.name, largest_mb=largest_mb)
        await Teams(servers.database).claim_dataset(ingested.dataset_id, team)
        return ingested.dataset_id
    except DatasetError as error:
        raise CommandError(f"{checked.path}: {in_the_spec(str(error), given.given_at)}") from None


async def _stored(servers: Servers, path: Path, given: Dataset, team: str) -> str:
    datasets = Datasets(servers.database)
    found = given.id or await datasets.named(given.name or "", team)
    if found is None:
        raise CommandError(f"{path}: dataset.name: {given.name!r} is not in the store; see `ratchet datasets list`")
    if await datasets.size(found) is None:
        raise CommandError(f"{path}: dataset.id: {found[:12]}… is not in the store; give dataset.path")
    return found


async def _sized(context: Context, servers: Servers, checked: Checked, plan: StartPlan) -> Checked:
    """What is in the store has a size, which a cost can be estimated from."""
    dataset_id = plan.request.dataset.id
    if checked.dataset is not None or dataset_id is None:
        return checked
    datasets = Datasets(servers.database)

    async def with_its_size() -> Checked:
        return with_size(checked, dataset_id, await datasets.size(dataset_id) or 0, await datasets.given_sizes(dataset_id))

    return await once_back(servers, with_its_size, context.note)


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


async def _confirm(context: Context, checked: Checked, options: RunOptions) -> None:
    """Before more money may be spent than nobody minds, a person at a terminal is asked; anybody else says so beforehand."""
    costs = estimate(checked)
    cheap = not costs.costs_money or (costs.cost is not None and costs.cost <= options.ask_above)
    if options.yes or cheap:
        return
    calls = "any number of" if costs.calls is None else f"at most {costs.calls:,}"
    price = "and nothing bounds what it costs"
    if costs.cost is not None and costs.expected_cost is not None:
        price = f"and costs about {costs.expected_cost:.2f}, {costs.cost:.2f} at worst"
    told = f"This makes {calls} target calls, {price}."
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
    if before.is_open or not before.is_finished:
        why = "is still open; wait for its end, or `ratchet stop` it" if before.is_open else "never began; run it first"
        raise CommandError(f"there is nothing to retry: {before.run_id} {why}")
    detail = await servers.reader.runs.load(before.run_id)
    gone = "" if detail is None else removal_text(detail.removals)
    if gone:
        context.note(f"{before.run_id}: {gone} What they were is asked again, and paid again.")
    request = _looked_at_first(context, plan.request.model_copy(update={"retry_of": before.run_id}), options)
    retry = replace(plan, request=request)
    fresh = await _chosen(servers, plan.run_id, new=True)
    run_id = await _start(servers, retry, fresh.run_id, fresh=True)
    await _note(context, servers, retry, run_id)
    takes = "asks everything anew" if gone else f"takes over all answers of {before.run_id} but the failed ones"
    context.say(f"Started {run_id}, which {takes}")
    if options.detach:
        return await _leave(context, servers, run_id, retry)
    return await attend(context, servers, run_id, retry.plugins, options, interruption)


async def retry_run(context: Context, run_id: str, options: RunOptions, interruption: Interruption) -> int:
    """Retry a finished run by its id, with the spec that the store keeps."""
    async with reach_run(context.home, run_id) as (servers, run):
        row = await servers.reader.runs.load(run_id)
        if row is None:
            raise CommandError(f"there is nothing to retry: {run_id} never began; run its spec first")
        request = OptimizationRequest.model_validate(row.spec)
        try:
            code = await code_to_retry(notes_for(servers, context.home), run_id, request, task_queue())
        except CodeMissing as error:
            raise CommandError(str(error)) from None
        if code is None and _needs_code(request):
            raise CommandError(f"{run_id} needs its plug-ins; retry it where they are, with `ratchet run SPEC --retry-failed`")
        if code is not None and code.task_queue != request.execution.evaluation_task_queue:
            context.note(
                f"the code beside {code.spec} has changed since {run_id} began: it is retried with the code as it is now"
            )
            request = request.model_copy(update={"execution": _served_on(request, code.task_queue)})
        memo: dict[str, Any] = {"host": platform.node()}
        team = await servers.reader.teams.of_run(run_id)
        memo |= {} if code is None else {"spec": code.spec, "plugins": True}
        first = StartPlan(request, without_number(run_id), code, memo, team)
        return await start_retry(context, servers, first, run, options, interruption)


def _needs_code(request: OptimizationRequest) -> bool:
    """Whether a run was served by a worker of its own, which only the code it began with may be."""
    queue = request.execution.evaluation_task_queue
    return bool(plugin_uses(request)) and queue is not None and is_plugin_queue(queue, task_queue())


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


async def _show_finished(context: Context, servers: Servers, run_id: str, options: RunOptions) -> int:
    remark = f"This spec ran before, as {run_id}; nothing was called or paid. `--new` runs it again."
    return await show_end(context, servers, run_id, options.ending, remark)


async def attend(
    context: Context,
    servers: Servers,
    run_id: str,
    plugins: PluginCode | None,
    options: RunOptions,
    interruption: Interruption,
) -> int:
    """Serve and watch an open run until it ends, or until the person lets go of it."""
    let_go = asyncio.Event()
    with interruption.instead_set(let_go):
        async with workers_for(servers, context.home, plugins=plugins) as workers:
            display = display_for(context, run_id, options.ending.verbosity)
            notes, asks = notes_for(servers, context.home), is_at_terminal(context)
            follower = RunFollower(servers, run_id, display, notes, asks=asks)
            how = await follower.until_end(let_go, workers)
            if how == "asks":
                follower.asks = False
                await _ask_after_look(context, servers, run_id, let_go)
                how = await follower.until_end(let_go, workers)
            if how == "ended":
                return await show_end(context, servers, run_id, options.ending)
            context.say("\nLetting go of the run: what is in flight is handed back …")
        return _let_go(context, servers, run_id, plugins)


async def _ask_after_look(context: Context, servers: Servers, run_id: str, let_go: asyncio.Event) -> None:
    """Have the person say whether a run goes on whose first look found something; it rests until then."""
    asking = asyncio.create_task(agreed("Something is probably wrong with how this is measured. Go on?", unless_said=False))
    letting_go = asyncio.create_task(let_go.wait())
    try:
        await asyncio.wait({asking, letting_go}, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            return
        handle = servers.client.get_workflow_handle(run_id)
        async with audited(servers.database, "resume" if asking.result() else "cancel", run_id=run_id):
            if asking.result():
                await handle.execute_update("resume")
            else:
                context.say("Cancelled; `ratchet run SPEC --retry-failed` takes over what was answered.")
                await handle.cancel()
    finally:
        for task in (asking, letting_go):
            task.cancel()
        await asyncio.gather(asking, letting_go, return_exceptions=True)


def _let_go(context: Context, servers: Servers, run_id: str, plugins: PluginCode | None) -> int:
    meanwhile = "The run goes on"
    if servers.embedded and not _is_taken_up(context, plugins):
        meanwhile = "The run sleeps until the stack is up again"
    elif plugins is not None:
        meanwhile = "The run waits: its plug-ins are served only while somebody watches it here"
    context.say(f"Detached from {run_id}. {meanwhile}.\n{_ways_back(run_id)}")
    context.facts({"run_id": run_id, "status": "detached", "embedded": servers.embedded})
    return ExitCode.DETACHED


async def _leave(context: Context, servers: Servers, run_id: str, plan: StartPlan) -> int:
    if servers.embedded and _is_taken_up(context, plan.plugins):
        context.say("It goes on: the stack that is up here serves it.")
    elif servers.embedded:
        context.say("It sleeps until the embedded stack is up with a worker: `ratchet watch` or `ratchet dev` wakes it.")
    elif plan.plugins is not None:
        context.say(
            f"Its plug-ins wait for a worker on task queue {plan.plugins.task_queue!r}: `ratchet watch` here serves it."
        )
    context.say(_ways_back(run_id))
    context.facts({"run_id": run_id, "status": "started", "embedded": servers.embedded, "ui": servers.page_of(run_id)})
    return ExitCode.DONE


def _is_taken_up(context: Context, plugins: PluginCode | None) -> bool:
    """Whether another command on these embedded servers serves the run: every worker does, unless it has plug-ins."""
    home = Home.at(context.home)
    if plugins is None:
        return is_held(home.workers_lock)
    return is_shared(home.taking_up_lock) or is_shared(home.code_lock(plugins.task_queue))


def _ways_back(run_id: str) -> str:
    return (
        f"  come back:  ratchet watch {run_id}\n"
        f"  stop early: ratchet stop {run_id}    (keeps the best, confirms, reports)\n"
        f"  cancel:     ratchet cancel {run_id}"
    )
