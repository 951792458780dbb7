"""`ratchet replay`: what a run decided, decided again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clients.commands.context import CommandError, Context, ExitCode, command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clients.replay.differences import ReplayDifference
    from clients.replay.temporal_histories import Replayed
    from clients.replay.trial_source import Gone

LONGEST_VALUE = 200
MOST_SHOWN = 50
FILES = (".yaml", ".yml", ".json")


def add_to(app: typer.Typer) -> None:
    """Register the command."""

    @command(app, "replay", "Watch")
    def replay(
        context: Context,
        run: Annotated[
            str,
            typer.Argument(metavar="RUN|FILE", help="The run's id, or a history written by `ratchet export` or `ratchet run`."),
        ],
        history: Annotated[
            bool | None,
            typer.Option(
                "--history/--no-history",
                help="Also replay Temporal's history of the run and its trials with this version's workflow code. "
                "Default: yes, for runs.",
            ),
        ] = None,
    ) -> int:
        """Recompute every score, comparison, verdict, decision and stop of a run, and list what differs.

        Of a run, from every stored outcome; of a file, from the scores of its samples and what it holds of single
        answers. Exit code 0: nothing differs; 1: something does.
        """
        path = Path(run)
        if path.is_file() or path.suffix.lower() in FILES:
            if history:
                raise CommandError("--history: a file has no Temporal history; give the run's id, or leave --history out")
            return replay_exported(context, path)
        from clients.runs.interruption import run_async

        return run_async(context, lambda _: replay_run(context, run, history is not False))


def replay_exported(context: Context, path: Path) -> int:
    """Go through a file again."""
    import asyncio

    from clients.replay.from_file import replay_file
    from clients.reports.history.files import NotAHistory

    try:
        history, found, tally = asyncio.run(replay_file(path))
    except NotAHistory as error:
        raise CommandError(str(error)) from None
    return _told(context, history.run_id, found, tally, None)


async def replay_run(context: Context, run_id: str, histories: bool) -> int:
    """Go through a run again, from the store and from Temporal."""
    from clients.replay.from_store import replay_store
    from clients.replay.temporal_histories import replay_histories
    from clients.runs.follow import why_it_was_refused
    from clients.runs.lookup import TERMINAL, reach_run
    from store.read.replay_records import RecordedOutcomes

    async with reach_run(context.home, run_id) as (servers, known):
        report = await servers.reader.runs.report(run_id)
        if report is None:
            raise await why_it_was_refused(servers, run_id)
        if known.is_open or report.run.status not in TERMINAL:
            raise CommandError(
                f"{run_id} is not over (it is {known.status}), and replay goes through finished runs; "
                f"`ratchet watch {run_id}` shows it"
            )
        found, tally = await replay_store(report, RecordedOutcomes(servers.database))
        replayed = await replay_histories(servers.client, run_id, report.run.result) if histories else None
    return _told(context, run_id, found, tally, replayed)


def _told(context: Context, run_id: str, found: Sequence[ReplayDifference], tally: Gone, replayed: Replayed | None) -> int:
    every = [*found, *(replayed.differences if replayed is not None else ())]
    failures = replayed.failures if replayed is not None else []
    lines = [f"{one.field}: stored {_short(one.stored)}, recomputed {_short(one.recomputed)}" for one in every[:MOST_SHOWN]]
    if len(every) > MOST_SHOWN:
        lines.append(f"… and {len(every) - MOST_SHOWN} more (--json lists them all)")
    lines.append(f"{run_id}: {_gone_through(tally)}: {_counted(len(every), 'difference') if every else 'no difference'}")
    lines += [f"Not recomputed: {what}" for what in tally.not_recomputed]
    lines += _of_histories(replayed)
    facts: dict[str, Any] = {
        "run_id": run_id,
        "differences": [asdict(one) for one in every],
        "recomputed": {name: getattr(tally, name) for name in ("trials", "answers", "comparisons", "looks")},
        "not_recomputed": list(tally.not_recomputed),
        "histories": None if replayed is None else asdict(replayed),
    }
    context.facts(facts, "\n".join(lines))
    return ExitCode.FAILED if every or failures else ExitCode.DONE


def _gone_through(tally: Gone) -> str:
    parts = [_counted(tally.trials, "trial")]
    parts += [_counted(tally.answers, "answer")] if tally.answers else []
    parts += [_counted(tally.comparisons, "comparison"), *([_counted(tally.looks, "look")] if tally.looks else [])]
    return f"{', '.join(parts)}, every decision, the stop and the confirmation gone through again"


def _of_histories(replayed: Replayed | None) -> list[str]:
    if replayed is None:
        return []
    if replayed.missing is not None:
        return [f"Temporal: {replayed.missing}"]
    told = f"{_counted(replayed.executions, 'execution')} of the run and {_counted(replayed.trials, 'trial')}"
    if not replayed.failures:
        return [f"Temporal: {told} replayed with this version's code: as recorded"]
    return [f"Temporal: {told}: {len(replayed.failures)} not as recorded", *replayed.failures[:MOST_SHOWN]]


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
