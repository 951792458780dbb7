"""What is shown when a run is over: its report, where its history is, and how to see it in Temporal's UI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.commands.context import CommandError, Context, ExitCode
from clients.reports.facts import RunFacts, errors_met, least_coverage
from clients.reports.gates import BadGate, GateResult, check_gate, meets
from clients.reports.headline import headline_of
from clients.reports.history.answers import MOST_AT_THE_END, with_answers
from clients.reports.history.files import write_history
from clients.reports.history.specifications import write_measurements
from clients.reports.history.stored_baselines import StoredSample, measured_samples
from clients.reports.junit import junit_xml
from clients.reports.load import facts_of
from clients.reports.markdown import markdown
from clients.reports.text.boxes import Verbosity, box
from clients.runs.ended_runs import look_now
from clients.runs.follow import why_it_was_refused
from clients.runs.lookup import TERMINAL, known_run
from clients.runs.service.servers import Servers
from store.read.replay_records import RecordedOutcomes

EXIT_CODES = {"completed": ExitCode.DONE, "cancelled": ExitCode.CANCELLED}


@dataclass(frozen=True)
class EndView:
    """How a run's end is shown."""

    verbosity: Verbosity = Verbosity.SUMMARY
    output: Path = Path()
    ui_command: str = "ratchet dev"
    """What brings Temporal's UI up again, on embedded servers."""
    gates: tuple[str, ...] = ()
    """Conditions that the run must meet."""
    junit: Path | None = None
    """Where JUnit XML is written."""
    summary: Path | None = None
    """The file that a Markdown summary is added to."""
    strict: bool = False
    """Whether what the first look found is as bad as bad input."""


def ending_of(
    verbosity: str,
    output: Path,
    gates: Sequence[str] | None,
    junit: Path | None,
    summary: Path | None,
    *,
    strict: bool = False,
) -> EndView:
    """The options as given on the command line, refused before anything is spent where they cannot work."""
    for gate in gates or ():
        try:
            check_gate(gate)
        except BadGate as error:
            raise CommandError(f"--gate: {error}") from None
    for name, path in (("--junit", junit), ("--summary", summary)):
        if path is not None and not path.absolute().parent.is_dir():
            raise CommandError(f"{name}: {path.absolute().parent} is no directory; make it, or name another file")
    return EndView(verbosity_of(verbosity), output, gates=tuple(gates or ()), junit=junit, summary=summary, strict=strict)


async def facts_or_error(servers: Servers, run_id: str, slices: Sequence[str] | None = None) -> RunFacts:
    """The run as reports see it, by slices of the given fields, else of those that the spec names."""
    report = await servers.reader.runs.report(run_id)
    if report is None:
        raise await why_it_was_refused(servers, run_id)
    found = await servers.reader.slices.of_run(run_id, slices)
    return facts_of(report).model_copy(update={"slices": found, "slices_asked": bool(slices)})


async def facts_at_the_end(servers: Servers, run_id: str) -> RunFacts:
    """The facts of a run that is over, whoever ended it."""
    facts = await facts_or_error(servers, run_id)
    if facts.status in TERMINAL:
        return facts
    await look_now(servers.client, servers.database)  # it was ended from outside a moment ago
    return await facts_or_error(servers, run_id)


async def show_end(context: Context, servers: Servers, run_id: str, ending: EndView, remark: str | None = None) -> ExitCode:
    """Show how a run ended and write its history; the exit code says which way it ended."""
    facts = await facts_at_the_end(servers, run_id)
    status = facts.status if facts.status in TERMINAL else (await known_run(servers, run_id)).status
    whole = await with_answers(facts, RecordedOutcomes(servers.database), MOST_AT_THE_END)
    written, measured = _written(context, whole, ending.output, await _samples(servers, facts))
    page = servers.page_of(run_id)
    context.say(box(facts, ending.verbosity))
    if facts.status not in TERMINAL:
        context.say(f"The run was ended from outside (terminated in Temporal); it stood at {facts.status}.")
    if written is not None:
        context.say(f"History:     {written}")
    for path in measured:
        context.say(f"Measured:    {path}")
    if page is not None:
        context.say(f"Temporal UI: {f'run `{ending.ui_command}`, then open ' if servers.embedded else ''}{page}")
    if remark is not None:
        context.say(remark)
    judged = [meets(gate, facts) for gate in ending.gates]
    _tell_ci(context, facts, ending, judged)
    files = {"history_file": str(written) if written else None, "measurement_files": [str(path) for path in measured]}
    told = run_json(facts, status) | files | {"ui": page}
    context.facts(told | gates_json(judged))
    if ending.strict and facts.first_look is not None and facts.first_look.warnings:
        return ExitCode.BAD_INPUT
    return gated(EXIT_CODES.get(status, ExitCode.FAILED), judged)


def gated(code: ExitCode, judged: Sequence[GateResult]) -> ExitCode:
    """A run that did not end well says so first; a gate is asked of those that did."""
    return ExitCode.GATE_NOT_MET if code is ExitCode.DONE and not all(gate.met for gate in judged) else code


def gates_json(judged: Sequence[GateResult]) -> dict[str, Any]:
    """The gates as facts; nothing where none was asked."""
    if not judged:
        return {}
    return {"gates": [{"gate": one.gate, "met": one.met, "figures": one.figures, "unknown": one.missing} for one in judged]}


def _tell_ci(context: Context, facts: RunFacts, ending: EndView, judged: Sequence[GateResult]) -> None:
    """For people the gates, for the CI system its files. A file that cannot be written does not hide how the run ended."""
    for gate in judged:
        context.say(gate.words[:1].upper() + gate.words[1:])
    for option, path, text in (
        ("--junit", ending.junit, junit_xml(facts, judged)),
        ("--summary", ending.summary, markdown(facts, ending.verbosity, judged)),
    ):
        if path is None:
            continue
        try:
            with path.open("w" if option == "--junit" else "a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            context.note(f"ratchet: {option}: cannot write {path}: {error.strerror or error}")


async def _samples(servers: Servers, facts: RunFacts) -> dict[str, StoredSample]:
    """What a measurement reached on every sample, for whoever compares a later one with it."""
    optimizer = facts.request.optimizer
    return await measured_samples(servers.reader, facts) if optimizer.is_comparison and not optimizer.looks_further else {}


def _written(
    context: Context, facts: RunFacts, output: Path, samples: dict[str, StoredSample]
) -> tuple[Path | None, list[Path]]:
    """The history, and where a run without a search measured something, that."""
    try:
        return write_history(facts, output), write_measurements(facts, output, samples)
    except OSError as error:
        context.note(f"ratchet: the history could not be written under {output}: {error.strerror or error}; see --output")
        return None, []


def run_json(facts: RunFacts, status: str) -> dict[str, Any]:
    """A run's outcome as JSON: the workflow's own result, with what is known before there is one."""
    result = facts.result.model_dump(mode="json") if facts.result is not None else {}
    return {
        "headline": headline_of(facts).model_dump(mode="json"),
        **result,
        "run_id": facts.run_id,
        "status": status,
        "iterations": len(facts.iterations),
        "counts": facts.counts.model_dump(mode="json"),
        "spend": facts.spend.model_dump(mode="json"),
        "lost": facts.lost.model_dump(mode="json"),
        "reused": facts.reused,
        "errors": errors_met(facts),
        "least_coverage": least_coverage(facts),
        "first_look": [] if facts.first_look is None else list(facts.first_look.warnings),
    }


def verbosity_of(text: str) -> Verbosity:
    """MINIMAL, SUMMARY or FULL, in any case."""
    try:
        return Verbosity(text.lower())
    except ValueError:
        known = ", ".join(verbosity.value for verbosity in Verbosity)
        raise CommandError(f"--verbosity: {text!r} is unknown; use one of {known}") from None
