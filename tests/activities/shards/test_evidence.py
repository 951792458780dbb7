"""Judgement over what is stored: trials are compared sample by sample, and decided together."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from activities.plugins.calls import PluginCalls
from activities.plugins.loader import Plugins
from activities.shards.conclusion import Concluding
from activities.shards.evidence import Judging
from tests.support.store_examples import ExampleRun
from workflows.model.activities.judge import JudgeInput
from workflows.model.run.candidates import Candidate
from workflows.model.run.contract import HistoryPage
from workflows.model.run.decisions import Decision, Reference
from workflows.model.spec.judgement import Verdict
from workflows.model.trial import Conclusion, TrialResult

COUNT = 12
ITEMS = [{"id": f"s{n}", "input": {"n": n}, "expected": n, "tags": ["vital"] if n < 2 else []} for n in range(COUNT)]


async def opened(example: ExampleRun, **changes: Any) -> ExampleRun:
    return await replace(example, samples=COUNT, replicates=1).open(dataset={"items": ITEMS}, **changes)


def named(candidate: Candidate) -> Reference:
    return Reference(candidate_id=candidate.candidate_id, config_hash=candidate.config_hash)


async def concluded(run: ExampleRun, name: str, scores: list[float], *against: str) -> TrialResult:
    """Answer a candidate's samples, in the suite's order, with these scores, and conclude its trial."""
    trial = run.trial(run.candidate(name), references=tuple(named(run.candidate(other)) for other in against))
    await run.store.trials.begin(trial)
    outcomes = [run.outcome(place, 0, score) for place, score in enumerate(scores)]
    await run.store.outcomes.commit(run.shard(trial), run.suite, outcomes)
    calls = PluginCalls()
    concluding = Concluding(run.store, Plugins([]), calls, Judging(run.store))
    return await concluding.conclude(Conclusion(trial=trial))


HALF = [1.0, 0.0] * (COUNT // 2)
ALL = [1.0] * COUNT
NONE = [0.0] * COUNT


async def test_a_trial_brings_its_evidence_against_every_reference(example: ExampleRun) -> None:
    run = await opened(example)
    assert (await concluded(run, "baseline", HALF)).evidence == ()
    await concluded(run, "better", ALL, "baseline")
    result = await concluded(run, "third", NONE, "baseline", "better")
    baseline, better = result.evidence
    assert (baseline.reference, baseline.n, baseline.worse) == ("baseline", COUNT, 6)
    assert (better.reference, better.n, better.worse) == ("better", COUNT, COUNT)
    assert [baseline.effect, better.effect] == pytest.approx([-0.5, -1.0])
    assert better.p_worse == pytest.approx(0.5**COUNT)


async def test_samples_without_an_answer_are_left_out_and_counted(example: ExampleRun) -> None:
    run = await opened(example)
    await concluded(run, "baseline", HALF)
    trial = run.trial(run.candidate("gappy"), references=(named(run.candidate()),), min_coverage=0.5)
    await run.store.trials.begin(trial)
    outcomes = [run.outcome(place, 0, 1.0) for place in range(COUNT - 3)]
    await run.store.outcomes.commit(run.shard(trial), run.suite, outcomes)
    result = await Concluding(run.store, Plugins([]), PluginCalls(), Judging(run.store)).conclude(Conclusion(trial=trial))
    [evidence] = result.evidence
    assert (evidence.n, evidence.missing) == (COUNT - 3, 3)


async def test_a_trial_that_did_not_complete_is_compared_with_nothing(example: ExampleRun) -> None:
    run = await opened(example)
    await concluded(run, "baseline", HALF)
    assert (await concluded(run, "short", [1.0] * 3, "baseline")).evidence == ()


async def test_the_same_trial_concluded_again_gives_the_same_evidence(example: ExampleRun) -> None:
    run = await opened(example)
    await concluded(run, "baseline", HALF)
    first = await concluded(run, "better", ALL, "baseline")
    again = await asyncio.gather(*(concluded(run, "better", ALL, "baseline") for _ in range(3)))
    assert all(one.evidence == first.evidence for one in again)


async def test_candidates_of_one_decision_are_judged_together(example: ExampleRun) -> None:
    run = await opened(example)
    for name, scores in (("baseline", NONE), ("better", ALL), ("same", NONE)):
        await concluded(run, name, scores)
    candidates = tuple(named(run.candidate(name)) for name in ("better", "same"))
    asked = JudgeInput(
        run_id=run.run_id, split=run.suite.split, replicates=1, reference=named(run.candidate()), candidates=candidates
    )
    better, same = (await Judging(run.store).judge(asked)).judged
    assert (better.verdict, better.family) == (Verdict.BETTER, 2)
    assert better.adjusted_p == pytest.approx(2 * 0.5**COUNT)
    assert (same.verdict, same.accepted) == (Verdict.INCONCLUSIVE, False)  # too few samples to exclude a small loss


async def test_must_pass_samples_are_found_by_id_and_by_tag_wherever_the_seed_put_them(example: ExampleRun) -> None:
    run = await opened(example, judgement={"must_pass": {"samples": ["s7"], "tags": ["vital"]}})
    async with run.database.connection() as connection:
        rows = await connection.fetch("SELECT drawn.position, item_id FROM suite_samples drawn JOIN samples USING (item_hash)")
    places = {row["item_id"]: row["position"] for row in rows}
    await concluded(run, "baseline", ALL)
    scores = list(ALL)
    scores[places["s7"]] = scores[places["s1"]] = scores[places["s5"]] = 0.0
    result = await concluded(run, "breaks", scores, "baseline")
    assert sorted(result.evidence[0].must_pass_broken) == ["s1", "s7"]


async def test_a_direction_turns_losses_into_gains(example: ExampleRun) -> None:
    run = await opened(example, objective={"metric": "exact", "direction": "minimize"})
    await concluded(run, "baseline", ALL)
    [evidence] = (await concluded(run, "lower", HALF, "baseline")).evidence
    assert (evidence.better, evidence.worse) == (6, 0)
    assert evidence.effect == pytest.approx(0.5)


async def test_evidence_and_decision_are_kept_with_the_trial_and_read_back_for_the_optimizer(example: ExampleRun) -> None:
    run = await opened(example)
    await concluded(run, "baseline", HALF)
    result = await concluded(run, "better", ALL, "baseline")
    decision = Decision(
        candidate_id="better", kept=True, reference="baseline", verdict=Verdict.BETTER, accepted=True, explanation="kept: …"
    )
    record = run.round(1, decisions=(decision,), best_so_far=1.0, best_so_far_id="better")
    await run.store.trials.begin(run.trial(run.candidate("next", round=2), records=(record,)))
    [_, row] = await run.store.search_history.page(HistoryPage(run_id=run.run_id))
    assert (row.facts.kept, row.facts.verdict, row.facts.accepted) == (True, "better", True)
    async with run.database.connection() as connection:
        kept = await connection.fetchrow("SELECT evidence ->> 0 AS evidence, judged FROM trials WHERE candidate_id = 'better'")
        event = await connection.fetchval(
            "SELECT payload #>> '{decisions,0,explanation}' FROM events WHERE type = 'progress_changed'"
        )
    assert kept is not None
    assert type(result.evidence[0]).model_validate_json(kept["evidence"]) == result.evidence[0]
    assert Decision.model_validate_json(kept["judged"]) == decision
    assert event == "kept: …"
