"""What a policy would remove now: a dry run of the cleanup, by the very rules that it goes by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from clients.commands.context import CommandError, Context, ExitCode
from clients.reports.formatting import counted
from clients.reports.removal_notes import hold_text
from clients.reports.text.terminal_text import one_line
from clients.runs.service.servers import has_data, reach_servers
from store.read.rows.run_rows import LegalHold
from store.read.sized_runs import SizedRuns
from workflows.rules.retention_policy import EXAMPLE, STAGES, RetentionPlan, RetentionPolicy, SizedRun, retention_plan

MOST_ROWS: Final = 50
_WORDS: Final = {"texts": "texts of answers", "answers": "answers and scores", "runs": "whole runs"}


async def show_retention(context: Context, policy: RetentionPolicy) -> int:
    """Read how large runs are, and say what a policy makes of them."""
    if not has_data(context.home):
        raise CommandError(f"there is no store in {context.home}: run something first, or name the servers")
    async with reach_servers(context.home) as servers:
        reader = SizedRuns(servers.database)
        runs = await reader.load()
        held = await reader.held()
        before = await reader.removed(limit=20)
    plan = retention_plan(policy, runs, datetime.now(UTC))
    facts: dict[str, Any] = {
        "policy": policy.words,
        "bytes": plan.bytes_before,
        "runs": len(runs),
        "due": [asdict(one) for one in plan.due],
        "over_by": plan.over_by,
        "kept": {run.run_id: run.kept for run in runs if run.kept},
        "held": {run_id: [hold.model_dump(mode="json") for hold in holds] for run_id, holds in held.items()},
        "removed_before": [removal.model_dump(mode="json") for removal in before],
    }
    context.facts(facts, "\n".join(_lines(policy, plan, runs, held)))
    return ExitCode.DONE


def _lines(
    policy: RetentionPolicy, plan: RetentionPlan, runs: Sequence[SizedRun], held: Mapping[str, tuple[LegalHold, ...]]
) -> list[str]:
    lines = [f"{counted(len(runs), 'run')} that are over take {bytes_text(plan.bytes_before)}."]
    if not policy:
        lines.append(f"No policy is stated, so nothing is ever removed. RATCHET_RETENTION or --policy states one: {EXAMPLE}")
    else:
        lines.append(f"By the policy {policy.words}, {'this goes' if plan.due else 'nothing goes'} now:")
    for stage in STAGES:
        found = [one for one in plan.due if one.removed == stage]
        if not found:
            continue
        answers, size = sum(one.answers for one in found), sum(one.bytes for one in found)
        lines.append(f"  {_WORDS[stage]}: {counted(len(found), 'run')}, {counted(answers, 'answer')}, about {bytes_text(size)}")
        lines += [
            f"    {one_line(one.run_id)}  {one.answers:,}  {bytes_text(one.bytes)}  {one.policy}" for one in found[:MOST_ROWS]
        ]
        if len(found) > MOST_ROWS:
            lines.append(f"    … and {len(found) - MOST_ROWS} more (--json lists them all)")
    if plan.over_by:
        lines.append(f"Then {bytes_text(plan.over_by)} are still too many, and nothing more may be removed.")
    kept = [f"  {one_line(run.run_id)}: {one_line(run.kept)}" for run in runs if run.kept and run.run_id not in held]
    kept += [f"  {one_line(run_id)}: held: {one_line(hold_text(holds))}" for run_id, holds in held.items()]
    return [*lines, *(["Kept whatever the policy says:", *kept] if kept else [])]


def bytes_text(size: int) -> str:
    """`1.2 GB`, in powers of a thousand as the policy counts them."""
    amount, units = float(size), ["bytes", "kB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{size} bytes" if units[0] == "bytes" else f"{amount:.1f} {units[0]}"
