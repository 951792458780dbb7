"""What an optimizer is told of a trial."""

from __future__ import annotations

from ratchet.optimizer import TrialFacts
from workflows.model.run.candidates import Candidate
from workflows.model.run.decisions import Decision
from workflows.model.trial import Split, TrialResult
from workflows.rules.decisions.round_decision import evidence_against


def facts_of(candidate: Candidate, result: TrialResult, decision: Decision, split: Split | None = None) -> TrialFacts:
    """One trial; `split` names where a part of it was measured."""
    completed = result.status == "completed"
    return TrialFacts(
        candidate_id=candidate.candidate_id,
        config_hash=candidate.config_hash,
        parent_candidate_ids=candidate.parent_candidate_ids,
        round=candidate.round,
        score=result.objective_score if completed else None,
        status=result.status,
        success_rate=result.summary.pass_rate if completed else None,
        tokens=result.summary.total_tokens,
        cost=result.summary.total_cost,
        kept=decision.kept,
        verdict=decision.verdict.value if decision.verdict else None,
        accepted=decision.accepted,
        regressions=_regressions(result, decision),
        stopped_early=result.stopped_early,
        split=split.value if split else None,
        part=candidate.part,
    )


def _regressions(result: TrialResult, decision: Decision) -> int | None:
    evidence = evidence_against(result, decision.reference) if decision.reference else None
    return evidence.strict_broken if evidence else None
