"""Declared experiments: what each asks of a run, and what its function is given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any

import pytest

import ratchet
from clients.python.spec_arguments import spec_of
from ratchet import ExperimentContext, Output, Sample, experiment
from ratchet._declared.declarations import Declaration, declaration_of
from workflows.model.spec.request import OptimizationRequest

ROWS = [{"id": f"s{n}", "input": {"n": n}, "expected": "yes"} for n in range(8)]
SAMPLE = Sample("s", {"n": 3}, "yes")
CONTEXT = ExperimentContext(id="t", name="n", overrides_tag="o")


@ratchet.use_case("counter")
class Counter:
    def __init__(self) -> None:
        self.unit = "m"
        self.k = 1
        self.prompt = "Count."

    @ratchet.treatment_source("k")
    def where_it_begins(self) -> Any:
        return ratchet.integer(self.k, min=0, max=9)

    @ratchet.criterion
    def is_yes(self, outcome: str) -> bool:
        return outcome == "yes"

    def count(self, n: int) -> str:
        return "yes" if self.k > n else "no"


def declared(function: Any) -> Declaration:
    found = declaration_of(function)
    assert found is not None
    return found


def content(function: Any, **changes: Any) -> Mapping[str, Any]:
    call = declared(function).overridden(**changes).call()
    with spec_of(None, call.fields) as given:
        OptimizationRequest.model_validate(given.content)
        return given.content


def answer(function: Any, configuration: Mapping[str, Any]) -> Output:
    call: Callable[..., Any] = declared(function).call().fields["target"]["ref"]
    output = call(configuration, SAMPLE, CONTEXT)
    assert isinstance(output, Output)
    return output


def of_the_prompt() -> Any:
    """An experiment; at the top of this module it would be one of its tests."""

    @experiment.optimize(use_case=Counter, treatment_factor="prompt", mutator="noop", data=ROWS)
    def optimize_the_prompt(use_case: Counter, sample: Sample) -> str:
        return use_case.count(sample.input["n"])

    return optimize_the_prompt


def test_the_attributes_of_the_documents_say_what_a_spec_says() -> None:
    said = content(of_the_prompt())
    assert (said["name"], said["use_case"], said["experiment"]) == ("optimize-the-prompt", "counter", "optimize-the-prompt")
    assert said["configuration"] == {"unit": "m", "k": 1, "prompt": {"change": "text", "value": "Count."}}
    assert said["stop"] == {"max_rounds": 19, "no_improvement": 5}, "20 iterations, the initial value among them"
    assert (said["samples_per_trial"], "budget" in said) == (20, False)
    assert said["objective"] == {"direction": "maximize", "metric": "success", "kind": "success_rate"}
    assert said["optimizer"] == {"name": "refine", "proposer": {"kind": "noop"}}
    assert [scorer["name"] for scorer in said["scorers"]] == ["success"]


def test_every_attribute_and_every_further_field_of_a_spec_counts() -> None:
    @experiment.optimize(
        use_case=Counter,
        treatment_factors=["k", "prompt"],
        scorer=experiment.weighted(success_rate=0.7, cost_efficiency=0.3),
        mutator=experiment.language_model("gpt-5-mini", max_length=2000),
        objective="minimize",
        samples_per_iteration=6,
        max_iterations=1,
        no_improvement_window=0,
        time_budget=timedelta(hours=1),
        token_budget=500_000,
        cost_budget=2.5,
        experiment_id="both",
        data=ROWS,
        stop={"score": 0.9},
        budget={"trials": 9},
        judgement={"margin": 0.1},
        seed=7,
    )
    def whatever(use_case: Counter, sample: Sample) -> str:
        return ""

    said = content(whatever)
    assert (said["name"], said["seed"], said["judgement"]) == ("both", 7, {"margin": 0.1})
    assert said["stop"] == {"max_rounds": 0, "no_improvement": 0, "score": 0.9}
    assert said["budget"] == {"wall_time": 3600.0, "tokens": 500_000, "cost": 2.5, "trials": 9}
    assert said["configuration"]["k"] == ratchet.integer(1, min=0, max=9)
    assert said["configuration"]["prompt"] == ratchet.text("Count.", max_length=2000)
    assert said["optimizer"]["proposer"] == {"kind": "model", "model": "gpt-5-mini"}
    assert [(part["kind"], part["weight"], part["metric"]) for part in said["objective"]["components"]] == [
        ("success_rate", 0.7, "success"),
        ("cost_efficiency", 0.3, "success"),
    ]
    assert content(whatever, samples=3, budget={"cost": 1, "trials": 4})["budget"]["trials"] == 4, "over what is declared"
    assert content(whatever, samples=3, budget=1)["budget"]["cost"] == 1
    assert content(whatever, samples=3, budget={"samples": 9})["samples_per_trial"] == 3


def test_a_function_may_score_an_iteration_or_propose() -> None:
    def share(statistics: Mapping[str, Any]) -> float:
        return float(statistics["pass_rate"])

    def shorter(current: Any, records: Any, factors: Any) -> Any:
        return {}

    @experiment.optimize(use_case=Counter, treatment_factor="prompt", scorer=share, mutator=shorter, data=ROWS)
    def both(use_case: Counter, sample: Sample) -> str:
        return ""

    said = content(both)
    assert (said["objective"]["kind"], said["objective"]["ref"]) == ("python", "ratchet.program:share")
    assert said["optimizer"]["proposer"]["ref"] == "ratchet.program:shorter"


def test_a_function_without_samples_is_called_as_often_as_there_are_samples() -> None:
    @experiment.measure(use_case=Counter, samples=5)
    def measure_it(use_case: Counter) -> str:
        return use_case.count(0)

    said = content(measure_it)
    assert said["optimizer"] == {"name": "none"}
    assert [row["input"] for row in said["dataset"]["items"]] == [{"call": n} for n in range(1, 6)], "each counts by itself"
    assert said["dataset"]["splits"] == "none"
    assert len(content(measure_it, samples=7)["dataset"]["items"]) == 7


def test_explorations_are_listed_or_every_combination_of_factors() -> None:
    @experiment.explore(use_case=Counter, data=ROWS, configurations=[{"k": 7}], factors={"unit": ["m", "km"], "k": [1, 2]})
    def look_around(use_case: Counter, sample: Sample) -> str:
        return ""

    assert content(look_around)["optimizer"]["configurations"] == [
        {"k": 7},
        {"unit": "m", "k": 2},
        {"unit": "km", "k": 1},
        {"unit": "km", "k": 2},
    ], "the counter as it is is measured anyway, and a spec that lists it would be refused"


def test_an_exploration_of_nothing_else_than_what_is_there_is_refused() -> None:
    @experiment.explore(use_case=Counter, data=ROWS, factors={"unit": ["m"]})
    def look_around(use_case: Counter, sample: Sample) -> str:
        return ""

    with pytest.raises(ratchet.SpecError, match="factors: give counter the values that it has already; add others"):
        content(look_around)


def test_a_function_is_given_what_its_parameters_are_for() -> None:
    class Within:
        @experiment.optimize(use_case=Counter, treatment_factors=["k", "prompt"], mutator="noop", data=ROWS)
        async def everything(
            self,
            shop: Counter,
            row: Sample,
            first: Annotated[str, experiment.treatment_value("prompt")],
            recorder: experiment.Captor,
            context: ExperimentContext,
        ) -> None:
            recorder.record([shop.prompt, shop.k, row.id, first, context.id, type(self).__name__], tokens=5, cost=0.1)

    function = declared(vars(Within)["everything"]).within(Within)
    target = function.call().fields["target"]["ref"]
    output = asyncio.run(target({"k": 4, "prompt": "New.", "unit": "m"}, SAMPLE, CONTEXT))
    assert output == Output(["New.", 4, "s", "Count.", "t", "Within"], tokens=5, cost=0.1)


def test_the_class_of_a_method_counts_where_the_method_uses_it() -> None:
    class Within:
        word = "yes"

        @experiment.measure(use_case=Counter)
        def alone(self, use_case: Counter) -> str:
            return "yes"

        @experiment.measure(use_case=Counter)
        def together(self, use_case: Counter) -> str:
            return (lambda: self.word)()

    code = {name: declared(vars(Within)[name]).within(Within).call().code for name in ("alone", "together")}
    assert (Within in code["alone"], Within in code["together"]) == (False, True)


def test_an_outcome_is_returned_or_recorded_once() -> None:
    def of(body: Callable[..., Any]) -> Any:
        return answer(experiment.optimize(use_case=Counter, treatment_factor="k", data=ROWS)(body), {"k": 9, "unit": "m"})

    def returned(use_case: Counter, sample: Sample) -> int:
        return use_case.k

    def nothing(use_case: Counter, sample: Sample) -> None: ...

    def twice(use_case: Counter, sample: Sample, captor: experiment.Captor) -> None:
        captor.record(1)
        captor.record(2)

    def both(use_case: Counter, sample: Sample, captor: experiment.Captor) -> int:
        captor.record(1)
        return 2

    assert of(returned).value == 9
    for body, told in ((nothing, "there is no outcome"), (twice, "two outcomes"), (both, "recorded, and another one returned")):
        with pytest.raises(ValueError, match=told):
            of(body)


def test_a_declared_function_is_still_a_function() -> None:
    assert of_the_prompt()(Counter(), SAMPLE) == "no"
    assert declaration_of(Counter) is None and declaration_of(len) is None


def body(use_case: Counter, sample: Sample) -> str:
    return ""


def strange(use_case: Counter, tmp_path: Any) -> str:
    return ""


def sampleless(use_case: Counter) -> str:
    return ""


@ratchet.use_case("blind")
class Blind:
    prompt = "See."
    ratio = 0.5


@pytest.mark.parametrize(
    ("function", "given", "told"),
    [
        (body, {"treatment_factor": "p"}, "treatment_factor: counter has no factor 'p'; it has unit, k, prompt"),
        (body, {"treatment_factor": "unit", "treatment_factors": ["k"]}, "name the factor to optimize, or several"),
        (body, {}, "name the factor to optimize"),
        (body, {"treatment_factors": "k"}, "treatment_factors: is a text"),
        (body, {"treatment_factor": "k", "max_iterations": 0}, "max_iterations: is 0"),
        (body, {"treatment_factor": "k", "mutator": "step", "optimizer": "gepa"}, "mutator: is given beside optimizer"),
        (body, {"treatment_factor": "k", "data": None}, "takes a sample, and there are none"),
        (body, {"treatment_factor": "k", "scorer": lambda output, sample: 1}, "scorer: is a function of two"),
        (strange, {"treatment_factor": "k"}, "nothing here gives its parameter 'tmp_path'"),
        (sampleless, {"treatment_factor": "prompt", "use_case": Blind, "data": None}, "which outcomes of blind are a success"),
        (sampleless, {"treatment_factor": "ratio", "use_case": Blind}, "'ratio' is 0.5, and nothing says how it may change"),
    ],
)
def test_what_is_wrong_is_told_by_name(function: Any, given: dict[str, Any], told: str) -> None:
    with pytest.raises(ratchet.SpecError) as refused:
        content(experiment.optimize(**{"use_case": Counter, "data": ROWS, **given})(copy_of(function)))
    assert told in str(refused.value)


def copy_of(function: Any) -> Any:
    """A copy, so that one declaration does not follow another."""
    copied = type(function)(function.__code__, function.__globals__, function.__name__)
    copied.__annotations__ = function.__annotations__
    return copied


def test_a_keyword_that_a_spec_does_not_have_is_told_by_type_checkers_and_by_the_check() -> None:
    """What mypy would not tell made one of these comments one too many, and `make lint` fail."""
    wrong = experiment.measure(use_case=Counter, data=ROWS, budjet={"cost": 1})(lambda use_case: "yes")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="budjet"):
        content(wrong)
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        experiment.optimise  # type: ignore[attr-defined]  # noqa: B018
