"""The spec: what a person asks for, as one object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Discriminator, Field, JsonValue, Tag, field_validator, model_validator

from ratchet._formats.canonical import canonical_json
from ratchet._frozen import SpecPart
from ratchet._values import CanonicalValue
from workflows.model.spec.dataset import LARGEST_INLINE_DATASET, Dataset
from workflows.model.spec.design import Design
from workflows.model.spec.execution import Budget, Execution, Stop, StopPolicy
from workflows.model.spec.extensions.called_activity import CalledActivity, OwnActivity
from workflows.model.spec.extensions.default_optimizer import why_default
from workflows.model.spec.extensions.named_plugins import NamedPlugin
from workflows.model.spec.extensions.optimizer_options import OptimizerSpec, as_optimizer, with_defaults
from workflows.model.spec.extensions.proposers import PythonProposer
from workflows.model.spec.extensions.scorer_options import Scorer, placed_scorers
from workflows.model.spec.extensions.target_options import Target
from workflows.model.spec.factors import LARGEST_CONFIGURATION, Configuration, Factor, FrozenFactor, as_factor_definition
from workflows.model.spec.judgement import JudgementSpec, NoiseFirst
from workflows.model.spec.objective import Objective
from workflows.model.spec.prices import Price
from workflows.model.spec.prompt import PromptSource
from workflows.model.spec.release import ReleaseSpec

MOST_FACTORS = 1_000
LARGEST_REST = 256 * 1024
"""Bytes of everything but configuration and dataset. A spec is part of several payloads, and Temporal takes 2 MB of each."""

FactorName = Annotated[str, Field(pattern=r"^[A-Za-z_][\w./:-]{0,127}$")]
RunName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]{0,99}$")]
FlagName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")]

LARGEST_FLAGS = 4_000
"""Bytes as ASCII JSON: they are a header of every request to an HTTP target, and servers take 8 KB."""


def _fit_a_header(flags: dict[str, JsonValue]) -> dict[str, JsonValue]:
    size = len(json.dumps(flags))
    if size > LARGEST_FLAGS:
        raise ValueError(
            f"are {size:,} bytes; at most {LARGEST_FLAGS:,} fit into a header, make larger settings frozen factors"
        )
    return flags


Replicates = Annotated[
    Annotated[int, Field(ge=1, le=1000), Tag("count")] | Annotated[Literal["auto"], Tag("auto")],
    Discriminator(lambda value: "auto" if value == "auto" else "count"),
]


def _for_readers(schema: dict[str, Any]) -> None:
    """What pydantic cannot know: a bare value is a frozen factor, a prompt brings factors along, an optimizer may have no name.
    Unions within unions are what readers of schemas do not understand."""
    factors = schema["properties"]["configuration"]["patternProperties"]
    for pattern, definition in factors.items():
        known = {name: part for name, part in definition.items() if name != "discriminator"}
        factors[pattern] = {"anyOf": [known, {"description": "Any other value: a frozen factor."}]}
    optimizer = schema["properties"]["optimizer"]
    nameless = {"type": "object", "not": {"required": ["name"]}, "description": "Options of the optimizer that is the default."}
    optimizer["anyOf"] = [{"oneOf": optimizer.pop("oneOf")}, nameless]
    schema["properties"]["prompt"]["anyOf"].append({"type": "string", "description": "A stored prompt, at its tag `stable`."})
    schema["required"] = [name for name in schema["required"] if name not in ("configuration", "optimizer")]
    schema["anyOf"] = [{"required": ["configuration"]}, {"required": ["prompt"]}]


class OptimizationRequest(SpecPart):
    """A run of Ratchet: a configuration to improve, a target to run it against, a dataset, an objective."""

    model_config = SpecPart.model_config | {"json_schema_extra": _for_readers}

    name: RunName = "optimization"
    """What the run is called; its id starts with it."""
    configuration: dict[FactorName, Factor]
    """The baseline: every factor with its value. A bare value is a frozen factor; `{value: …, change: text}` and
    `{value: …, change: structured, type: …}` may change. A `prompt` adds its sections and parameters."""
    prompt: PromptSource | None = None
    """The prompt to improve: `support/triage`, `{name: support/triage, tag: stable}` or `{file: prompts/triage.yaml}`. Its
    sections become factors `section:<path>`, its parameters `param:<name>`."""
    target: Target
    """What is run on each sample."""
    dataset: Dataset
    """The samples."""
    scorers: Annotated[list[Scorer], Field(min_length=1, max_length=100)] = Field(
        default_factory=lambda: [Scorer.model_validate({"kind": "exact"})]
    )
    """What turns an output into scores. Default: exact equality with `expected`."""
    objective: Objective
    """The number to optimize."""
    optimizer: OptimizerSpec
    """The algorithm and its options. Default: `reflect` where texts may change, asking the target's own model to rewrite them,
    and `search` where only numbers, choices, orders and flags may. Options without a `name` are those of the default; with a
    proposer that it does not ask, those of `refine`."""
    judgement: JudgementSpec = Field(default_factory=JudgementSpec)
    """How candidates are judged: what is claimed of them, how surely, and what every one must keep. With `evolve` the defaults
    are `accept: better` and `test: mann_whitney`."""
    replicates: Replicates = 1
    """How often each sample is answered in a trial. `auto`: as often, and on as many samples, as it takes to find a difference
    of `judgement.margin`, given how much the baseline's scores vary, which is measured first."""
    samples_per_trial: Annotated[int, Field(ge=1)] | None = None
    """How many samples of the split a trial uses, the same for every trial. Default: all."""
    stop: Stop = Field(default_factory=Stop)
    """When to stop."""
    budget: Budget = Field(default_factory=Budget)
    """What may be spent."""
    execution: Execution = Field(default_factory=Execution)
    reuse: Literal["run", "always", "never"] = "run"
    """Whose stored answers may be used again: this run's, any run's, or none but a retried trial's own. Scores come with an
    answer where the scorers are the same; where they are not, the answer is scored, and the target is not asked."""
    retry_of: RunName | None = None
    """A finished run whose answers and proposals are taken over; what failed or is missing there is tried again. Set by
    `ratchet retry`."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """What each model costs. Default: what its provider publishes, as of the run's start. A cost budget needs the price of
    every model used."""
    release: ReleaseSpec | None = None
    """Which prompt the winner becomes, and who decides that. Default: nothing is released."""
    use_case: RunName | None = None
    """For reports: which use case this belongs to. Default: the name."""
    experiment: RunName | None = None
    """For reports, and for the code under test: what this experiment is called. Default: the run's id."""
    flags: Annotated[dict[FlagName, CanonicalValue], AfterValidator(_fit_a_header)] = Field(default_factory=dict)
    """Settings that the code under test is told in its experiment context, the same for every trial: `{new_parser: true}`.
    Other flags are another target, whose answers are not mixed with these."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """All randomness derives from it: the same spec with the same answers gives the same run."""

    @model_validator(mode="before")
    @classmethod
    def _as_its_optimizer_takes_for_granted(cls, value: Any) -> Any:
        return with_defaults(value) if isinstance(value, Mapping) else value

    @model_validator(mode="before")
    @classmethod
    def _a_prompt_is_configuration_enough(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and value.get("prompt") is not None and "configuration" not in value:
            return {**value, "configuration": {}}
        return value

    @field_validator("optimizer", mode="before")
    @classmethod
    def _named_optimizer(cls, value: Any) -> Any:
        return as_optimizer(value)

    @field_validator("configuration", mode="before")
    @classmethod
    def _bare_values_are_frozen(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        if len(value) > MOST_FACTORS:
            raise ValueError(
                f"has {len(value):,} factors; at most {MOST_FACTORS:,} fit, group values that never change into one"
            )
        return {name: as_factor_definition(item) for name, item in value.items()}

    @field_validator("configuration")
    @classmethod
    def _small_enough(cls, value: dict[str, Factor]) -> dict[str, Factor]:
        size = len(canonical_json({name: factor.value for name, factor in value.items()}).encode())
        if size > LARGEST_CONFIGURATION:
            raise ValueError(f"is {size:,} bytes; at most {LARGEST_CONFIGURATION:,} fit, keep larger values behind a reference")
        return value

    @field_validator("dataset")
    @classmethod
    def _inline_items_fit(cls, value: Dataset) -> Dataset:
        if value.items is not None:
            # In the serializer's own words: whatever is read goes through here, in each task anew.
            size = len(value.model_dump_json(include={"items"}).encode())
            if size > LARGEST_INLINE_DATASET:
                raise ValueError(
                    f"items are {size:,} bytes; at most {LARGEST_INLINE_DATASET:,} fit inline, "
                    "put them in a JSONL file and give its path"
                )
        return value

    @model_validator(mode="after")
    def _something_to_configure(self) -> OptimizationRequest:
        if not self.configuration and self.prompt is None:
            raise ValueError("configuration: is empty; add at least one entry, or name a prompt")
        return self

    @model_validator(mode="after")
    def _the_rest_fits(self) -> OptimizationRequest:
        rest = set(OptimizationRequest.model_fields) - {"configuration", "dataset", "prompt"}
        size = len(self.model_dump_json(include=rest, exclude_defaults=True, by_alias=True).encode())
        if size > LARGEST_REST:
            raise ValueError(
                f"the spec without configuration and dataset is {size:,} bytes; at most {LARGEST_REST:,} fit, "
                "make target, scorers or optimizer smaller"
            )
        return self

    @model_validator(mode="after")
    def _scores_are_named_once(self) -> OptimizationRequest:
        names = [scorer.score_name for scorer in self.scorers]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"scorers: name {repeated[0]!r} is used twice; give each scorer a name of its own")
        return self

    @property
    def why_its_optimizer(self) -> str | None:
        """Why it has the optimizer that it has, where a spec that names none would have it, too."""
        optimizer = self.optimizer.model_dump(mode="json", exclude_defaults=True) | {"name": self.optimizer.name}
        return why_default(dict(self), optimizer)

    @property
    def baseline(self) -> Configuration:
        """The values of the baseline, by factor."""
        return {name: factor.value for name, factor in self.configuration.items()}

    @property
    def dataset_name(self) -> str:
        """What the dataset is called in the store, where its file does not say."""
        return self.dataset.name or self.dataset.ref or f"{self.name} (inline)"

    @property
    def metric(self) -> str:
        """The score the objective is computed from."""
        return self.objective.metric or self.scorers[0].score_name

    @property
    def plugin_references(self) -> dict[str, str | None]:
        """Every plug-in that evaluation or proposing needs, with the version the spec states for it."""
        return {plugin.ref: plugin.version for plugin in self.plugins()}

    @property
    def plugin_arguments(self) -> dict[str, tuple[int, ...]]:
        """With how many positional arguments each plug-in is called."""
        arguments: dict[str, tuple[int, ...]] = {}
        for plugin in self.plugins():
            arguments[plugin.ref] = (*arguments.get(plugin.ref, ()), plugin.arguments)
        return arguments

    def plugins(self) -> Iterator[NamedPlugin]:
        """Every place that names a plug-in."""
        yield from self.target.plugins()
        for place, scorer in placed_scorers(self.scorers):
            yield from scorer.plugins(place)
        if self.objective.ref is not None:
            yield NamedPlugin("objective.ref", self.objective.ref, 1, self.objective.version)
        yield from self.optimizer.plugins()
        if self.stop.policy is not None:
            yield NamedPlugin("stop.policy", self.stop.policy.ref, 1, self.stop.policy.version)
        if self.dataset.ref is not None:
            yield NamedPlugin("dataset.ref", self.dataset.ref, 0, self.dataset.version)

    def own_activities(self) -> Iterator[OwnActivity]:
        """The activities of the user's that it names."""
        target = self.target.calls(self.execution.sample_timeout)
        if target is not None:
            yield OwnActivity("target.task_queue", target.task_queue, target.activity)
        for place, scorer in placed_scorers(self.scorers):
            if (called := scorer.called_activity) is not None:
                yield OwnActivity(f"{place}.task_queue", called.task_queue, called.activity)
        if isinstance(proposer := self.optimizer.proposer, CalledActivity):
            yield OwnActivity("optimizer.proposer.task_queue", proposer.task_queue, proposer.activity)

    def describable(self) -> tuple[str, ...]:
        """The plug-ins that may say in words what they are, and of which the spec does not."""
        proposer = self.optimizer.proposer
        parts = (self.objective, self.stop.policy, proposer if isinstance(proposer, PythonProposer) else None)
        return tuple(part.ref for part in parts if part is not None and part.ref is not None and part.description is None)

    def described(self, words: Mapping[str, str]) -> OptimizationRequest:
        """The same with what plug-ins say of themselves."""
        optimizer, stop = self.optimizer, self.stop
        if isinstance(optimizer.proposer, PythonProposer):
            optimizer = optimizer.model_copy(update={"proposer": _described(optimizer.proposer, words)})
        if stop.policy is not None:
            stop = stop.model_copy(update={"policy": _described(stop.policy, words)})
        return self.model_copy(update={"objective": _described(self.objective, words), "optimizer": optimizer, "stop": stop})

    @property
    def factors_in_play(self) -> dict[str, Factor]:
        """Every factor and how it may change in this run."""
        return dict(self.optimizer.in_play(self.configuration))

    @property
    def noise_first(self) -> NoiseFirst | None:
        """How the noise is measured before the baseline, if it is."""
        return self.judgement.noise or (NoiseFirst() if self.replicates == "auto" else None)

    def design(self, samples: int) -> Design:
        """How much is measured of every configuration, of so many samples that there are; `auto` is settled later."""
        replicates = 1 if self.replicates == "auto" else self.replicates
        baseline = self.judgement.baseline_replicates or replicates
        return Design(samples=samples, replicates=replicates, baseline_replicates=baseline)

    @property
    def changeable(self) -> tuple[str, ...]:
        """The factors that are not frozen, in the order of the spec."""
        return tuple(name for name, factor in self.configuration.items() if not isinstance(factor, FrozenFactor))


Describable = TypeVar("Describable", Objective, StopPolicy, PythonProposer)


def _described(part: Describable, words: Mapping[str, str]) -> Describable:
    found = words.get(part.ref or "")
    return part if found is None or part.description is not None else part.model_copy(update={"description": found})


def spec_schema() -> dict[str, JsonValue]:
    """The JSON Schema of the spec, for editors."""
    schema = OptimizationRequest.model_json_schema(by_alias=True, mode="validation")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return schema
