"""`ratchet compare`: runs, or candidates of runs, side by side over the samples they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clients.commands.context import CommandError, Context, ExitCode, command

if TYPE_CHECKING:
    from activities.store.comparisons import Comparison
    from activities.store.reading import StoreReader
    from activities.store.rows import RunDetail
    from workflows.model.judgement import Judged

SAMPLES_NAMED = 5
PERCENT = 100.0


def add_to(app: typer.Typer) -> None:
    """Register the command."""

    @command(app, "compare", "Watch")
    def compare(
        context: Context,
        first: Annotated[
            str, typer.Argument(metavar="A", help="A run, for its best candidate, or RUN/CANDIDATE.", show_default=False)
        ],
        others: Annotated[
            list[str], typer.Argument(metavar="B…", help="What is compared with it, written alike.", show_default=False)
        ],
    ) -> int:
        """Compare runs or candidates on the samples they share: significance, cost per point, who fixed what.

        Held-back samples are compared where all of them were confirmed on some; else those that the searches used. The
        verdicts hold for all comparisons together.
        """
        from clients.commands.interrupting import run_async

        return run_async(context, lambda _: compare_all(context, [first, *others]))


@dataclass(frozen=True)
class Entrant:
    """One thing that is compared."""

    name: str
    run: RunDetail
    candidate_id: str

    @property
    def gain(self) -> float | None:
        """What its run gained over its own baseline in the search, in hundredths of a score; positive is better."""
        if self.run.best_score is None or self.run.baseline_score is None:
            return None
        sign = 1.0 if self.run.direction == "maximize" else -1.0
        return sign * (self.run.best_score - self.run.baseline_score) * PERCENT

    @property
    def cost_per_point(self) -> float | None:
        """What its run paid for each of those."""
        return self.run.spend.cost / self.gain if self.gain and self.gain > 0 else None


async def compare_all(context: Context, names: list[str]) -> int:
    """Compare everything with the first that is named."""
    from clients.commands.lookup import reach_run

    async with reach_run(context.home, names[0].split("/", 1)[0]) as (servers, _):
        entrants = [await _entrant(servers.reader, name) for name in names]
        purpose = "confirmation" if await _all_confirmed(servers.reader, entrants) else None
        compared = [await _pair(servers.reader, entrants[0], other, purpose) for other in entrants[1:]]
        fixed = [await _named(servers.reader, entrants[0], other, purpose) for other in entrants[1:]]
    judged = _judged_together(compared, entrants[0])
    if context.json:
        context.facts(_as_json(entrants, compared, judged, fixed, purpose))
        return ExitCode.DONE
    _show(entrants, compared, judged, fixed, purpose)
    return ExitCode.DONE


async def _entrant(reader: StoreReader, name: str) -> Entrant:
    from clients.commands.lookup import unknown_run

    run_id, _, candidate_id = name.partition("/")
    run = await reader.run(run_id)
    if run is None:
        raise unknown_run(run_id, [row.run_id for row in await reader.runs()])
    candidate = candidate_id or run.best_candidate_id
    if candidate is None:
        raise CommandError(f"{run_id} has no best candidate yet; name one of its trials as {run_id}/CANDIDATE")
    if await reader.trial(run_id, candidate) is None:
        raise CommandError(f"{run_id} has no candidate {candidate!r}; `ratchet report {run_id} --format json` lists them")
    return Entrant(name, run, candidate)


async def _all_confirmed(reader: StoreReader, entrants: list[Entrant]) -> bool:
    trials = [await reader.trial(one.run.run_id, one.candidate_id, "confirmation") for one in entrants]
    return all(trial is not None and trial.status == "completed" for trial in trials)


async def _pair(reader: StoreReader, one: Entrant, other: Entrant, purpose: str | None) -> Comparison:
    found = await reader.comparison(
        (one.run.run_id, one.candidate_id, purpose), (other.run.run_id, other.candidate_id, purpose), limit=0
    )
    assert found is not None  # both trials were there a moment ago
    if not found.turns:
        raise CommandError(
            f"{one.name} and {other.name} share no sample; runs can be compared that use the same dataset and split"
        )
    if one.run.direction != other.run.direction:
        raise CommandError(
            f"{one.name} is to {one.run.direction}, {other.name} to {other.run.direction}: no gain of one is one of the other"
        )
    return found


async def _named(reader: StoreReader, one: Entrant, other: Entrant, purpose: str | None) -> dict[str, list[str]]:
    """Some of the samples that were fixed, and some that were broken."""
    sides = (one.run.run_id, one.candidate_id, purpose), (other.run.run_id, other.candidate_id, purpose)
    fixed = await reader.comparison(*sides, only="fixed", limit=SAMPLES_NAMED)
    broken = await reader.comparison(*sides, only="broken", limit=SAMPLES_NAMED)
    return {
        "fixed": [item.item_id for item in fixed.items] if fixed else [],
        "broken": [item.item_id for item in broken.items] if broken else [],
    }


def _judged_together(compared: list[Comparison], first: Entrant) -> list[Judged | None]:
    """The verdicts, corrected for how many comparisons there are."""
    from workflows.model.judgement import JudgementSpec
    from workflows.rules.verdicts import judge

    spec = JudgementSpec.model_validate(first.run.spec.get("judgement") or {})
    known = [(place, one.judged.evidence) for place, one in enumerate(compared) if one.judged is not None]
    verdicts = dict(zip((place for place, _ in known), judge([evidence for _, evidence in known], spec), strict=True))
    return [verdicts.get(place) for place in range(len(compared))]


def _show(
    entrants: list[Entrant],
    compared: list[Comparison],
    judged: list[Judged | None],
    named: list[dict[str, list[str]]],
    purpose: str | None,
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for head in ("", "candidate", "score", "difference", "verdict", "fixed", "broken", "paid", "per point"):
        table.add_column(head, justify="left" if head in ("", "candidate", "difference", "verdict") else "right")
    first = compared[0].baseline
    table.add_row(*(Text(cell) for cell in _row(entrants[0], first.objective_score, "", "", "", "")))
    for entrant, one, verdict in zip(entrants[1:], compared, judged, strict=True):
        told = _difference(verdict, entrant), verdict.verdict.value.replace("_", " ") if verdict else "no answer in both"
        counts = str(one.counts["fixed"]), str(one.counts["broken"])
        table.add_row(*(Text(cell) for cell in _row(entrant, one.candidate.objective_score, *told, *counts)))
    console = Console(highlight=False)
    console.print(table)
    samples = len(compared[0].turns)
    console.print(Text(f"\nOn {samples} {'held-back' if purpose else 'search'} samples, against {entrants[0].name}."))
    for entrant, verdict, ids in zip(entrants[1:], judged, named, strict=True):
        if verdict is not None:
            console.print(Text(f"{entrant.name}: {verdict.explanation}"))
        for turn, items in ids.items():
            if items:
                console.print(Text(f"  {turn}: {_one_line(', '.join(items))}"))


def _row(entrant: Entrant, score: float | None, difference: str, verdict: str, fixed: str, broken: str) -> list[str]:
    from clients.reporting.figures import score_text

    shown = "" if score is None else score_text(score)
    point = "" if entrant.cost_per_point is None else f"{entrant.cost_per_point:.4g}"
    cells = [
        entrant.name,
        entrant.candidate_id,
        shown,
        difference,
        verdict,
        fixed,
        broken,
        f"{entrant.run.spend.cost:.4g}",
        point,
    ]
    return [_one_line(cell) for cell in cells]


def _difference(judged: Judged | None, entrant: Entrant) -> str:
    from clients.reporting.differences import difference_of, interval_text
    from ratchet.optimizer import Direction

    return "" if judged is None else interval_text(difference_of(judged.evidence, Direction(entrant.run.direction)))


def _one_line(text: str) -> str:
    from clients.reporting.visible import one_line

    return one_line(text)


def _as_json(
    entrants: list[Entrant],
    compared: list[Comparison],
    judged: list[Judged | None],
    named: list[dict[str, list[str]]],
    purpose: str | None,
) -> dict[str, Any]:
    def told(entrant: Entrant, score: float | None) -> dict[str, Any]:
        return {
            "name": entrant.name,
            "run_id": entrant.run.run_id,
            "candidate_id": entrant.candidate_id,
            "score": score,
            "paid": entrant.run.spend.cost,
            "gained_points": entrant.gain,
            "paid_per_point": entrant.cost_per_point,
        }

    return {
        "samples": "held-back" if purpose else "search",
        "reference": told(entrants[0], compared[0].baseline.objective_score),
        "compared": [
            told(entrant, one.candidate.objective_score)
            | {"counts": one.counts, "judged": verdict.model_dump(mode="json") if verdict else None, "samples": ids}
            for entrant, one, verdict, ids in zip(entrants[1:], compared, judged, named, strict=True)
        ],
    }
