"""Releases that a person asks for: the prompt's one writer is asked, and its answer is told."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pydantic

from activities.releases.requests import ask_release_writer
from clients.commands.context import CommandError, Context, ExitCode
from clients.embedded.stack import stack_state
from clients.local_audit import audited
from clients.os_user import os_user
from clients.prompts.stores import user
from clients.reports.release_outcome import state_text
from clients.reports.text.terminal_text import one_line
from clients.runs.lookup import reach_run
from clients.runs.service.servers import Servers, has_data, reach_servers, task_queue
from clients.runs.updates import answered, refusals
from clients.runs.winner_release import NotReleased, PromptMissing, ReleaseOptions, ShownWorse, winner_release
from ratchet._text.explanation import explain
from workflows.model.spec.release import ReleaseKind, ReleaseRequest, ReleaseState, Ruling
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.releases.release_gate import unconfirmed

EXIT_CODES = {"stale_base": ExitCode.FAILED, "failed": ExitCode.FAILED, "expired": ExitCode.FAILED}
OPTIONS = {"prompt": "NS/KEY", "from_tag": "--from", "version": "--to"}
"""How the command line calls a field that it does not call by its name."""


async def release_run(context: Context, run_id: str, options: ReleaseOptions) -> int:
    """Release the winner of a finished run."""
    ran_before = stack_state(context.home).running
    async with reach_run(context.home, run_id) as (servers, run):
        if run.is_open:
            raise CommandError(f"{run_id} is {run.status}; `ratchet stop {run_id}` ends it, and keeps the best")
        detail = await servers.reader.runs.load(run_id)
        if detail is None or detail.result is None:
            raise CommandError(f"{run_id} has no result, so there is nothing to release; `ratchet report {run_id}` shows it")
        request = OptimizationRequest.model_validate(detail.spec)
        with refused_winners(run_id), _mistakes():
            asked = winner_release(request, detail.result, options)
        note = unconfirmed(detail.result.confirmation)
        if note is not None:
            context.note(f"ratchet: {note}")
        state = await _ask(context, servers, asked.prompt, "request", asked, sleeps=servers.embedded and not ran_before)
        return _told(context, state)


@contextmanager
def refused_winners(run_id: str) -> Iterator[None]:
    """Why a winner is not released, as the command line says it."""
    try:
        yield
    except PromptMissing as error:
        raise CommandError(f"{error}; say which with --prompt NAMESPACE/KEY") from None
    except ShownWorse as error:
        told = f"{run_id} is not released: {error}; `ratchet release {run_id} --force` releases it all the same"
        raise CommandError(told, ExitCode.GATE_NOT_MET, facts={"run_id": run_id, "regression": error.shown}) from None
    except NotReleased as error:
        raise CommandError(str(error)) from None


async def release_tag(context: Context, prompt: str, source: str, options: ReleaseOptions) -> int:
    """Release what a canary has proven."""
    asked = _request("promote", prompt, options, tag=options.tag or "stable", from_tag=source)
    return await _ask_about(context, prompt, asked)


async def roll_back(context: Context, prompt: str, version: str | None, options: ReleaseOptions) -> int:
    """Move a tag to another version."""
    asked = _request("rollback", prompt, options, tag=options.tag or "stable", version=version and version.removeprefix("v"))
    return await _ask_about(context, prompt, asked)


async def rule_on(context: Context, run_id: str, ruling: Literal["approve", "reject"], by: str | None, comment: str) -> int:
    """Approve or reject what a run asked for."""
    ran_before = stack_state(context.home).running
    async with reach_run(context.home, run_id) as (servers, _):
        waiting = await _waiting(servers, run_id)
        said = _ruling(waiting.release_id, by or user(), comment)
        sleeps = servers.embedded and not ran_before
        state = await _ask(context, servers, waiting.prompt, ruling, said, sleeps=sleeps, of_run=run_id)
        return _told(context, state)


async def _waiting(servers: Servers, run_id: str) -> ReleaseState:
    releases = await servers.reader.releases.listed(run_id=run_id)
    waiting = [state for state in releases if state.status == "pending"]
    if not waiting:
        how = f"; its last one: {state_text(releases[0])}" if releases else "; it asked for none"
        raise CommandError(f"{run_id} has no release that waits for approval{how}", facts={"run_id": run_id})
    return waiting[0]


async def _ask_about(context: Context, prompt: str, asked: ReleaseRequest) -> int:
    if not has_data(context.home):
        raise CommandError(f"there is no prompt {prompt!r}: nothing is stored here yet; see `ratchet prompts seed --help`")
    ran_before = stack_state(context.home).running
    async with reach_servers(context.home) as servers:
        state = await _ask(context, servers, prompt, "request", asked, sleeps=servers.embedded and not ran_before)
        return _told(context, state)


async def _ask(
    context: Context,
    servers: Servers,
    prompt: str,
    update: str,
    asked: ReleaseRequest | Ruling,
    *,
    sleeps: bool,
    of_run: str | None = None,
) -> ReleaseState:
    call = ask_release_writer(servers.client, task_queue(), prompt, update, asked, f"cli-{uuid.uuid4().hex}")
    run_id = asked.run_id if isinstance(asked, ReleaseRequest) else of_run
    action = _action(asked) if isinstance(asked, ReleaseRequest) else update
    async with audited(servers.database, action, run_id=run_id, prompt=prompt):
        with refusals("the release" if update == "request" else update, prompt=prompt):
            return await answered(context, servers, update, call, sleeps=sleeps)


def _action(asked: ReleaseRequest) -> str:
    """What the audit log calls it."""
    return "rollback" if asked.kind == "rollback" else "release"


def _request(kind: ReleaseKind, prompt: str, options: ReleaseOptions, **more: object) -> ReleaseRequest:
    given = {"release_id": uuid.uuid4().hex[:16], "prompt": prompt, "kind": kind, "by": options.by}
    with _mistakes():
        return ReleaseRequest.model_validate({**given, "reason": options.reason, **more})


def _ruling(release_id: str, by: str, comment: str) -> Ruling:
    with _mistakes():
        return Ruling(release_id=release_id, by=by, comment=comment, through=f"command line, as {os_user()}")


@contextmanager
def _mistakes() -> Iterator[None]:
    try:
        yield
    except pydantic.ValidationError as error:
        raise CommandError("\n".join(_as_option(line) for line in explain(error))) from None


def _as_option(message: str) -> str:
    field, separator, problem = message.partition(": ")
    return f"{OPTIONS.get(field, f'--{field}')}{separator}{problem}"


def _told(context: Context, state: ReleaseState) -> int:
    """Where the release stands; a tag that did not move is an error unless it was not to move."""
    code = EXIT_CODES.get(state.status, ExitCode.DONE)
    facts = state.model_dump(mode="json")
    if code is not ExitCode.DONE:
        raise CommandError(one_line(state_text(state)), code, facts=facts)
    context.facts(facts, one_line(state_text(state)))
    return code
