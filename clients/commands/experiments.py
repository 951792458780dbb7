"""`ratchet experiments`: what Python files declare by `@experiment.measure` and its like, listed, checked and run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from clients.commands.context import CommandError, Context, ExitCode, command

if TYPE_CHECKING:
    from clients.python.declaration_files import DeclaredInFile

ORDER: Final = ("measure", "explore", "optimize")
"""What comes first may be what the others depend on."""


def add_to(app: typer.Typer) -> None:
    """Register the command."""

    @command(app, "experiments", "Run")
    def experiments(
        context: Context,
        path: Annotated[
            Path, typer.Argument(metavar="PATH", help="A Python file, or a folder of them.", show_default=False)
        ] = Path(),
        run: Annotated[
            list[str] | None,
            typer.Option(
                "--run", metavar="NAME", help="Run the experiment of that name; * stands for anything. Again for more."
            ),
        ] = None,
        check: Annotated[bool, typer.Option("--check", help="Check them, which costs nothing and starts nothing.")] = False,
        renew: Annotated[
            bool, typer.Option("--renew", help="Store what is measured as the baseline, in place of the one there is.")
        ] = False,
        new: Annotated[bool, typer.Option("--new", help="Run them again although they ran before, and pay again.")] = False,
        yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before money is spent.")] = False,
        output: Annotated[
            Path | None,
            typer.Option(
                "--output",
                metavar="DIR",
                help="Where their files go: DIR/specs, DIR/explorations, DIR/optimizations. [default: RATCHET_EXPERIMENTS, "
                "else experiments beside the file that declares them]",
            ),
        ] = None,
    ) -> int:
        """List the experiments that Python files declare, check them, or run some.

        A measurement is compared with its stored baseline, and is stored where there is none; one that got worse, or that shows
        neither, has exit code 3. pytest runs them, too: `pytest --ratchet=measure`. A file that cannot be imported is named
        and the others go on; the exit code is 1 then, and 2 where there is no other.
        """
        from clients.python.declaration_files import declared_in

        below = declared_in(path)
        found = below.experiments
        for told in below.failures.values():
            context.note(f"ratchet: {told}")
        code = _done(context, path, found, Asked(run or [], check, output, {"renew": renew, "new": new, "yes": yes}))
        return ExitCode.FAILED if below.failures and code == ExitCode.DONE else code


@dataclass(frozen=True)
class Asked:
    """What is to be done with the experiments that were found."""

    names: Sequence[str]
    check: bool
    output: Path | None
    options: dict[str, bool]


def _done(context: Context, path: Path, found: Sequence[DeclaredInFile], asked: Asked) -> int:
    if asked.check and asked.names:
        raise CommandError("--check and --run: running checks, too; give one of them")
    chosen = _named(found, asked.names) if asked.names else found
    if asked.check:
        return _check(context, chosen, asked.output)
    if asked.names:
        return _run(context, chosen, asked.output, asked.options)
    _list(context, path, chosen)
    return ExitCode.DONE


def _named(found: Sequence[DeclaredInFile], names: Sequence[str]) -> list[DeclaredInFile]:
    known = ", ".join(one.declaration.name for one in found) or "none"
    for name in names:
        if not any(fnmatchcase(one.declaration.name, name) for one in found):
            raise CommandError(f"--run: there is no experiment {name!r} here; there are {known}")
    chosen = [one for one in found if any(fnmatchcase(one.declaration.name, name) for name in names)]
    return sorted(chosen, key=lambda one: ORDER.index(one.declaration.kind))


def _told(one: DeclaredInFile) -> dict[str, Any]:
    declaration = one.declaration
    return {
        "name": declaration.name,
        "kind": declaration.kind,
        "use_case": declaration.use_case.id,
        "treatment": list(declaration.treatment),
        "file": str(one.file),
        "line": one.line,
    }


def _list(context: Context, path: Path, found: Sequence[DeclaredInFile]) -> None:
    facts = [_told(one) for one in found]
    lines = [f"{one['name']}  {one['kind']} {one['use_case']}{_of(one)}  {one['file']}:{one['line']}" for one in facts]
    nothing = f"Nothing in {path} declares an experiment, by @experiment.measure, explore or optimize."
    context.facts({"experiments": facts}, "\n".join(lines) or nothing)


def _of(facts: dict[str, Any]) -> str:
    return f" ({', '.join(facts['treatment'])})" if facts["treatment"] else ""


def _check(context: Context, chosen: Sequence[DeclaredInFile], output: Path | None) -> int:
    from clients.python.declared_runs import checked

    facts, is_bad = [], False
    for one in chosen:
        found = checked(one.declaration, output=output, home=context.home)
        is_bad = is_bad or bool(found.errors)
        facts.append(_told(one) | {"errors": list(found.errors), "warnings": list(found.warnings)})
        for severity, messages in (("error", found.errors), ("warning", found.warnings)):
            for message in messages:
                context.say(f"{one.file}:{one.line}: {severity}: {one.declaration.name}: {message}")
        if not found.errors:
            context.say(f"{one.declaration.name}: nothing is wrong")
    context.facts({"experiments": facts})
    return ExitCode.BAD_INPUT if is_bad else ExitCode.DONE


def _run(context: Context, chosen: Sequence[DeclaredInFile], output: Path | None, options: dict[str, bool]) -> int:
    """Run them one after the other; the exit code is that of the first that did not end well."""
    from clients.python import api

    try:
        ended = [_ended(context, one, output, options) for one in chosen]
    finally:
        api.close()
    context.facts({"experiments": [facts for facts, _ in ended]})
    return next((code for _, code in ended if code is not ExitCode.DONE), ExitCode.DONE)


def _ended(
    context: Context, one: DeclaredInFile, output: Path | None, options: dict[str, bool]
) -> tuple[dict[str, Any], ExitCode]:
    from clients.python.declared_runs import exit_code_of, run
    from clients.reports.history.stored_baselines import NoBaseline
    from clients.runs.run_options import OptionWords
    from ratchet.errors import RunError, SpecError

    name = one.declaration.name
    shown = {"home": context.home, "progress": not context.json, "new": options["new"], "yes": options["yes"]}
    try:
        outcome = run(one.declaration, output=output, renew=options["renew"], stores_first=True, words=OptionWords(), **shown)
    except (RunError, SpecError, NoBaseline, CommandError) as error:
        context.note(f"ratchet: {name}: {error}")
        code = exit_code_of(error)
        return _told(one) | {"error": str(error), "exit_code": int(code)}, code
    context.say(str(outcome.result))
    if outcome.comparison is not None:
        context.say(f"{name}: {outcome.failure or outcome.comparison.headline}")
    for path in outcome.files:
        context.say(f"{'Baseline' if outcome.is_stored else 'Written'}: {path}")
    code = ExitCode.DONE if outcome.failure is None else ExitCode.GATE_NOT_MET
    facts = {
        "run_id": outcome.result.id,
        "headline": outcome.result.headline.model_dump(mode="json"),
        "files": [str(path) for path in outcome.files],
        "exit_code": int(code),
    }
    compared = outcome.comparison
    if compared is not None:
        facts["baseline"] = {
            "file": str(outcome.baseline),
            "outcome": compared.outcome,
            "effect": compared.evidence.effect,
            "worse": [change.name for change in compared.worse],
            "better": [change.name for change in compared.better],
        }
    return _told(one) | facts, code
