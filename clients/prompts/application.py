"""Applying what a compression found to a stored prompt, in whichever store it is."""

from __future__ import annotations

from clients.commands.context import CommandError, Context, ExitCode
from clients.prompts.stores import reach_prompts, user
from clients.reports.compressions import compression_text
from clients.reports.text.terminal_text import one_line
from clients.runs.lookup import reach_run
from clients.runs.release_calls import refused_winners
from clients.runs.winner_release import refuse_unproven
from ratchet.prompts import Change, OverrideStore, PromptTemplate, StaleBase, apply_modifications, prompt_part
from ratchet.prompts.template import SECTION
from workflows.model.run.compression_report import Compression
from workflows.model.run.run_result import OptimizationResult
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.releases.release_gate import evidence_of
from workflows.rules.releases.target import released_prompt
from workflows.rules.releases.versions import FIRST, ChangeClass, Version, next_version
from workflows.rules.spec.prompt_factors import template_of


async def apply_run(context: Context, run_id: str, tag: str | None, by: str | None, reason: str) -> int:
    """Put the sections that a run made shorter in force, if the tag still points to what they were compared with."""
    async with reach_run(context.home, run_id) as (servers, _):
        detail = await servers.reader.runs.load(run_id)
    if detail is None or detail.result is None:
        raise CommandError(f"{run_id} has no result yet; `ratchet status {run_id}` shows where it stands")
    request, result = OptimizationRequest.model_validate(detail.spec), detail.result
    template, compression = _compressed(request, result)
    named = released_prompt(request)
    tag = tag or (named.tag if named else "stable")
    change = Change(
        id=f"apply-{run_id}-{str(result.best_config_hash)[:16]}",
        action="apply",
        by=by or user(),
        why=reason or compression_text(compression),
        evidence=evidence_of(result, request.objective.direction),
    )
    base = template.descriptor(template.overrides_of(prompt_part(request.baseline)))
    async with reach_prompts(context) as store:
        number = await _number(store, template.name, tag)
        try:
            found = compression.modifications
            state = await apply_modifications(store, base, found, tag=tag, change=change, version=str(number))
        except StaleBase as error:
            raise CommandError(str(error), ExitCode.FAILED, facts={"status": "stale_base"}) from None
    facts = {"prompt": state.name, "tag": tag, "revision": state.revision, "version": state.version, "hash": state.config_hash}
    context.facts(facts, one_line(f"{state.name}: {tag} is {state.version}, {compression_text(compression)}"))
    return ExitCode.DONE


def _compressed(request: OptimizationRequest, result: OptimizationResult) -> tuple[PromptTemplate, Compression]:
    """What the run compressed, and how; refused where modifications are not all that its winner is."""
    run_id, template, compression = result.optimization_id, template_of(request), result.compression
    if compression is None:
        raise CommandError(f"{run_id} compressed nothing; `ratchet release {run_id}` ships what other runs found")
    if template is None:
        raise CommandError(f"the spec of {run_id} has no prompt; `ratchet release {run_id} --prompt NAMESPACE/KEY` makes one")
    with refused_winners(run_id):
        refuse_unproven(request, result, force=False)
    sections = {SECTION + each.section_path for each in compression.modifications}
    changes = result.unproven.changes if result.unproven else result.changes
    others = [name for name in changes if name not in sections]
    if others:
        raise CommandError(f"the winner of {run_id} also changes {others[0]}, which is no section; `ratchet release {run_id}`")
    return template, compression


async def _number(store: OverrideStore, prompt: str, tag: str) -> Version:
    """The next one for shorter texts."""
    known = [Version.parse(state.version) for state in await store.versions(prompt) if state.version]
    current = await store.current(prompt, tag)
    present = Version.parse(current.version) if current and current.version else max(known, default=FIRST)
    return next_version(present, ChangeClass.MINOR, known)
