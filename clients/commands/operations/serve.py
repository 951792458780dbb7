"""`ratchet demo`, `dev`, `serve`, `worker`: things that run while they are wanted."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clients.commands.context import CommandError, Context, command
from clients.commands.operations.listen_options import AllowHostOption, HostOption, PortOption
from clients.commands.run import OutputOption, VerbosityOption
from clients.http import DEFAULT_HOST, DEFAULT_PORT
from clients.own_modules import own_module
from clients.settings import client_settings

if TYPE_CHECKING:
    from clients.runs.interruption import Interruption

NoTokenOption = Annotated[
    bool,
    typer.Option(
        "--no-token",
        help="Ask nobody for the token: every user and program on this machine may then start, steer and delete runs, read all "
        "their data, and spend your money.",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""

    @command(app, "demo", "Begin")
    def demo(context: Context, verbosity: VerbosityOption = "summary", output: OutputOption = Path()) -> int:
        """Optimize the prompt of an example on embedded servers, against a simulated model; nothing is paid."""
        from clients.demo.demo import demonstrate
        from clients.runs.interruption import run_async
        from clients.runs.views.summary import verbosity_of

        level = verbosity_of(verbosity)
        return run_async(context, lambda interruption: demonstrate(context, level, output, interruption))

    @command(app, "dev", "Operate")
    def dev(context: Context, no_token: NoTokenOption = False) -> int:
        """Run the embedded servers with Temporal's UI, a worker, the page and the HTTP API, until Ctrl-C.

        Runs that were started from this home go on, also those that come, with their plug-ins while the files are as they were.
        For runs from elsewhere its worker imports what RATCHET_PLUGINS and RATCHET_PLUGIN_PATH allow.
        """
        from clients.commands.operations.dev import develop
        from clients.runs.interruption import run_async

        return run_async(context, lambda interruption: develop(context, interruption, no_token=no_token), serves=True)

    @command(app, "serve", "Operate")
    def serve(
        context: Context,
        host: HostOption = DEFAULT_HOST,
        port: PortOption = DEFAULT_PORT,
        allow_host: AllowHostOption = None,
        no_token: NoTokenOption = False,
    ) -> int:
        """Serve the page and the HTTP API with live events, until Ctrl-C."""
        from clients.http.server import Serving
        from clients.http.server import serve as serve_until_stopped
        from clients.runs.interruption import run_async

        settings = client_settings()
        serving = Serving(host, port, (*(allow_host or ()), *settings.allowed_hosts), no_token=no_token)

        def work(interruption: Interruption) -> Awaitable[int]:
            return serve_until_stopped(context, serving, interruption)

        return run_async(context, work, serves=True, log=settings.log)

    @command(app, "worker", "Operate")
    def worker(
        context: Context,
        role: Annotated[
            str,
            typer.Option("--role", metavar="ROLE", envvar="RATCHET_ROLE", help="What to serve: all, workflows or evaluation."),
        ] = "all",
        grace: Annotated[
            float, typer.Option("--grace", metavar="SECONDS", help="What work in flight gets to finish when the worker stops.")
        ] = 30,
        setup: Annotated[bool, typer.Option("--setup", help="Apply migrations, register search attributes, and exit.")] = False,
        make_current: Annotated[
            bool,
            typer.Option(
                "--make-current",
                help="Have new runs begin on this version of RATCHET_DEPLOYMENT and open ones move to it, and exit.",
            ),
        ] = False,
        check_health: Annotated[
            bool,
            typer.Option(
                "--check-health",
                help="Exit 0 when Temporal and the database answer, and the worker that writes RATCHET_HEALTH_FILE, if that is "
                "set, serves.",
            ),
        ] = False,
        log_file: Annotated[
            Path | None, typer.Option("--log-file", metavar="FILE", help="Write logs there instead of stderr.")
        ] = None,
    ) -> int:
        """Serve the task queues of a cluster, on the servers that the environment names."""
        if role not in ("all", "workflows", "evaluation"):
            raise CommandError(f"--role: {role!r} is unknown; use all, workflows or evaluation")
        if not client_settings().database_url:
            raise CommandError(
                "a worker serves the servers that TEMPORAL_ADDRESS and DATABASE_URL name, and DATABASE_URL is not set; "
                "set both, or use `ratchet dev` for embedded servers with a worker"
            )
        arguments = ["--role", role, "--grace", f"{grace:g}", *["--setup"] * setup]
        arguments += [*["--make-current"] * make_current, *["--check-health"] * check_health]
        if log_file is not None:
            arguments += ["--log-file", str(log_file)]
        # By name: the worker wires every room, and no room may know it.
        module: Any = importlib.import_module(own_module("worker"))
        return int(module.main(arguments))
