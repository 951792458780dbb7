"""A run gone through again from the store: every outcome, and every column that repeats what was decided."""

from __future__ import annotations

from typing import Any

from clients.replay.differences import ReplayDifference, differences
from clients.replay.replayed_run import ReplayedRun, plain
from clients.replay.trial_source import Gone
from clients.replay.trials_from_file import FromMeans
from clients.replay.trials_from_store import FromOutcomes
from clients.reports.facts import Iteration, RunFacts, decision_on
from clients.reports.history.format import FINGERPRINT
from clients.reports.history.write import document_of, history_of
from clients.reports.load import facts_of
from clients.reports.removal_notes import answers_are_gone, removal_text
from store.read.replay_records import RecordedOutcomes
from store.read.rows.report_rows import RunReport
from workflows.rules.statistics import interval_of_score

_OF_THE_RECORD = ("run_id", "round", "stop_reason", "stopped")
"""What a row says beside its record, which is what reports go by."""

_NOT_COUNTED = {"running"}
"""Trials that run now; a finished run has none."""


async def replay_store(report: RunReport, outcomes: RecordedOutcomes) -> tuple[list[ReplayDifference], Gone]:
    """Where the store says something else than follows from its outcomes, and what was gone through."""
    facts = facts_of(report)
    if answers_are_gone(facts.removals):
        return await _from_what_trials_scored(facts)
    trials = FromOutcomes(outcomes, facts.run_id, facts.request)
    replayed = ReplayedRun(facts, trials)
    again = await replayed.again()
    found = [*replayed.findings, *differences(plain(facts), plain(again))]
    return [*found, *differences(_columns(report), _expected_columns(report, again))], trials.tally


async def _from_what_trials_scored(facts: RunFacts) -> tuple[list[ReplayDifference], Gone]:
    """Where the answers are gone, the scores of samples are still with the trials: as much as an exported file has."""
    trials = FromMeans(facts)
    trials.tally.cannot(removal_text(facts.removals))
    replayed = ReplayedRun(facts, trials)
    again = await replayed.again()
    stored, recomputed = (document_of(history_of(one)) for one in (facts, again))
    found = [one for one in differences(stored, recomputed) if one.field != FINGERPRINT]
    return [*replayed.findings, *found], trials.tally


def _columns(report: RunReport) -> dict[str, Any]:
    """What the store repeats of results and decisions, for those who ask it by SQL or watch it live."""
    run = report.run
    return {
        "runs": {
            "status": run.status,
            "stop_reason": run.stop_reason,
            "message": run.message,
            "baseline_candidate_id": run.baseline_candidate_id,
            "baseline_score": run.baseline_score,
            "best_candidate_id": run.best_candidate_id,
            "best_score": run.best_score,
            "round": run.round,
            "counts": run.counts.model_dump(exclude=_NOT_COUNTED),
            "spend": run.spend.model_dump(),
        },
        "trials": {
            trial.trial_id: {
                "judged": trial.judged.model_dump(mode="json") if trial.judged else None,
                "score_low": trial.score_low,
                "score_high": trial.score_high,
            }
            for trial in report.trials
        },
        "rounds": {
            str(row.round): {
                "best_candidate_id": row.best_candidate_id,
                "best_score": row.best_score,
                "best_so_far_id": row.best_so_far_id,
                "best_so_far": row.best_so_far,
                "record": {name: row.record.get(name) for name in _OF_THE_RECORD},
            }
            for row in report.rounds
        },
    }


def _expected_columns(report: RunReport, again: RunFacts) -> dict[str, Any]:
    result = again.result
    known = {one.trial_id: one for one in (*again.iterations, *again.further)}
    expected = _columns(report)
    if result is not None:
        expected["runs"] = {
            "status": result.status,
            "stop_reason": result.stop_reason.value,
            "message": result.message,
            "baseline_candidate_id": _baseline_of(again) or report.run.baseline_candidate_id,
            "baseline_score": result.baseline_score,
            "best_candidate_id": result.best_candidate_id or report.run.best_candidate_id,
            "best_score": result.best_score if result.best_score is not None else report.run.best_score,
            "round": result.rounds,
            "counts": result.counts.model_dump(exclude=_NOT_COUNTED),
            "spend": result.spend.model_dump(),
        }
    expected["trials"] = {name: _trial(one, again) for name, one in known.items()} | {
        name: told for name, told in expected["trials"].items() if name not in known
    }
    expected["rounds"] = {
        str(record.round): {
            "best_candidate_id": record.best_candidate_id,
            "best_score": record.best_score,
            "best_so_far_id": record.best_so_far_id,
            "best_so_far": record.best_so_far,
            "record": record.model_dump(mode="json", include=set(_OF_THE_RECORD)),
        }
        for record in again.rounds
    }
    return expected


def _baseline_of(again: RunFacts) -> str | None:
    return again.iterations[0].candidate_id if again.iterations else None


def _trial(again: Iteration, facts: RunFacts) -> dict[str, Any]:
    searched = any(again is one for one in facts.iterations)
    decision = decision_on(facts, again) if searched else None
    low, high = interval_of_score(again.score, again.sample_means or ()) or (None, None)
    return {
        "judged": decision.model_dump(mode="json") if decision else None,
        "score_low": low,
        "score_high": high,
    }
