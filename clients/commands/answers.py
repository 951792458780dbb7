"""`ratchet answers`: what a candidate answered, sample by sample."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clients.commands.context import CommandError, Context, ExitCode, command

if TYPE_CHECKING:
    from clients.reports.comparisons.side_by_side import Entrant
    from clients.runs.service.servers import Servers
    from store.read.samples.sample_pairs import Turn

WIDEST = 100
"""Columns beyond which text is hard to read."""


def add_to(app: typer.Typer) -> None:
    """Register the command."""

    @command(app, "answers", "Watch")
    def answers(
        context: Context,
        name: Annotated[
            str,
            typer.Argument(
                metavar="RUN[/CANDIDATE]",
                help="A run, for its best candidate, else its baseline; or RUN/CANDIDATE, RUN/best, RUN/baseline.",
                show_default=False,
            ),
        ],
        failed: Annotated[bool, typer.Option("--failed", help="Only those that did not pass.")] = False,
        passed: Annotated[bool, typer.Option("--passed", help="Only those that passed.")] = False,
        changed_from: Annotated[
            str | None,
            typer.Option(
                "--changed-from",
                metavar="OTHER",
                help="Only samples that pass in one of both and not in the other, with the answers of both. OTHER is a "
                "candidate of this run, best, baseline, or RUN/CANDIDATE.",
            ),
        ] = None,
        proposals: Annotated[
            bool,
            typer.Option(
                "--proposals",
                help="Instead: what the proposer was asked and what it answered, and rejected proposals with their texts.",
            ),
        ] = False,
        round_number: Annotated[
            int | None, typer.Option("--round", min=1, help="With --proposals: those of one round.", show_default=False)
        ] = None,
        limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many, in the order of the dataset.")] = 10,
    ) -> int:
        """Show answers: what was asked and expected, what came, its scores with their reasons, and what went wrong.

        Those of the search are shown, not those of the confirmation.
        """
        from clients.runs.interruption import run_async

        if proposals:
            if failed or passed or changed_from is not None:
                raise CommandError("--proposals goes with --round and --limit only: a proposal neither passes nor fails")
            return run_async(context, lambda _: show_proposals(context, name, round_number, limit))
        if round_number is not None:
            raise CommandError("--round goes with --proposals")

        if failed and passed:
            raise CommandError("--failed and --passed: every answer is one or the other; give one of them, or none for all")
        only = False if failed else True if passed else None
        return run_async(context, lambda _: show_answers(context, name, only, changed_from, limit))


async def show_answers(context: Context, name: str, passed: bool | None, changed_from: str | None, limit: int) -> int:
    """Find the candidate and show its answers; `passed` leaves only those that did, or did not."""
    from clients.reports.comparisons.side_by_side import Incomparable, UnknownEntrant
    from clients.runs.lookup import unknown_entrant, unknown_run
    from clients.runs.service.servers import has_data, reach_servers

    if not has_data(context.home):
        raise unknown_run(name, [])
    async with reach_servers(context.home) as servers:
        try:
            one = await _best_or_baseline(servers, name)
            if changed_from is None:
                await _show_all(context, servers, one, passed, limit)
            else:
                await _show_changed(context, servers, await _other(servers, one, changed_from), one, passed, limit)
        except UnknownEntrant as unknown:
            raise await unknown_entrant(servers, unknown) from None
        except Incomparable as error:
            raise CommandError(str(error)) from None
    return ExitCode.DONE


async def show_proposals(context: Context, name: str, round_number: int | None, limit: int) -> int:
    """Show what proposers were asked and answered, of a run or of one candidate, and what was rejected."""
    from clients.reports.formatting import counted
    from clients.reports.text.proposals import proposal_text, rejected_text
    from clients.runs.lookup import known_ids, unknown_run
    from clients.runs.service.servers import has_data, reach_servers

    run_id, _, candidate = name.partition("/")
    if not has_data(context.home):
        raise unknown_run(run_id, [])
    async with reach_servers(context.home) as servers:
        reader = servers.reader.proposals
        page = await reader.page(run_id, round=round_number, candidate=candidate or None, limit=limit)
        if page is None:
            raise unknown_run(run_id, await known_ids(servers))
        rejected = [] if candidate else await reader.all_rejected(run_id, limit, round=round_number)
        removed = await _removals_of(servers, run_id)
    head = f"{name}: {counted(page.total, 'request')} for new values"
    if len(page.items) < page.total:
        head += f"; the first {len(page.items)} of them, --limit shows more"
    texts = [proposal_text(place, _width()) for place in page.items] + [rejected_text(one, _width()) for one in rejected]
    facts = {
        "run_id": run_id,
        "total": page.total,
        "proposals": [place.model_dump(mode="json") for place in page.items],
        "rejections": [one.model_dump(mode="json") for one in rejected],
        **removed,
    }
    context.facts(facts, "\n\n".join([head, *removed.values(), *texts]))
    return ExitCode.DONE


async def _best_or_baseline(servers: Servers, name: str) -> Entrant:
    from clients.reports.comparisons.side_by_side import Incomparable, named_entrant

    try:
        return await named_entrant(servers.reader, name)
    except Incomparable:
        if "/" in name:
            raise
        return await named_entrant(servers.reader, f"{name}/baseline")


async def _other(servers: Servers, one: Entrant, named: str) -> Entrant:
    """A candidate of the same run, else whatever the name says."""
    from clients.reports.comparisons.side_by_side import UnknownEntrant, named_entrant

    try:
        return await named_entrant(servers.reader, f"{one.run.run_id}/{named}")
    except UnknownEntrant as unknown:
        if "/" not in named:
            raise
        try:
            return await named_entrant(servers.reader, named)
        except UnknownEntrant:
            raise unknown from None


async def _show_all(context: Context, servers: Servers, one: Entrant, passed: bool | None, limit: int) -> None:
    from clients.reports.formatting import counted
    from clients.reports.text.answers import answer_text

    page = await servers.reader.trials.items(one.run.run_id, one.candidate_id, passed=passed, limit=limit)
    items = () if page is None else page.items
    total = 0 if page is None else page.total
    told = {None: "", True: " that passed", False: " that did not pass"}[passed]
    several = any(item.replicate for item in items)
    texts = [answer_text(item, several=several, width=_width()) for item in items]
    facts = [item.model_dump(mode="json") for item in items]
    _tell(context, one, total, f"{counted(total, 'answer')}{told}", facts, texts, await _removed(servers, one))


async def _show_changed(
    context: Context, servers: Servers, other: Entrant, one: Entrant, passed: bool | None, limit: int
) -> None:
    from clients.reports.formatting import counted
    from clients.reports.text.answers import changed_text

    turns: tuple[Turn, ...] = ("broken", "fixed") if passed is None else ("fixed",) if passed else ("broken",)
    found = [await servers.reader.comparisons.load(other.side(None), one.side(None), only=turn, limit=limit) for turn in turns]
    total = sum(part.total for part in found if part is not None)
    items = [item for part in found if part is not None for item in part.items][:limit]
    told = f"{counted(total, 'sample')} {' or '.join(turns)} since {other.name}"
    texts = [changed_text(item, _width()) for item in items]
    facts = [item.model_dump(mode="json") for item in items]
    more = {"changed_from": f"{other.run.run_id}/{other.candidate_id}", **await _removed(servers, one)}
    _tell(context, one, total, told, facts, texts, more)


async def _removed(servers: Servers, one: Entrant) -> dict[str, str]:
    return await _removals_of(servers, one.run.run_id)


async def _removals_of(servers: Servers, run_id: str) -> dict[str, str]:
    """What a policy has removed of the run, where it has."""
    from clients.reports.removal_notes import removal_text

    detail = await servers.reader.runs.load(run_id)
    told = "" if detail is None else removal_text(detail.removals)
    return {"removed": told} if told else {}


def _tell(
    context: Context,
    one: Entrant,
    total: int,
    told: str,
    facts: list[dict[str, Any]],
    texts: list[str],
    more: dict[str, Any] | None = None,
) -> None:
    head = f"{one.run.run_id}/{one.candidate_id}: {told}"
    if len(texts) < total:
        head += f"; the first {len(texts)} of them, --limit shows more"
    head += f"\n{more['removed']}" if more and more.get("removed") else ""
    whose = {"run_id": one.run.run_id, "candidate_id": one.candidate_id, **(more or {})}
    context.facts({**whose, "total": total, "answers": facts}, "\n\n".join([head, *texts]))


def _width() -> int:
    return min(shutil.get_terminal_size().columns, WIDEST)
