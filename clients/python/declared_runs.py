"""Declared experiments, checked and run: what pytest and `ratchet experiments` share."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from clients.checks.findings import Checked, check_content
from clients.commands.context import CommandError, ExitCode, home_of
from clients.python import api
from clients.python.attended_run import WORDS
from clients.python.fingerprint import fingerprint_of
from clients.python.result import Result
from clients.python.spec_arguments import CallOptions, SpecFields, spec_of
from clients.reports.comparisons.baseline_comparisons import BaselineComparison, compared, rule_of, unshowable, unshowable_with
from clients.reports.facts import RunFacts
from clients.reports.history.answers import MOST_AT_THE_END, with_answers
from clients.reports.history.files import file_name, write_history
from clients.reports.history.specifications import EXPLORATIONS, SPECIFICATIONS, write_measurements
from clients.reports.history.stored_baselines import NoBaseline, StoredBaseline, read_baseline
from clients.runs.run_options import OptionWords
from clients.settings import client_settings
from ratchet._declared.declarations import Declaration
from ratchet.errors import RunError, SpecError
from store.read.replay_records import RecordedOutcomes
from workflows.model.spec.judgement import JudgementSpec
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.scoring.objective_score import describe_objective

FOLDER: Final = "experiments"
RENEW: Final = "renew it: --ratchet-renew with pytest, --renew with ratchet experiments"
ASK_ABOVE: Final = 1.0
"""Money that a run may cost without a budget that says so."""

_OPTIONS: Final = CallOptions.__annotations__.keys() - SpecFields.__annotations__.keys()


@dataclass(frozen=True)
class DeclaredOutcome:
    """What came of a declared experiment."""

    result: Result
    files: Sequence[Path] = ()
    """What was written."""
    comparison: BaselineComparison | None = None
    """Of a measurement: how it compares with its stored baseline."""
    baseline: Path | None = None
    """Of a measurement: where that is."""
    is_stored: bool = False
    """Whether it is the stored baseline now."""

    @property
    def failure(self) -> str | None:
        """Why it is a regression, or was shown to be none; None where all is well."""
        if self.comparison is None or self.comparison.outcome == "not_worse":
            return None
        first, *rest = self.comparison.lines
        return "\n".join(
            [f"{first} (against {self.baseline})", *rest, f"`ratchet answers {self.result.id} --failed` shows answers"]
        )


@dataclass(frozen=True)
class DeclaredCheck:
    """What was found out about a declaration without any cost."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())


def folder_of(declaration: Declaration, output: Path | None = None) -> Path:
    """Where files of experiments are: as given, else as RATCHET_EXPERIMENTS says, else beside the file that declares them."""
    return output or client_settings().experiments or declaration.file.parent / FOLDER


def baseline_path(declaration: Declaration, folder: Path) -> Path:
    """Where the stored baseline of a measurement is, or the one that an optimization depends on."""
    named = Path(declaration.baseline_name)
    if named.suffix in (".yaml", ".yml") and declaration.kind != "measure":
        return folder / named
    return folder / SPECIFICATIONS / f"{file_name(str(named))}.yaml"


def writes_what_is_read(first: Declaration, then: Declaration, output: Path | None = None, *, renew: bool = False) -> bool:
    """Say whether running the first experiment writes the file that the other one takes its fixed factors from."""
    if then.kind != "optimize" or then.baseline is None or first.kind == "optimize":
        return False
    read = baseline_path(then, folder_of(then, output)).absolute()
    folder = folder_of(first, output).absolute()
    if first.kind == "measure":
        # One that is compared with its baseline leaves it as it is.
        return (renew or not first.compares) and baseline_path(first, folder) == read
    return read.parent == folder / EXPLORATIONS / file_name(first.use_case.id)


def checked(declaration: Declaration, *, output: Path | None = None, home: Path | None = None) -> DeclaredCheck:
    """Check what a declaration asks for, and start nothing."""
    folder = folder_of(declaration, output)
    try:
        found, errors, warnings = _checked(declaration, folder, home)
        if not errors and found.request is not None and declaration.compares:
            path = baseline_path(declaration, folder)
            if path.exists():
                _comparable(declaration, path, found)
            else:
                warnings.append(f"{path}: there is no stored baseline yet; pytest --ratchet=measure --ratchet-renew stores it")
                _refuse_unshowable(declaration, found)
    except (SpecError, NoBaseline) as error:
        return DeclaredCheck((str(error),))
    return DeclaredCheck(tuple(errors), tuple(warnings))


def _checked(declaration: Declaration, folder: Path, home: Path | None) -> tuple[Checked, list[str], list[str]]:
    """What `ratchet check` would say: the spec, what is wrong with it, and what else there is to know."""
    fields, unread = _asked(declaration, folder)
    spec = {name: given for name, given in fields.items() if name not in _OPTIONS}
    with spec_of(None, spec) as arguments:
        found = asyncio.run(check_content(arguments.file, home=home_of(home).absolute(), by_program=True))
        of_program = [] if found.request is None else arguments.program.findings(found.request)
    errors = [finding.message for finding in (*found.errors, *of_program)]
    return found, errors, [*unread, *arguments.program.warnings, *(finding.message for finding in found.warnings)]


def _comparable(declaration: Declaration, path: Path, found: Checked) -> StoredBaseline:
    """The stored baseline of a measurement, or what keeps the two from being compared."""
    request = found.request
    assert request is not None
    stored, scored = read_baseline(path), describe_objective(request.objective, request.metric)
    other = f"{RENEW}; or name another file by baseline=…"
    if not stored.samples:
        raise NoBaseline(f"{path}: says nothing of single samples; {RENEW}")
    if stored.use_case_id != declaration.use_case.id:
        raise NoBaseline(f"{path}: is of the use case {stored.use_case_id!r}; {other}")
    if stored.experiment_id not in ("", declaration.name):
        raise NoBaseline(f"{path}: was measured by {stored.experiment_id!r}, and this is {declaration.name!r}; {other}")
    if (stored.scorer_description, stored.direction) != (scored, request.objective.direction):
        raise NoBaseline(f"{path}: was scored by {stored.scorer_description!r}, and now it is {scored!r}; {RENEW}")
    _refuse_unshowable(declaration, found, stored)
    return stored


def _refuse_unshowable(declaration: Declaration, found: Checked, stored: StoredBaseline | None = None) -> None:
    """Refuse so few samples that a comparison of them could never succeed."""
    request, size = found.request, found.counting or (found.dataset.count if found.dataset is not None else None)
    assert request is not None
    measured = None if size is None else min(size, request.samples_per_trial or size)
    wanted, rule = None, _rule(declaration, request)
    if stored is not None:
        wanted = unshowable(stored, list(stored.samples)[:measured], rule)
    elif measured is not None:
        wanted = unshowable_with(measured, rule)
    if wanted is not None:
        raise SpecError(f"margin: {wanted}")


def _rule(declaration: Declaration, request: OptimizationRequest) -> JudgementSpec:
    return rule_of(request.judgement, declaration.margin or 0.0)


def run(
    declaration: Declaration,
    *,
    output: Path | None = None,
    renew: bool = False,
    stores_first: bool = False,
    words: OptionWords = WORDS,
    **options: Any,
) -> DeclaredOutcome:
    """Run an experiment, write its files, and compare a measurement with its stored baseline.

    `renew` stores the measurement as the baseline instead; `stores_first` does so where there is none. `options` are those of
    `ratchet.optimize`, such as `home`, `new`, `yes` and `progress`, and `words` what they are called where it is run.
    """
    folder = folder_of(declaration, output)
    fields, unread = _asked(declaration, folder)
    for warning in unread:
        print(f"ratchet: warning: {warning}", file=sys.stderr)
    path, stored = baseline_path(declaration, folder), None
    if declaration.compares and not renew and not (stores_first and not path.exists()):
        # Whatever keeps the two from being compared is told before anything is paid.
        found, errors, _ = _checked(declaration, folder, options.get("home"))
        if errors or found.request is None:
            raise SpecError("\n".join(errors), [finding.as_json() for finding in found.findings])
        try:
            stored = _comparable(declaration, path, found)
        except NoBaseline as error:
            hint = "" if path.exists() else "; pytest --ratchet=measure --ratchet-renew measures and stores it"
            raise NoBaseline(f"{error}{hint}") from None
    money = dict(fields.get("budget") or {}).get("cost") or 0.0
    told = {
        "ask_above": max(ASK_ABOVE, money),
        **{name: given for name, given in fields.items() if name in _OPTIONS},
        **options,
    }
    result = api.run_declared({**fields, **told}, words)
    if result.status == "cancelled":
        raise RunError(f"{result.id} was cancelled: {result.message}", result)
    if declaration.kind == "optimize":
        return DeclaredOutcome(result, [write_history(result._engine.run(_whole(result)), folder)])
    if declaration.kind == "explore":
        return DeclaredOutcome(result, write_measurements(result._facts, folder))
    samples = result.by_sample()
    if stored is not None:
        rule = _rule(declaration, result._facts.request)
        return DeclaredOutcome(result, (), compared(stored, samples, rule, result.configuration), path)
    written = write_measurements(result._facts, path.parent.parent, samples, name=path.stem)
    if written != [path]:
        told_where = ", ".join(map(str, written)) or "nowhere"
        raise RunError(f"{path}: is somebody else's file, so the measurement is in {told_where}; move one of them", result)
    return DeclaredOutcome(result, written, baseline=path, is_stored=True)


async def _whole(result: Result) -> RunFacts:
    """The run with what its verdicts depend on, so that they can be replayed from its history alone."""
    servers = await result._engine.servers()
    return await with_answers(result._facts, RecordedOutcomes(servers.database), MOST_AT_THE_END)


def _asked(declaration: Declaration, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """The keywords of `ratchet.optimize`, with versions that say what the functions are; and what of them nobody can read."""
    call = declaration.call(_fixed(declaration, folder))
    fields, found = dict(call.fields), fingerprint_of(*call.code)
    fields["target"] = {**fields["target"], "version": found.text}
    if call.scored_by:
        scored = fingerprint_of(*call.scored_by).text
        fields["scorers"] = [{**scorer, "version": scored} for scorer in fields["scorers"]]
    unread = [
        f"{declaration.name}: closes over {one}, which counts by its type alone: a change in it goes unseen; --ratchet-new, or "
        "`ratchet experiments --new`, pays again"
        for one in found.by_type
    ]
    return fields, unread


def _fixed(declaration: Declaration, folder: Path) -> dict[str, Any] | None:
    """The fixed factors of an optimization that depends on a measurement, as that has them."""
    if declaration.kind != "optimize" or declaration.baseline is None:
        return None
    path, use_case = baseline_path(declaration, folder), declaration.use_case
    try:
        stored = read_baseline(path)
    except NoBaseline as error:
        told = f"measure {use_case.id} first (pytest --ratchet=measure --ratchet-renew), or leave baseline out"
        raise SpecError(f"baseline: {error}; {told}") from None
    if stored.use_case_id != use_case.id:
        raise SpecError(
            f"baseline: {path} is of the use case {stored.use_case_id!r}, not of {use_case.id!r}; name another file"
        )
    unlike = {*stored.factor_suit} ^ {*use_case.values}
    if unlike:
        told = f"it and {use_case.id} do not have the same factors ({', '.join(sorted(unlike))}); measure {use_case.id} again"
        raise SpecError(f"baseline: {path} is of another configuration: {told}, by pytest --ratchet=measure --ratchet-renew")
    return {name: value for name, value in stored.factor_suit.items() if name not in declaration.treatment}


def exit_code_of(error: BaseException) -> ExitCode:
    """What a command returns for an experiment that did not end well."""
    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, SpecError | NoBaseline):
        return ExitCode.BAD_INPUT
    if isinstance(error.__context__, CommandError):
        return error.__context__.code
    result = getattr(error, "result", None)
    return ExitCode.CANCELLED if result is not None and result.status == "cancelled" else ExitCode.FAILED
