"""`ratchet`: the command line. Each command is in a file of its own subject in `clients/commands`."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from clients.commands import (
    answers,
    begin,
    best_configuration,
    check,
    compare,
    datasets,
    experiments,
    export,
    labels,
    look,
    prompts,
    release,
    replay,
    report,
    run,
    steer,
)
from clients.commands.context import CommandError, ExitCode, print_json
from clients.commands.operations import access_tokens, audit, backup, doctor, mcp, reencrypt, retention, serve, teams
from clients.own_modules import DIRECTORY, DISTRIBUTION
from clients.settings import client_settings
from ratchet._environment import BadSetting
from ratchet._processes.process_end import end_process
from ratchet._text.visible import visible


def _version(wanted: bool) -> None:
    """Print the version, and nothing else is done."""
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"{DISTRIBUTION} {version(DISTRIBUTION)}")
        except PackageNotFoundError:
            print(f"{DISTRIBUTION}, not installed: run from {DIRECTORY}")
        raise typer.Exit


app = typer.Typer(
    name="ratchet",
    help="Ratchet improves prompts and configurations by experiment, durably.\n\n"
    "`ratchet demo` shows a run; `ratchet init` writes a spec to start from; `ratchet run spec.yaml` runs it, on the servers "
    "named by TEMPORAL_ADDRESS and DATABASE_URL, or on embedded ones when neither is set.\n\n"
    "Exit codes: 0 done, 1 failed, 2 bad input, 3 gate not met, 4 cancelled, 5 cannot reach a server.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


@app.callback()
def shared(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Take what is given before the command."""


RUNS = (run, experiments, look, answers, best_configuration, steer, report, export, replay, compare, labels)
SUBJECTS = (
    begin,
    check,
    *RUNS,
    release,
    prompts,
    datasets,
    serve,
    mcp,
    teams,
    access_tokens,
    audit,
    retention,
    backup,
    reencrypt,
    doctor,
)
for subject in SUBJECTS:
    subject.add_to(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; whatever goes wrong is one message on stderr and an exit code, never a traceback."""
    return _run(list(sys.argv[1:] if arguments is None else arguments))


def _run(given: list[str]) -> int:
    try:
        code = app(_shared_last(given) or ["--help"], prog_name="ratchet", standalone_mode=False)
    except KeyboardInterrupt:
        return ExitCode.DETACHED
    except BrokenPipeError:
        # The reader of our output has left; what remains in the buffer must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILED
    except CommandError as error:
        return _failed(given, str(error), error.code, error.facts)
    except BadSetting as error:
        return _failed(given, str(error), ExitCode.BAD_INPUT)
    except Exception as error:
        if client_settings().debug == "1":
            traceback.print_exc()
        if (code := getattr(error, "exit_code", None)) is not None and hasattr(error, "format_message"):
            return _failed(given, _usage(error), ExitCode(code))
        return _failed(given, _unexpected(error), _code_of(error))
    return int(code or 0)


def _shared_last(given: list[str]) -> list[str]:
    """Options that every command has may also be given before the command."""
    taken = 0
    while taken < len(given) and given[taken].partition("=")[0] in ("--json", "--home"):
        taken += 2 if given[taken] == "--home" else 1
    return given[taken:] + given[:taken]


def _failed(given: list[str], message: str, code: int, facts: dict[str, object] | None = None) -> int:
    sys.stdout.flush()
    print(visible(f"ratchet: {message}"), file=sys.stderr, flush=True)
    if "--json" in given:
        print_json({"error": message, "exit_code": int(code), **(facts or {})})
    return int(code)


def _usage(error: Exception) -> str:
    message = str(error.format_message()).rstrip(".")  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "ratchet"
    return f"{message}. See `{path} --help`"


def _code_of(error: Exception) -> ExitCode:
    from clients.runs.service.servers import is_unreachable

    return ExitCode.UNREACHABLE if is_unreachable(error) else ExitCode.FAILED


def _unexpected(error: Exception) -> str:
    """A message for what nobody foresaw, or for servers that went away."""
    from clients.runs.service.servers import is_unreachable, told_away

    if is_unreachable(error):
        return told_away(error)
    told = str(error) or type(error).__name__
    return f"{type(error).__name__}: {told} (RATCHET_DEBUG=1 shows where)"


if __name__ == "__main__":
    end_process(main())
