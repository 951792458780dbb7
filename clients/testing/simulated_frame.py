"""What a simulated run hands its optimizer: the same door as in a real one, with the world behind it."""

from __future__ import annotations

import importlib
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import JsonValue

from clients.testing.measurement import Measuring
from clients.testing.world import World, as_samples
from ratchet import Record
from ratchet._formats.canonical import NotCanonical, canonical_json, derive_seed, normalize
from ratchet.optimizer import Part, RunContext, StopReason, TrialFacts
from ratchet.prompts.template import PromptTemplate
from workflows.model.activities.computation import LARGEST_ANSWER, Reads, Stored
from workflows.model.activities.optimizer_steps import CustomStepInput, CustomStepResult
from workflows.model.run.candidates import Candidate
from workflows.model.run.contract import Proposed
from workflows.model.spec.extensions.proposers import AskedProposer
from workflows.model.spec.factors import Configuration, Factor
from workflows.optimizers.computations import computation
from workflows.optimizers.frame import Brief, ProposalFailed, Prospects, Shown
from workflows.rules.proposals.optimizer_step import Call, OwnOptimizerFailed, take_step, with_what_is_stored
from workflows.rules.proposals.parts import places
from workflows.rules.proposals.validation import Refusal
from workflows.rules.spec.prompt_factors import template_of
from workflows.run.end.ended import RunEnded
from workflows.run.proposals.remaining_work import prospects_of
from workflows.run.state import RunState


class SimulatedFrame:
    """Configurations from memory, proposals from the world, computations in this process."""

    def __init__(
        self,
        state: RunState,
        world: World,
        measuring: Measuring,
        make: Callable[..., Any] | None = None,
        call: Call | None = None,
    ) -> None:
        """`make` makes the optimizer under test; `call` calls its methods."""
        self._make = make
        self._call = call or _called
        self._state = state
        self._world = world
        self._measuring = measuring
        self._configurations: dict[str, Configuration] = {}
        self._answers_before = 0
        self.proposals = 0
        self.seconds = 0.0
        """Spent in the world's proposer and plug-ins, which are not the optimizer's."""

    def remember(self, candidate_id: str, configuration: Configuration) -> None:
        """A candidate that was let in."""
        self._configurations[candidate_id] = configuration

    @property
    def context(self) -> RunContext:
        return self._state.context()

    @property
    def factors(self) -> dict[str, Factor]:
        return self._state.request.factors_in_play

    @property
    def template(self) -> PromptTemplate | None:
        return template_of(self._state.request)

    @property
    def prospects(self) -> Prospects:
        return prospects_of(self._state)

    async def configuration(self, candidate_id: str) -> Configuration:
        return dict(self._configurations[candidate_id])

    async def candidate_of(self, run_id: str, candidate_id: str) -> Candidate:
        raise ProposalFailed(f"a simulation knows no other run, and none called {run_id!r}")

    def begin_step(self) -> None:
        """What is asked for from now on belongs to the next step of the round."""
        self._answers_before = self._state.open_round.answers

    async def new_values(
        self,
        proposer: AskedProposer,
        *,
        parent: str,
        factors: tuple[str, ...],
        index: int,
        feedback: str,
        configuration: Configuration | None = None,
        shown: tuple[Shown, ...] = (),
        brief: Brief | None = None,
    ) -> Proposed:
        place = self._state.answer_place(index, self._answers_before)
        records: list[Record] = []
        for samples in shown or (Shown(parent, limit=None),):
            part = self._state.extents.located(Part(split=samples.split, first=samples.first, count=samples.count))
            if isinstance(part, Refusal):
                raise ValueError(f"shown: {part.message}")
            records += self._measuring.records(
                self._state.hash_of(samples.candidate_id),
                self._state.split_of(part),
                proposer.examples if samples.limit is None else samples.limit,
                worst_first=samples.worst_first,
                places=places(part),
            )
        return await self._written(configuration or self._configurations[parent], records, factors, place)

    async def _written(self, current: Configuration, records: list[Record], factors: tuple[str, ...], index: int) -> Proposed:
        if self._world.propose is None:
            raise ValueError("the request has a proposer, but the world has none; give World(propose=…)")
        seed = derive_seed(self._state.request.seed, "propose", self._state.round + 1, index)
        self.proposals += 1
        returned = await self._timed(self._world.propose, dict(current), records, list(factors), seed)
        try:
            values = normalize(dict(returned))
        except (NotCanonical, TypeError, ValueError) as error:
            raise ProposalFailed(f"the world's proposer: {error}") from error
        return Proposed(values=values)

    async def own_step(self, step: CustomStepInput) -> CustomStepResult:
        """As the activity does it: through JSON, with an optimizer that is made for this step."""
        step = CustomStepInput.model_validate_json(step.model_dump_json())
        stored = self._measuring.stored
        history = with_what_is_stored(self._state.history, stored)
        observed = None
        if step.observed is not None:
            observed = tuple(self._with_records(step, trial) for trial in with_what_is_stored(step.observed, stored))
        try:
            make = self._make or self._plugin(step.optimizer.ref)
            stepped = await take_step(make, step.model_copy(update={"observed": observed}), history, self._call)
        except OwnOptimizerFailed as error:
            told = f"optimizer {step.optimizer.ref} {error}"
            raise RunEnded(StopReason.EXECUTION_FAILURE, told, "failed") from error
        return CustomStepResult.model_validate_json(stepped.model_dump_json())

    def _with_records(self, step: CustomStepInput, trial: TrialFacts) -> TrialFacts:
        assert self._state.prepared
        split = self._state.prepared.search_split if trial.part is None else self._state.split_of(trial.part)
        within = None if trial.part is None else places(trial.part)
        records = self._measuring.records(trial.config_hash, split, step.optimizer.examples, worst_first=True, places=within)
        return trial.model_copy(update={"records": tuple(records)})

    async def compute(
        self, function: str, arguments: Mapping[str, JsonValue], *, reads: Reads, plugin: str | None = None
    ) -> JsonValue:
        wanted, records = reads.records, list[Record]()
        if wanted is not None:
            records = self._measuring.records(
                self._state.hash_of(wanted.candidate_id), wanted.split, wanted.limit, worst_first=wanted.worst_first
            )
        answer = None if plugin is None else await self._timed(self._plugin(plugin), records)
        samples = as_samples(self._world.train, "train")[: reads.samples.limit] if reads.samples else ()
        trials = self._measuring.stored if reads.trials else ()
        stored = Stored(trials=trials, records=records, samples=samples, answer=answer)
        try:
            given: Any = normalize(dict(arguments))
            value: JsonValue = normalize(computation(function)(stored, given))
        except ValueError as error:
            raise ProposalFailed(f"{function}: {error}") from error
        size = len(canonical_json(value).encode())
        if size > LARGEST_ANSWER:
            raise ProposalFailed(f"{function}: its answer is {size:,} bytes; at most {LARGEST_ANSWER:,} fit")
        return value

    def _plugin(self, reference: str) -> Callable[..., Any]:
        known = self._world.plugins.get(reference)
        if known is not None:
            return known
        module, _, path = reference.partition(":")
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
        return found  # type: ignore[no-any-return]

    async def _timed(self, function: Callable[..., Any | Awaitable[Any]], *arguments: Any) -> Any:
        began = time.perf_counter()
        returned = function(*arguments)
        if inspect.isawaitable(returned):
            returned = await returned
        self.seconds += time.perf_counter() - began
        return returned


async def _called(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    returned = function(*arguments, **options)
    return await returned if inspect.isawaitable(returned) else returned
