"""A run as a program holds it: followed, steered, and awaited."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import pydantic

from clients.checks.findings import Checked, check_content
from clients.commands.context import Context
from clients.local_audit import audited
from clients.python.program_worker import serving_functions
from clients.python.result import FrameOf, ReportDetail, ReportFormat, Result
from clients.reports.load import facts_of
from clients.reports.notebook.progress_cell import FollowedRun, progress_cell
from clients.reports.notebook.result_cell import result_cell
from clients.reports.text.boxes import Verbosity
from clients.reports.text.live import PlainDisplay
from clients.runs.follow import Display, RunFollower, display_for
from clients.runs.lookup import TERMINAL, known_run
from clients.runs.run_options import OptionWords, RunOptions
from clients.runs.service.run_code import notes_for
from clients.runs.service.servers import Servers, named_by_environment
from clients.runs.service.workers import Workers, workers_for
from clients.runs.start import BegunRun, begin_run
from clients.runs.updates import answered, just_ended, refusals
from clients.runs.views.summary import facts_at_the_end, facts_or_error
from ratchet._text.explanation import explain
from ratchet.errors import RunError, SpecError
from store.read.rows.event_rows import EventRow
from store.read.rows.run_rows import LiveProgress
from workflows.model.run.contract import Pending
from workflows.model.run.query_answers import UpdateAnswer
from workflows.model.spec.execution import Adjustment

if TYPE_CHECKING:
    import pandas

    from clients.python.engine import Engine
    from clients.python.result_rows import AnswerDict, EventDict, TrialDict
    from clients.python.spec_arguments import SpecArguments

WORDS: Final = OptionWords(new="new=True", yes="yes=True")
SECONDS_BETWEEN_LOOKS: Final = 0.25
EVENTS_A_PAGE: Final = 500


class QuietDisplay(PlainDisplay):
    """Says only what is unusual: that nobody serves a task queue, for instance."""

    def lines(self, lines: Iterable[str]) -> None:
        return None


class Run:
    """A run that was started, or found. It goes on without the program, but for functions of the program's own."""

    def __init__(
        self,
        engine: Engine,
        context: Context,
        begun: BegunRun,
        given: SpecArguments,
        loop: asyncio.AbstractEventLoop | None,
        display: Display | None = None,
    ) -> None:
        self._engine = engine
        self._context = context
        self._plan = begun.plan
        self._functions = given.program.functions
        self._loop = loop
        self._shown_by = display
        self._letting_go = asyncio.Event()
        self.id: str = begun.run_id
        """The run's id, for `ratchet status ID` and its like."""
        self._attended: Future[Result] = engine.begin(self._at_the_end() if begun.is_finished else self._attend())
        if loop is not None:  # what runs in it ends with it
            asyncio.run_coroutine_threadsafe(self._until_it_is_cancelled(), loop)

    def __repr__(self) -> str:
        return f"<ratchet.Run {self.id}>"

    def _repr_html_(self) -> str:
        try:
            return self._engine.run(self._as_cell())
        except RunError:  # its servers were let go
            return progress_cell(FollowedRun(self.id, note="its servers were let go"))

    async def _as_cell(self) -> str:
        progress = await self._progress()
        if progress is None:
            return progress_cell(FollowedRun(self.id))
        report = await (await self._engine.servers()).reader.runs.report(self.id)
        if report is None:  # deleted a moment ago
            return progress_cell(FollowedRun(self.id, progress))
        facts = facts_of(report)
        return result_cell(facts) if facts.is_over else progress_cell(FollowedRun(self.id, progress, facts.request, facts))

    # -- its end ----------------------------------------------------------------------------------------------------------

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the end. Ctrl-C lets go of the run, which is not lost. Raises RunError when it failed."""
        if self._loop is not None and running_loop() is self._loop:
            raise RunError("result() would hold up the event loop that the target runs in; write `await run`")
        try:
            return _succeeded(self._attended.result(timeout))
        except KeyboardInterrupt:
            self.let_go()
            with contextlib.suppress(RunError):
                self._attended.result()
            raise

    def __await__(self) -> Generator[Any, None, Result]:
        return self._ended().__await__()

    async def _ended(self) -> Result:
        try:
            return _succeeded(await asyncio.shield(asyncio.wrap_future(self._attended)))
        except asyncio.CancelledError:
            self.let_go()
            with contextlib.suppress(RunError):
                await asyncio.wrap_future(self._attended)
            raise

    async def _until_it_is_cancelled(self) -> None:
        with contextlib.suppress(RunError):
            await self._ended()

    def let_go(self) -> None:
        """Serve and follow it no longer: what is in flight is handed back, and the same call goes on with it later."""
        self._engine.soon(self._letting_go)

    async def _attend(self) -> Result:
        """Serve what only this program can serve, and follow the run to its end."""
        servers, home, plan = await self._engine.servers(), self._engine.home, self._plan
        async with AsyncExitStack() as exits:
            workers = await self._engine.workers()
            if plan.program is not None:
                serving = serving_functions(servers, home, plan.program, self._functions, self._loop)
                await exits.enter_async_context(serving)
                workers = Workers(workers.processes, frozenset([plan.program.task_queue]))
            elif plan.plugins is not None:
                own = await exits.enter_async_context(workers_for(servers, home, plugins=plan.plugins, role=None))
                workers = Workers([*workers.processes, *own.processes])
            follower = RunFollower(servers, self.id, self._display(), notes_for(servers, home))
            if await follower.until_end(self._ending(exits), workers) != "ended":
                self._context.say(f"Detached from {self.id}: run the same program again, and it goes on.")
                raise RunError(f"{self.id} was let go; the same call goes on with it")
        return await self._at_the_end()

    def _ending(self, exits: AsyncExitStack) -> asyncio.Event:
        """Set when this run is let go, or all of them."""

        async def when_the_program_ends() -> None:
            await self._engine.let_go.wait()
            self._letting_go.set()

        waiting = asyncio.create_task(when_the_program_ends())
        exits.callback(waiting.cancel)
        return self._letting_go

    def _display(self) -> Display:
        if self._shown_by is not None:
            return self._shown_by
        if self._context.json:
            return QuietDisplay(self._context.note)
        return display_for(self._context, self.id, Verbosity.SUMMARY)

    async def _at_the_end(self) -> Result:
        facts = await facts_at_the_end(await self._engine.servers(), self.id)
        if self._shown_by is not None and (progress := await self._progress()) is not None:
            with self._shown_by:
                self._shown_by.update(progress, facts.request)
        return Result(facts, self._engine)

    # -- how it goes ------------------------------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        """`initialized`, `running`, `paused`, `completed`, `cancelled` or `failed`."""
        found = self._engine.run(self._progress())
        return "initialized" if found is None else found.status

    def progress(self) -> dict[str, Any]:
        """Where it stands: round, scores, counts, spend, and the trials in flight. Empty until it has begun."""
        found = self._engine.run(self._progress())
        return {} if found is None else found.model_dump(mode="json")

    async def _progress(self) -> LiveProgress | None:
        return await (await self._engine.servers()).reader.runs.progress(self.id)

    def so_far(self) -> Result:
        """What has come of it until now."""
        return self._engine.run(self._facts())

    async def _facts(self) -> Result:
        """A run that was asked for a moment ago has left nothing in the store yet; that is waited for."""
        servers = await self._engine.servers()
        while await self._progress() is None and (await known_run(servers, self.id)).is_open:  # noqa: ASYNC110 (others write it)
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        return Result(await facts_or_error(servers, self.id), self._engine)

    def report(self, format: ReportFormat = "text", *, verbosity: ReportDetail = "summary") -> str:
        """The report so far; see `Result.report`."""
        return self.so_far().report(format, verbosity=verbosity)

    def history(self) -> list[dict[str, Any]]:
        """The rounds so far; see `Result.history`."""
        return self.so_far().history()

    def trials(self) -> list[TrialDict]:
        """The trials so far; see `Result.trials`."""
        return self.so_far().trials()

    def answers(self, candidate: str = "best", *, passed: bool | None = None) -> list[AnswerDict]:
        """Answers so far; see `Result.answers`."""
        return self.so_far().answers(candidate, passed=passed)

    def to_pandas(self, of: FrameOf = "trials", *, candidate: str = "best", passed: bool | None = None) -> pandas.DataFrame:
        """The trials, or the answers, so far; see `Result.to_pandas`."""
        return self.so_far().to_pandas(of, candidate=candidate, passed=passed)

    async def __aiter__(self) -> AsyncIterator[EventDict]:
        """Every event from the first on, until the run is over: `type`, `payload`, `created_at`."""
        after = 0
        while page := await asyncio.wrap_future(self._engine.begin(self._events(after))):
            for event in page:
                after = event.id
                yield cast("EventDict", event.model_dump(mode="json", exclude={"key", "run_id"}))

    def __iter__(self) -> Iterator[EventDict]:
        """The same where no loop is running; waits for each event."""
        after = 0
        while page := self._engine.run(self._events(after)):
            for event in page:
                after = event.id
                yield cast("EventDict", event.model_dump(mode="json", exclude={"key", "run_id"}))

    async def _events(self, after: int) -> list[EventRow]:
        """Those that came after that one, waited for; none when the run is over."""
        reader = (await self._engine.servers()).reader
        while True:
            over = self._attended.done()
            page = await reader.events.after(self.id, after=after, limit=EVENTS_A_PAGE)
            if page or over:
                return page
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    # -- what may be asked of it ------------------------------------------------------------------------------------------

    def stop(self, reason: str | None = None) -> None:
        """End it early: what is in flight finishes, the best is kept, confirmed and reported."""
        self._engine.run(self._stop(reason))

    async def _stop(self, reason: str | None) -> None:
        servers = await self._engine.servers()
        async with audited(servers.database, "stop", run_id=self.id):
            with just_ended(self.id):
                await servers.client.get_workflow_handle(self.id).signal("stop_early", reason)

    def cancel(self) -> None:
        """Cancel it: trials in flight are cut off, and what is known so far is kept."""
        self._engine.run(self._cancel())

    async def _cancel(self) -> None:
        servers = await self._engine.servers()
        async with audited(servers.database, "cancel", run_id=self.id):
            with just_ended(self.id):
                await servers.client.get_workflow_handle(self.id).cancel()

    def pause(self) -> str:
        """Let it rest before its next round; returns what it answered."""
        return self._engine.run(self._update("pause"))

    def resume(self) -> str:
        """Let it go on."""
        return self._engine.run(self._update("resume"))

    def adjust(self, *, budget: Mapping[str, Any] | None = None, **limits: Any) -> str:
        """Change its budget, stop rules and limits, by the names of the update: `adjust(budget={"cost": 5}, max_rounds=30)`."""
        given = limits if budget is None else {**limits, "budget": budget}
        return self._engine.run(self._update("adjust", _checked(Adjustment, "adjust", given)))

    def propose(self, configuration: Mapping[str, Any], rationale: str | None = None) -> str:
        """Offer a candidate of your own, tried in the next round; factors left out keep the baseline's values."""
        given = {"configuration": configuration, "rationale": rationale}
        return self._engine.run(self._update("propose", _checked(Pending, "propose", given)))

    async def _update(self, name: str, argument: dict[str, Any] | None = None) -> str:
        servers = await self._engine.servers()
        handle = servers.client.get_workflow_handle(self.id)
        arguments = [] if argument is None else [argument]
        call = handle.execute_update(name, args=arguments, id=f"python-{uuid.uuid4().hex}", result_type=UpdateAnswer)
        async with audited(servers.database, name, run_id=self.id):
            with refusals(name), just_ended(self.id):
                answer: UpdateAnswer = await answered(self._context, servers, name, call, sleeps=False)
                return answer.message


async def begun(
    engine: Engine,
    given: SpecArguments,
    context: Context,
    options: RunOptions,
    loop: asyncio.AbstractEventLoop | None,
    display: Display | None = None,
) -> Run:
    """Check what was asked for, then find the run or start it."""
    own_worker = not named_by_environment() or bool(given.program.functions)
    checked = await check_content(given.file, own_worker=own_worker, home=context.home, by_program=True)
    if checked.request is not None:
        checked = replace(checked, findings=[*checked.findings, *given.program.findings(checked.request)])
    _refuse(checked)
    for warning in [*given.program.warnings, *(finding.message for finding in checked.warnings)]:
        context.note(f"ratchet: warning: {warning}")
    if not named_by_environment():
        context.say(f"Servers: embedded, in {context.home}")
    servers: Servers = await engine.servers()
    found = await begin_run(context, servers, checked, options)
    if found.is_finished:
        context.say(f"{found.run_id} is finished: it is shown, and not paid again ({options.words.new} would run it anew)")
    return Run(engine, context, found, given, loop, display)


def _refuse(checked: Checked) -> None:
    if checked.errors:
        told = "\n".join(finding.message for finding in checked.errors)
        raise SpecError(told, [finding.as_json() for finding in checked.findings])


def _succeeded(result: Result) -> Result:
    if result.status in TERMINAL and result.status not in ("completed", "cancelled"):
        raise RunError(f"{result.id} {result.status}: {result.message}", result)
    return result


def _checked(kind: type[Pending | Adjustment], name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return kind.model_validate(given).model_dump(mode="json", exclude_none=True)
    except pydantic.ValidationError as error:
        raise RunError("\n".join(f"{name}: {line}" for line in explain(error))) from None


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop of whoever calls, if there is one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
