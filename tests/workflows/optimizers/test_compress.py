"""`compress`: every edit alone, then together, then greedily; nothing twice, nothing that is no shorter."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from pydantic import JsonValue

from ratchet._formats.canonical import content_hash
from ratchet.optimizer import CandidateProposal, OptimizerState, StopReason, TrialFacts, TrialHistory
from tests.support.fake_frame import FakeFrame
from tests.support.spec_building import request
from workflows.model.activities.computation import Reads, Stored
from workflows.model.run.contract import Proposed
from workflows.model.run.run_result import Confirmation, OptimizationResult
from workflows.model.spec.judgement import Evidence, Judged, Verdict
from workflows.optimizers import build_optimizer
from workflows.optimizers.compress import Compress
from workflows.optimizers.computations import computation
from workflows.optimizers.frame import ProposalFailed
from workflows.rules.spec.check import check_request

RULES = "Answer with one of the labels and nothing else at all.\n"
COURTESY = "Please be so kind as to read the ticket with all the care that our customers deserve of us.\n"
PRIDE = "Take pride in your work, and keep the good name of our brand in mind in whatever you may say.\n"
PROMPT = RULES + COURTESY + PRIDE

SPEC: dict[str, Any] = {
    "configuration": {"prompt": {"value": PROMPT, "change": "text", "max_length": 2000}, "model": "small"},
    "target": {"kind": "python", "ref": "a:t"},
    "optimizer": {"name": "compress", "strategies": ["ablation"], "min_section_tokens": 5},
}


class CountingFrame(FakeFrame):
    """Its computations are the real ones."""

    async def compute(
        self, function: str, arguments: Mapping[str, JsonValue], *, reads: Reads, plugin: str | None = None
    ) -> JsonValue:
        self.asked.append({"function": function})
        return computation(function)(Stored(), arguments)


class Compression:
    """Runs the optimizer against a judge."""

    def __init__(self, judge: Callable[[str], bool], **changes: Any) -> None:
        self.frame = CountingFrame(**{**SPEC, **changes})
        optimizer = build_optimizer(self.frame.made.optimizer, self.frame)
        assert isinstance(optimizer, Compress)
        self.optimizer = optimizer
        self.judge = judge
        self.state: OptimizerState = optimizer.initialize(self.frame.context)
        baseline = {name: factor.value for name, factor in self.frame.factors.items()}
        self.trials = [
            TrialFacts(
                candidate_id="r0", config_hash=content_hash(baseline), round=0, status="completed", score=0.9, success_rate=0.9
            )
        ]
        self.rounds: list[list[CandidateProposal]] = []

    async def round(self) -> list[CandidateProposal]:
        proposals = list(await self.optimizer.propose(self.state, TrialHistory(trials=tuple(self.trials)), 40))
        facts = [self._measured(proposal) for proposal in proposals if proposal.withdrawn is None]
        self.trials += facts
        self.rounds.append(proposals)
        self.state = self.optimizer.observe(self.state, facts)
        return proposals

    def _measured(self, proposal: CandidateProposal) -> TrialFacts:
        accepted = self.judge(str(proposal.configuration["prompt"]))
        name = f"c{len(self.trials) + sum(map(len, self.rounds))}{content_hash(proposal.configuration)[:6]}"
        self.frame.configurations[name] = proposal.configuration
        return TrialFacts(
            candidate_id=name,
            config_hash=content_hash(proposal.configuration),
            round=len(self.rounds) + 1,
            status="completed",
            score=0.9,
            success_rate=0.85 if accepted else 0.4,
            accepted=accepted,
            verdict="not_worse" if accepted else "worse",
            regressions=0 if accepted else 11,
            kept=accepted,
        )

    async def run(self) -> None:
        while not self.optimizer.should_stop(self.state, TrialHistory(trials=tuple(self.trials))).should_stop:
            await self.round()
            assert len(self.rounds) < 20

    def result(self, accepted: bool | None = None) -> OptimizationResult:
        """As the frame makes it: the shortest candidate that was accepted is the best."""
        good = [
            (len(str(self.frame.configurations[t.candidate_id]["prompt"])), t.candidate_id) for t in self.trials if t.accepted
        ]
        best = min(good)[1] if good else "r0"
        baseline = {name: factor.value for name, factor in self.frame.factors.items()}
        configurations = {**self.frame.configurations, "r0": baseline}
        judged = Judged(verdict=Verdict.NOT_WORSE, accepted=bool(accepted), evidence=Evidence(reference="r0"))
        return OptimizationResult(
            optimization_id="run",
            status="completed",
            stop_reason=StopReason.COMPLETED,
            best_candidate_id=best,
            best_configuration=configurations[best],
            confirmation=None if accepted is None else Confirmation(judged=judged),
        )


def texts(proposals: Iterable[CandidateProposal]) -> list[str]:
    return [str(proposal.configuration["prompt"]) for proposal in proposals]


async def test_every_edit_is_tried_alone_in_one_round_then_the_harmless_ones_together() -> None:
    compression = Compression(lambda prompt: RULES in prompt)
    await compression.run()
    alone, together = compression.rounds
    assert sorted(texts(alone)) == sorted([COURTESY + PRIDE, RULES + PRIDE, RULES + COURTESY])
    savings = [int(str(proposal.extra["saved_tokens"])) for proposal in alone]
    assert savings == sorted(savings, reverse=True)
    assert texts(together) == [RULES]
    assert together[0].extra["phase"] == "together"
    stop = compression.optimizer.should_stop(compression.state, TrialHistory())
    assert (stop.reason, stop.message) == (StopReason.COMPLETED, "Compressed: 2 of 3 edits kept")


async def test_edits_that_hurt_each_other_are_added_greedily_and_what_is_known_is_not_measured_again() -> None:
    compression = Compression(lambda prompt: len(prompt) > len(RULES + COURTESY) - 5)
    await compression.run()
    assert [proposals[0].extra["phase"] for proposals in compression.rounds] == ["alone", "together", "greedy", "greedy"]
    assert texts(compression.rounds[2]) == [RULES]
    hashes = [trial.config_hash for trial in compression.trials]
    assert len(set(hashes)) == len(hashes)


async def test_a_set_that_somebody_else_tried_already_is_not_measured_again() -> None:
    compression = Compression(lambda prompt: RULES in prompt)
    known: dict[str, JsonValue] = {"prompt": RULES, "model": "small"}
    compression.trials.append(
        TrialFacts(candidate_id="own", config_hash=content_hash(known), round=1, status="completed", score=1.0, accepted=True)
    )
    compression.frame.configurations["own"] = known
    await compression.run()
    assert [proposal for proposals in compression.rounds[1:] for proposal in proposals] == []
    report = compression.optimizer.report(compression.state, compression.result())["compression"]
    assert report.has_modifications


async def test_the_report_says_what_became_of_every_edit() -> None:
    compression = Compression(lambda prompt: RULES in prompt)
    await compression.run()
    report = compression.optimizer.report(compression.state, compression.result(accepted=True))["compression"]
    [changed] = report.modifications
    assert (changed.section_path, changed.proposed_body) == ("prompt", RULES)
    assert changed.original_hash == hashlib.sha256(PROMPT.encode()).hexdigest()
    assert (changed.baseline_pass_rate, changed.candidate_pass_rate) == (0.9, 0.85)
    assert changed.token_reduction == report.total_token_reduction == report.tokens_before - report.tokens_after > 0
    assert report.confirmed
    [rejected] = report.rejected
    assert (rejected.regression_count, rejected.pass_rate, rejected.reason) == (11, 0.4, "alone: worse")
    assert {edit.reason for edit in report.edits if edit.kept} == {"kept"}


async def test_a_state_that_went_through_json_goes_on_where_it_was() -> None:
    compression = Compression(lambda prompt: RULES in prompt)
    await compression.round()
    again = Compression(lambda prompt: RULES in prompt)
    again.trials, again.frame.configurations = [*compression.trials], compression.frame.configurations
    again.state = OptimizerState.model_validate_json(compression.state.model_dump_json())
    assert texts(await again.round()) == texts(await compression.round())


async def test_what_validation_keeps_out_is_neither_tried_again_nor_part_of_the_set() -> None:
    compression = Compression(lambda prompt: RULES in prompt)
    proposals = list(await compression.optimizer.propose(compression.state, TrialHistory(trials=tuple(compression.trials)), 40))
    facts = [compression._measured(proposal) for proposal in proposals[1:]]
    compression.state = compression.optimizer.observe(compression.state, facts)
    report = compression.optimizer.report(compression.state, compression.result())["compression"]
    assert "kept out" in report.edits[0].reason
    found = compression.optimizer.should_stop(compression.state, TrialHistory())
    assert found.should_stop


def written(text: str) -> Proposed:
    return Proposed(values={"prompt": text})


MODEL = {"kind": "model", "model": "m"}


async def test_a_model_may_write_a_section_shorter() -> None:
    compression = Compression(lambda prompt: True, optimizer={"name": "compress", "strategies": [], "proposer": MODEL})
    compression.frame.answers = [written("Answer with a label only.")]
    await compression.run()
    assert texts(compression.rounds[0]) == ["Answer with a label only."]
    asked = next(one for one in compression.frame.asked if "kind" in one)
    assert (asked["factors"], asked["parent"]) == (("prompt",), "r0")


async def test_a_rewritten_section_that_is_no_shorter_is_withdrawn_for_the_record() -> None:
    compression = Compression(
        lambda prompt: True, optimizer={"name": "compress", "strategies": ["ablation"], "proposer": MODEL}
    )
    compression.frame.answers = [written(PROMPT + "And be quick about it.")]
    [*_, last] = await compression.round()
    assert last.withdrawn is not None
    assert last.withdrawn.reason_code == "not_smaller"
    assert all(proposal.withdrawn is None for proposal in compression.rounds[0][:-1])


async def test_a_rewritten_section_and_its_cuts_exclude_each_other() -> None:
    compression = Compression(
        lambda prompt: True, optimizer={"name": "compress", "strategies": ["ablation"], "proposer": MODEL}
    )
    compression.frame.answers = [written("Label only.")]
    await compression.run()
    report = compression.optimizer.report(compression.state, compression.result())["compression"]
    assert [edit.strategy for edit in report.edits if edit.kept] in (["rewritten"], ["ablation"] * 3)
    assert len(report.modifications) == 1


async def test_a_strategy_of_ones_own_may_give_several_texts_of_which_one_is_kept() -> None:
    own = {"name": "compress", "strategies": [], "proposer": {"kind": "python", "ref": "a:shorter"}}
    compression = Compression(lambda prompt: RULES in prompt, optimizer=own)
    compression.frame.answers = [Proposed(values={"prompt": [PRIDE, RULES, RULES + PRIDE, RULES, PROMPT + PRIDE]})]
    await compression.run()
    [alone] = compression.rounds
    assert texts(proposal for proposal in alone if not proposal.withdrawn) == [RULES, PRIDE, RULES + PRIDE]
    assert [proposal.withdrawn.reason_code for proposal in alone if proposal.withdrawn] == ["not_smaller"]
    report = compression.optimizer.report(compression.state, compression.result())["compression"]
    assert report.modifications[0].proposed_body == RULES
    assert [edit.kept for edit in report.edits] == [True, False, False]


async def test_a_model_that_fails_costs_its_own_edits_only() -> None:
    both = {"name": "compress", "strategies": ["ablation"], "proposer": MODEL}
    compression = Compression(lambda prompt: RULES in prompt, optimizer=both)
    compression.frame.answers = [ProposalFailed("no answer")]
    await compression.run()
    assert len(compression.rounds[0]) == 3
    alone = Compression(lambda prompt: True, optimizer={"name": "compress", "strategies": [], "proposer": MODEL})
    alone.frame.answers = [ProposalFailed("no answer")]
    with pytest.raises(ProposalFailed, match="no answer"):
        await alone.round()


async def test_short_sections_are_left_alone_and_the_run_ends_saying_so() -> None:
    compression = Compression(lambda prompt: True, optimizer={"name": "compress", "min_section_tokens": 500})
    await compression.run()
    assert compression.rounds == [[]]
    stop = compression.optimizer.should_stop(compression.state, TrialHistory())
    assert stop.message == "Compressed: 0 of 0 edits kept"


async def test_lists_of_examples_lose_examples() -> None:
    examples = [{"input": f"ticket number {n}", "output": "bug"} for n in range(3)]
    configuration = {
        "prompt": "Sort it.",
        "examples": {"value": examples, "change": "structured", "type": "json", "schema": {"type": "array"}},
    }
    compression = Compression(
        lambda prompt: True,
        configuration=configuration,
        optimizer={"name": "compress", "strategies": ["examples"], "min_section_tokens": 0},
    )
    [first, *_] = await compression.round()
    assert len(first.configuration["examples"]) == 2


def test_the_defaults_ask_for_non_inferiority_and_length() -> None:
    made = request(**SPEC)
    assert (made.judgement.rule, made.judgement.accept, made.judgement.correction) == ("non_inferiority", "shorter", "none")
    assert (made.replicates, made.stop.no_improvement) == (3, 0)
    strict = request(**SPEC, judgement={"rule": "strict"}, replicates=1)
    assert (strict.judgement.rule, strict.judgement.accept, strict.replicates) == ("strict", "shorter", 1)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"optimizer": {"name": "compress", "factors": ["nope"]}}, "optimizer.factors: 'nope' is no factor"),
        ({"optimizer": {"name": "compress", "factors": ["model"]}}, "optimizer.factors: 'model' is frozen"),
        ({"configuration": {"model": "small"}}, "configuration: nothing can become shorter"),
        ({"judgement": {"accept": "score"}}, "judgement.accept: is 'score', but compress keeps what is shorter"),
        (
            {"optimizer": {"name": "compress", "proposer": {**MODEL, "template": "{{nope}}"}}},
            "optimizer.proposer.template: placeholder {{nope}} is unknown",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_the_fix(changes: dict[str, Any], problem: str) -> None:
    problems = check_request(request(**{**SPEC, **changes}))
    assert any(found.startswith(problem) for found in problems), problems


def test_a_compression_needs_a_way() -> None:
    with pytest.raises(ValueError, match="give strategies or a proposer"):
        request(**{**SPEC, "optimizer": {"name": "compress", "strategies": []}})


def test_the_mutator_is_told_in_words() -> None:
    ways = {"name": "compress", "strategies": ["whitespace", "ablation"], "proposer": {"kind": "model", "model": "m"}}
    assert request(**{**SPEC, "optimizer": ways}).optimizer.describe(2000) == (
        "Sections made shorter: whitespace, ablation, rewritten by a model"
    )
