"""A frame for optimizers: hands out configurations and scripted answers, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from ratchet._formats.canonical import content_hash
from ratchet.optimizer import RunContext
from ratchet.prompts.template import PromptTemplate
from tests.support.spec_building import request
from workflows.model.activities.computation import Reads
from workflows.model.activities.optimizer_steps import CustomStepInput, CustomStepResult
from workflows.model.run.candidates import Candidate
from workflows.model.run.contract import Proposed
from workflows.model.spec.extensions.proposers import AskedProposer
from workflows.model.spec.factors import Configuration, Factor
from workflows.optimizers.frame import ProposalFailed, Prospects
from workflows.rules.spec.prompt_factors import template_of

BASELINE: Configuration = {"prompt": "Answer {{input.q}}", "temperature": 0.5, "model": "small"}


class FakeFrame:
    """Hands out configurations and scripted answers, and remembers what it was asked."""

    def __init__(self, direction: str = "maximize", seed: int = 7, **changes: Any) -> None:
        self.made = request(objective={"metric": "exact", "direction": direction}, seed=seed, **changes)
        self.configurations: dict[str, Configuration] = {"r0": BASELINE}
        self.answers: list[Proposed | ProposalFailed] = []
        self.computed: list[JsonValue | ProposalFailed] = []
        self.asked: list[dict[str, Any]] = []
        self.steps: list[CustomStepInput] = []
        self.stepped: list[CustomStepResult] = []

    @property
    def context(self) -> RunContext:
        return RunContext(
            optimization_id="r",
            evaluation_suite_id="s",
            objective_name="exact",
            direction=self.made.objective.direction,
            baseline_candidate_id="r0",
            baseline_score=0.5,
            max_candidates_per_step=4,
            seed=self.made.seed,
        )

    @property
    def factors(self) -> dict[str, Factor]:
        return self.made.configuration

    @property
    def template(self) -> PromptTemplate | None:
        return template_of(self.made)

    @property
    def prospects(self) -> Prospects:
        return Prospects(search_samples=10, train_samples=10, replicates=1, calls_left=None, trials_left=None)

    async def configuration(self, candidate_id: str) -> Configuration:
        return self.configurations[candidate_id]

    async def candidate_of(self, run_id: str, candidate_id: str) -> Candidate:
        configuration = self.configurations[candidate_id]
        return Candidate(
            candidate_id=candidate_id, config_hash=content_hash(configuration), configuration=configuration, round=1, index=0
        )

    async def new_values(self, proposer: AskedProposer, **asked: Any) -> Proposed:
        self.asked.append({"kind": proposer.kind, **asked})
        index: int = asked["index"]
        answer = self.answers[index]
        if isinstance(answer, ProposalFailed):
            raise answer
        return answer

    async def own_step(self, step: CustomStepInput) -> CustomStepResult:
        self.steps.append(step)
        return self.stepped.pop(0)

    async def compute(
        self, function: str, arguments: Mapping[str, JsonValue], *, reads: Reads, plugin: str | None = None
    ) -> JsonValue:
        self.asked.append({"function": function, "arguments": dict(arguments), "reads": reads, "plugin": plugin})
        answer = self.computed.pop(0)
        if isinstance(answer, ProposalFailed):
            raise answer
        return answer
