"""What a checked spec becomes before it is started: its data in the store, its id, who serves it."""

from __future__ import annotations

import asyncio
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from activities.datasets import DatasetError, ingest
from activities.endpoints.endpoint_policy import OperatorLists
from activities.preparing.default_prices import default_prices
from activities.preparing.factor_files import FactorFiles
from activities.preparing.placed_models import placed_models
from activities.preparing.prompt_snapshot import UnusablePrompt
from clients.checks.findings import Checked, in_the_spec, with_size
from clients.checks.plugin_inspection import modules_of, plugin_uses
from clients.checks.prompt_source import with_stored_prompt
from clients.commands.context import CommandError, Context
from clients.runs.answered_run import Answered, NotRescored
from clients.runs.identity import by_dataset_id, plugin_task_queue, run_id_of
from clients.runs.lookup import noted_as_written
from clients.runs.retried_run import Retried
from clients.runs.service.run_code import RunCode
from clients.runs.service.servers import Servers, once_back, task_queue
from clients.runs.service.workers import PluginCode
from clients.settings import dataset_settings, operator_settings
from store.read.access.teams import DEFAULT_TEAM
from store.write.access.teams import Teams
from store.write.datasets import Datasets
from workflows.model.spec.dataset import Dataset
from workflows.model.spec.execution import Execution
from workflows.model.spec.extensions.named_plugins import is_of_program
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.spec.check import check_request
from workflows.rules.spec.prompt_factors import is_read


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
    files: FactorFiles = field(default_factory=dict)
    """Those that its factors name, which are stored before it is started."""
    program: PluginCode | None = None
    """What only the program that asks for the run can serve, since its own functions are called."""

    @property
    def plugins(self) -> PluginCode | None:
        """What a worker of our own needs for it."""
        return None if self.code is None else self.code.plugins


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
    memo: dict[str, Any] = {"spec": str(checked.path.resolve()), "host": platform.node(), **noted_as_written(checked.text)}
    if not uses or request.execution.evaluation_task_queue is not None:
        return StartPlan(request, run_id, None, memo, team, checked.files)
    queue = plugin_task_queue(task_queue(), plugins.code_hash)
    request = request.model_copy(update={"execution": served_on(request, queue)})
    spec = checked.path.resolve()
    imported = [use for use in uses if not is_of_program(use.reference)]
    if len(imported) < len(uses):
        program = PluginCode(spec.parent, modules_of(imported), queue)
        return StartPlan(request, run_id, None, memo | {"program": True}, team, checked.files, program)
    code = RunCode(
        spec=str(spec), directory=str(spec.parent), task_queue=queue, uses=tuple(plugin_uses(request)), files=plugins.files
    )
    return StartPlan(request, run_id, code, memo | {"plugins": True}, team, checked.files)


def served_on(request: OptimizationRequest, queue: str) -> Execution:
    return request.execution.model_copy(update={"evaluation_task_queue": queue})


async def _with_its_prompt(servers: Servers, path: Path, request: OptimizationRequest) -> OptimizationRequest:
    """The request as the run will find it; what is wrong with it only then is told before anything is started."""
    if is_read(request):
        return request
    try:
        read = await with_stored_prompt(request, servers.database_url)
    except UnusablePrompt as error:
        raise CommandError(f"{path}: {error}") from None
    prices = await asyncio.to_thread(default_prices, read, OperatorLists(operator_settings()))
    problems = check_request(prices.given_to(read))
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


async def with_known_size(context: Context, servers: Servers, checked: Checked, plan: StartPlan) -> Checked:
    """What is in the store has a size, which a cost can be estimated from."""
    dataset_id = plan.request.dataset.id
    if checked.dataset is not None or dataset_id is None:
        return checked
    datasets = Datasets(servers.database)

    async def with_its_size() -> Checked:
        return with_size(checked, dataset_id, await datasets.size(dataset_id) or 0, await datasets.given_sizes(dataset_id))

    return await once_back(servers, with_its_size, context.note)


async def sized(servers: Servers, retried: Retried, request: OptimizationRequest) -> Checked:
    """A spec of the store, with what the cost of running it again is estimated from."""
    lists = OperatorLists(operator_settings())
    prices = await asyncio.to_thread(default_prices, request, lists)
    in_batches = await asyncio.to_thread(placed_models, request, lists)
    checked = Checked(Path(retried.run_id), request=request, default_prices=prices, in_batches=in_batches)
    datasets, dataset_id = Datasets(servers.database), retried.dataset_id
    return with_size(checked, dataset_id, await datasets.size(dataset_id) or 0, await datasets.given_sizes(dataset_id))
