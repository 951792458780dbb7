"""A stranger's project as type checkers see it: what is right passes, what is wrong is told, types are as narrow as known."""

USE = '''\
"""Every way in which a program calls Ratchet, with the types that come back."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, assert_type

from temporalio.client import Client

import ratchet
from ratchet import ExperimentContext, Output, Sample, Score, experiment, temporal
from ratchet.testing import FakeRequest, PassRate, ToolCall, fake_model, passes

K = ratchet.integer(1, min=0, max=9)
ROWS = [{"input": n, "expected": "yes"} for n in range(8)]


def answer(configuration: dict[str, Any], sample: Sample) -> str:
    return str(configuration["k"])


async def informed(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    return Output(context.id, tokens=1)


def right(output: Output, sample: Sample) -> Score:
    return Score("right", float(output.value == sample.expected))


class Callable:
    def __call__(self, configuration: Any, sample: Any) -> dict[str, int]:
        return {"n": 1}


result = ratchet.optimize(
    name="typed", target=answer, configuration={"k": K}, data=ROWS, scorer=right, budget={"cost": 1}, stop={"max_rounds": 2},
    optimizer="search", replicates="auto", seed=7, home=Path("home"), new=True, yes=True, ask_above=2.0, progress=False,
)
assert_type(result, ratchet.Result)
assert_type(result.score, float | None)
assert_type(result.verdict, str | None)
assert_type(result.configuration, dict[str, Any])
assert_type(result.headline.words, str)
assert_type(result.trials()[0]["score"], float | None)
assert_type(result.answers("best", passed=False)[0]["scores"], dict[str, float])
assert_type(result.report("markdown"), str)
ratchet.measure("spec.yaml", target=Callable(), data=[Sample("a", 1)], scorer=["exact", right])
ratchet.explore([{"k": 2}], {"name": "typed"}, target=informed, data={"train": ROWS, "test": ROWS})
ratchet.compress(target={"ref": answer, "pool": "process"}, data=lambda: ROWS, scorer=lambda output, sample: True)


async def followed() -> float | None:
    run = ratchet.start(target=lambda configuration, sample: "x", configuration={"k": K}, data="rows.jsonl")
    assert_type(run.id, str)
    assert_type(run.status, str)
    assert_type(run.progress(), dict[str, Any])
    async for event in run:
        assert_type(event["type"], str)
    assert_type(run.adjust(budget={"cost": 5}, max_rounds=3), str)
    assert_type(run.result(timeout=1.0), ratchet.Result)
    assert_type(await ratchet.aoptimize(target=answer), ratchet.Result)
    return (await run).score


def reply(request: FakeRequest) -> str | ToolCall:
    return ToolCall("find", {"n": 1}) if request.last else request.text


with fake_model(reply) as model:
    model.fail(429, retry_after="1", first=2)
    assert_type(model.calls[0].status, int | None)
assert_type(passes(lambda sample: sample.input, ROWS, at_least=0.9), PassRate)

@ratchet.use_case("shop")
class Shop:
    def __init__(self) -> None:
        self.prompt = "Help."

    @ratchet.treatment_source("prompt")
    def at_first(self) -> str:
        return self.prompt

    @ratchet.criterion
    def helps(self, outcome: str) -> bool:
        return "help" in outcome


@experiment.measure(use_case=Shop, samples=80, scorer=experiment.weighted(success_rate=1.0), margin=None, seed=7, yes=True)
def measure_shop(use_case: Shop, captor: experiment.Captor) -> None:
    captor.record(use_case.prompt, tokens=1)


@experiment.explore(use_case=lambda: Shop(), configurations=[{"prompt": "Do not."}], stop={"max_rounds": 1})
async def explore_shop(use_case: Shop, sample: Sample) -> str:
    return use_case.prompt


@experiment.optimize(use_case=Shop, treatment_factor="prompt", mutator=experiment.language_model("m"), prices={"m": {}})
def optimize_shop(use_case: Shop, first: Annotated[str, experiment.treatment_value()]) -> str:
    return first


assert_type(Shop().prompt, str)
assert_type(Shop().helps("x"), bool)
assert_type(measure_shop(Shop(), experiment.Captor()), None)
assert_type(optimize_shop(Shop(), "x"), str)


async def as_a_program(client: Client) -> None:
    run = await client.start_workflow(temporal.Optimization.run, {"name": "x"}, id="x", task_queue=temporal.TASK_QUEUE)
    assert_type(await run.result(), temporal.OptimizationResult)
    assert_type(await run.query(temporal.Optimization.progress), temporal.Progress)
    assert_type(await temporal.ask_run("x", temporal.Optimization.trials), temporal.Newest)
    limits = temporal.Adjustment(max_rounds=3)
    assert_type(await temporal.steer_run("x", temporal.Optimization.adjust, limits), temporal.UpdateAnswer)


# What is wrong is told; where it were not, the comment would be one too many, which is told as well.
ratchet.optimise(target=answer)  # type: ignore
ratchet.optimize(target=answer, budjet={"cost": 1})  # type: ignore
ratchet.optimize(target=answer, seed="seven")  # type: ignore
ratchet.optimize(target=lambda: 1)  # type: ignore
ratchet.testing.simulat  # type: ignore
result.trials()[0]["scor"]  # type: ignore
result.report("pdf")  # type: ignore
experiment.optimise  # type: ignore
experiment.measure(use_case=Shop, budjet={"cost": 1})  # type: ignore
experiment.optimize(use_case=Shop, treatment_facto="prompt")  # type: ignore
experiment.explore(use_case=Shop, factors={}, seed="seven")  # type: ignore
temporal.Optimisation  # type: ignore
'''

PYRIGHT = {
    "typeCheckingMode": "strict",
    "reportUnnecessaryTypeIgnoreComment": "error",
    "reportUnusedExpression": "none",
    "reportUnknownLambdaType": "none",
    "reportUnknownArgumentType": "none",
}
