"""The paths through the workflows whose histories are recorded: what is started, and what is done to it.

`python -m tests.system.replay.record` runs each of them on the embedded stack and writes the histories anew; until 1.0
that is how a change of the workflows' commands is made, in the same commit.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle

from tests.support.optimizer_specs import PUBLISHED, REFLECTING


def spec(**parts: Any) -> dict[str, Any]:
    """A small run; keyword arguments replace parts of it."""
    return {
        "name": "recorded",
        "configuration": {"x": {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 1000, "step": 10}},
        "target": {"kind": "python", "ref": "plugged:hill"},
        "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(6)], "splits": "none"},
        "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height"}],
        "objective": {"metric": "height"},
        "optimizer": {"proposer": {"kind": "step"}},
        "stop": {"max_rounds": 3, "no_improvement": 0},
        "seed": 7,
    } | parts


Run = Callable[[Client, WorkflowHandle[Any, Any]], Awaitable[None]]


async def to_the_end(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    with contextlib.suppress(WorkflowFailureError):
        await handle.result()


async def stopped_early(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    await _in_round(handle, 2)
    await handle.signal("stop_early", "recorded")
    await to_the_end(client, handle)


async def cancelled(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    await _in_round(handle, 2)
    await handle.cancel()
    await to_the_end(client, handle)


async def paused_adjusted_and_resumed(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    await _in_round(handle, 1)
    await handle.execute_update("pause")
    await _until(handle, lambda shown: shown["status"] == "paused")
    await handle.execute_update("adjust", {"max_rounds": 12, "concurrent_samples": 4})
    await handle.execute_update("propose", {"configuration": {"x": 700}})
    await handle.execute_update("resume")
    await to_the_end(client, handle)


async def given_a_second_when_it_measures(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    await _until(handle, lambda shown: shown["phase"] == "measuring the baseline")
    await handle.execute_update("adjust", {"budget": {"wall_time": "1s"}})
    await to_the_end(client, handle)


async def trial_cancelled(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    """While the baseline is being measured, and some of its answers are there."""
    await _until(handle, lambda shown: shown["phase"] == "measuring the baseline")
    trial = f"WorkflowType = 'TrialWorkflow' AND WorkflowId STARTS_WITH '{handle.id}/'"
    async with asyncio.timeout(30):
        while not [found async for found in client.list_workflows(trial)]:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)
    await handle.cancel()
    await to_the_end(client, handle)


async def _in_round(handle: WorkflowHandle[Any, Any], number: int) -> None:
    await _until(handle, lambda shown: shown["round"] >= number)


async def _until(handle: WorkflowHandle[Any, Any], reached: Callable[[dict[str, Any]], bool]) -> None:
    async with asyncio.timeout(30):
        while not reached(await handle.query("progress")):
            await asyncio.sleep(0.01)


async def ruled(client: Client, handle: WorkflowHandle[Any, Any], ruling: str) -> None:
    """The run asked for approval, and somebody answers."""
    release = (await handle.result())["release"]
    said = {"release_id": release["release_id"], "by": "ann", "comment": "recorded"}
    writer = client.get_workflow_handle(f"release/{release['prompt']}")
    await writer.execute_update(ruling, said)


async def approved_and_rolled_back(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    await ruled(client, handle, "approve")
    writer = client.get_workflow_handle("release/recorded/approved")
    back = {"release_id": "recorded-rollback", "prompt": "recorded/approved", "kind": "rollback", "by": "ann"}
    await writer.execute_update("request", back)


async def rejected(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    await ruled(client, handle, "reject")


async def nobody_approved(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    """A reminder and a deadline pass, and the writer rests."""
    prompt = "recorded/expired"
    await client.start_workflow(
        "ReleaseWorkflow", {"prompt": prompt, "idle": 3}, id=f"release/{prompt}", task_queue="optimization"
    )
    await handle.result()
    await client.get_workflow_handle(f"release/{prompt}").result()


async def asked_of_a_short_writer(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    """Its history is full after one release, and what waits for approval is picked up by the next execution."""
    prompt = "recorded/continued"
    writer = await client.start_workflow(
        "ReleaseWorkflow", {"prompt": prompt, "releases_per_execution": 1}, id=f"release/{prompt}", task_queue="optimization"
    )
    await handle.result()
    async with asyncio.timeout(30):
        while (await client.get_workflow_handle(writer.id).describe()).run_id == writer.first_execution_run_id:
            await asyncio.sleep(0.01)
    await ruled(client, handle, "approve")


@dataclass(frozen=True)
class RecordedPath:
    """One path: its spec, what is done while it runs, and how many trials' histories are kept with it."""

    name: str
    spec: dict[str, Any]
    run: Run = to_the_end

    @property
    def prompt(self) -> str | None:
        """The prompt whose writer's histories are kept with it."""
        release = self.spec.get("release")
        return None if release is None else str(release["prompt"])


RUNNER = "http://127.0.0.1:1"
"""Stands for the reference runner, whose port is known once it runs."""


BATCHES, HELD_BATCHES = "http://127.0.0.1:2", "http://127.0.0.1:3"
"""Stand for providers of batches: one whose first batch lacks an answer, and one whose batches never end by themselves."""


def in_batches(provider: str, **parts: Any) -> dict[str, Any]:
    """A chat model that is asked in batches."""
    return spec(
        target={
            "kind": "chat",
            "model": "climber",
            "base_url": provider,
            "messages": [{"role": "user", "content": "{{factors.x}} {{input}}"}],
        },
        dataset={"items": [{"id": f"s{n}", "input": n, "expected": "yes"} for n in range(6)], "splits": "none"},
        scorers=[{"kind": "exact"}],
        objective="exact",
        execution={"mode": "batch", "batches": {"poll": "100ms", "longest_poll": "200ms"}},
        **parts,
    )


def judged_in_batches(provider: str, **parts: Any) -> dict[str, Any]:
    """The same, with a judge who is asked in batches, too."""
    judge = {"kind": "rubric", "name": "good", "rubric": "It says yes.", "model": "judge-good", "base_url": provider}
    return in_batches(provider, **parts) | {"scorers": [judge], "objective": "good"}


def by_activity(**options: Any) -> dict[str, Any]:
    """A target on the task queue of `tests.system.replay.strangers`."""
    return {"kind": "activity", "activity": "hill_elsewhere", "task_queue": "strangers", **options}


def own_activities() -> dict[str, Any]:
    """A scorer and a proposer on that task queue."""
    proposer = {"kind": "activity", "activity": "climb_elsewhere", "task_queue": "strangers"}
    return spec(
        scorers=[{"kind": "activity", "name": "height", "activity": "height_elsewhere", "task_queue": "strangers"}],
        optimizer={"proposer": proposer},
    )


def on_runner(**wishes: Any) -> dict[str, Any]:
    """The reference runner of the examples, told how to behave."""
    return {"kind": "external", "url": RUNNER, "poll": "200ms", "execution_params": wishes}


def compressing(**parts: Any) -> dict[str, Any]:
    """Cuts lines that no answer depends on, all together, and confirms them."""
    lines = "".join(f"Line {number} says something that changes no answer at all.\n" for number in range(3))
    return spec(
        configuration={"prompt": {"value": lines, "change": "text"}, "x": 500},
        optimizer={"name": "compress", "strategies": ["ablation"], "min_section_tokens": 5},
        judgement={"margin": 900.0, "score_range": 1000.0},
        replicates=1,
        **parts,
    )


def evolving(classifier: str = "plugged:dungeon_failures", **parts: Any) -> dict[str, Any]:
    """Explorations, computations, and rounds that go on while something better is found."""
    number = {"change": "structured", "type": "number", "min": 0, "max": 1}
    mutation = {"kind": "threshold", "factor": "health_threshold"}
    optimizer = {
        "name": "evolve",
        "classifier": classifier,
        "table": [{"failure": "injury", "more_than": 1, "mutation": mutation}],
        "padding": [{"kind": "risk", "by": -0.25}],
    }
    return spec(
        configuration={"health_threshold": {"value": 0.4, **number}, "risk_tolerance": {"value": 0.5, **number}},
        target={"kind": "python", "ref": "plugged:dungeon"},
        scorers=[{"kind": "python", "name": "points", "ref": "plugged:points"}],
        objective={"metric": "points"},
        dataset={
            "items": [{"id": f"seed {n}", "input": n} for n in range(40)],
            "splits": {"train": 0.3, "validation": 0.4, "test": 0.3},
        },
        optimizer=optimizer,
        **parts,
    )


def searching(**parts: Any) -> dict[str, Any]:
    """Values of every kind, suggested four at a time; what mattered is computed in the end."""
    configuration = {
        **spec()["configuration"],
        "model": {"value": "a", "change": "structured", "type": "choice", "choices": ["a", "b"]},
        "deep": {"value": 1, "change": "structured", "type": "integer", "min": 1, "max": 5, "when": {"model": "b"}},
        "order": {"value": ["x", "y", "z"], "change": "structured", "type": "order"},
        "text": {"value": "Climb.", "change": "text"},
    }
    return spec(configuration=configuration, **{"optimizer": "search", **parts})


def choosing_examples(**parts: Any) -> dict[str, Any]:
    """Examples from the training samples."""
    examples = {"value": [], "change": "structured", "type": "json", "schema": {"type": "array"}}
    items = [{"id": f"s{n}", "input": n, "expected": str(n)} for n in range(24)]
    return spec(
        configuration={"examples": examples},
        target={"kind": "python", "ref": "plugged:pupil"},
        dataset={"items": items, "splits": {"train": 0.5, "validation": 0.5}},
        optimizer={"name": "few_shot", "candidates_per_round": 2},
        **parts,
    )


def releasing(name: str, mode: str = "approval", **more: Any) -> dict[str, Any]:
    """A run with a test split, whose winner is released or waits for approval."""
    configuration = {**spec()["configuration"], "text": {"value": "Climb.", "change": "text"}}
    data = {"items": [{"id": f"s{n}", "input": n} for n in range(12)], "splits": {"validation": 0.5, "test": 0.5}}
    release = {"prompt": f"recorded/{name}", "mode": mode, **more}
    return spec(configuration=configuration, dataset=data, stop={"max_rounds": 6, "no_improvement": 0}, release=release)


OWN = {"name": "python", "ref": "own_optimizers:Stepper", "candidates_per_round": 2}
ENDLESS = {"max_rounds": 100_000, "no_improvement": 0}

RACING: dict[str, Any] = {"racing": {"block": 8}}
FORTY = {"items": [{"id": f"s{n}", "input": n} for n in range(40)], "splits": "none"}


def coins(*skills: float, **parts: Any) -> dict[str, Any]:
    """A coin to beat, and others beside it."""
    return {
        **spec(
            configuration={"skill": {"value": 0.5, "change": "structured", "type": "number", "min": 0, "max": 1}},
            target={"kind": "python", "ref": "plugged:coin"},
            dataset=FORTY,
            optimizer={"name": "none", "configurations": [{"skill": skill} for skill in skills]},
            judgement=RACING,
        ),
        **parts,
    }


def reflecting(**parts: Any) -> dict[str, Any]:
    """Texts that are rewritten from what went wrong, in three rounds at most."""
    return {**REFLECTING, "stop": {"max_rounds": 3, "no_improvement": 0}, **parts}


PATHS = (
    RecordedPath("completed", spec()),
    RecordedPath("evaluated_on_a_named_queue", spec(execution={"evaluation_task_queue": "optimization-evaluation"})),
    RecordedPath("wide_rounds", spec(optimizer={"proposer": {"kind": "step"}, "candidates_per_round": 4})),
    RecordedPath(
        "several_shards",
        spec(dataset={"items": [{"input": n} for n in range(40)], "splits": "none"}, execution={"samples_per_shard": 10}),
    ),
    RecordedPath("noise_first", coins(0.9, judgement={"margin": 0.2}, replicates="auto")),
    RecordedPath("racing", coins(0.1, 0.95)),
    RecordedPath("racing_for_a_verdict", coins(0.1, 0.85, 0.95, judgement={**RACING, "accept": "better"})),
    RecordedPath("stopped_early", spec(stop=ENDLESS), stopped_early),
    RecordedPath("cancelled", spec(stop=ENDLESS), cancelled),
    RecordedPath("paused_adjusted_resumed", spec(stop=ENDLESS), paused_adjusted_and_resumed),
    RecordedPath("failed_baseline", spec(target={"kind": "python", "ref": "plugged:raises"})),
    RecordedPath("refused_spec", spec(objective={"metric": "depth"}, scorers=[{"kind": "exact"}])),
    RecordedPath("continued_as_new", spec(stop={"max_rounds": 5}, execution={"max_rounds_per_execution": 2})),
    RecordedPath("python_proposer", spec(optimizer={"proposer": {"kind": "python", "ref": "plugged:climb"}})),
    RecordedPath("converged", spec(optimizer={"proposer": {"kind": "python", "ref": "plugged:wild_proposer"}}, stop=ENDLESS)),
    RecordedPath("confirmed", spec(dataset={**spec()["dataset"], "splits": {"validation": 0.5, "test": 0.5}})),
    RecordedPath("compressed", compressing()),
    RecordedPath("compressed_continued", compressing(execution={"max_rounds_per_execution": 1})),
    RecordedPath("evolved", evolving()),
    RecordedPath("evolved_continued", evolving(execution={"max_rounds_per_execution": 1})),
    RecordedPath("rounds_without_proposal", evolving(classifier="plugged:failures_that_raise")),
    RecordedPath(
        "meta_prompted",
        spec(
            optimizer={"name": "meta_prompt", "proposer": {"kind": "python", "ref": "plugged:climb"}, "candidates_per_round": 2}
        ),
    ),
    RecordedPath("own_optimizer", spec(optimizer=OWN)),
    RecordedPath("own_optimizer_stops", spec(optimizer={**OWN, "options": {"patience": 1, "size": 0}}, stop=ENDLESS)),
    RecordedPath("own_optimizer_continued", spec(optimizer=OWN, execution={"max_rounds_per_execution": 1})),
    RecordedPath("own_optimizer_failed", spec(optimizer={**OWN, "ref": "own_optimizers:RemembersEverything"})),
    RecordedPath("searched", searching()),
    RecordedPath("searched_continued", searching(execution={"max_rounds_per_execution": 1})),
    RecordedPath(
        "searched_and_rewritten",
        searching(optimizer={"name": "search", "proposer": {"kind": "python", "ref": "plugged:rewrites_the_text"}}),
    ),
    RecordedPath("few_shot", choosing_examples()),
    RecordedPath("few_shot_continued", choosing_examples(execution={"max_rounds_per_execution": 1})),
    RecordedPath("reflected", reflecting()),
    RecordedPath("reflected_continued", reflecting(execution={"max_rounds_per_execution": 1})),
    RecordedPath("gepa", reflecting(optimizer=PUBLISHED)),
    RecordedPath("gepa_continued", reflecting(optimizer=PUBLISHED, execution={"max_rounds_per_execution": 1})),
    RecordedPath("released", releasing("released", "automatic")),
    RecordedPath("approved", releasing("approved"), approved_and_rolled_back),
    RecordedPath("rejected", releasing("rejected"), rejected),
    RecordedPath("expired", releasing("expired", deadline="2s", remind="1s"), nobody_approved),
    RecordedPath("writer_continued", releasing("continued"), asked_of_a_short_writer),
    RecordedPath("deadline", spec(budget={"wall_time": "10m"})),
    RecordedPath(
        "time_budget_changed", spec(target={"kind": "python", "ref": "plugged:hangs"}), given_a_second_when_it_measures
    ),
    RecordedPath("time_is_over", spec(target={"kind": "python", "ref": "plugged:hangs"}, budget={"wall_time": "1s"})),
    RecordedPath(
        "proposer_out_of_time",
        spec(optimizer={"proposer": {"kind": "python", "ref": "plugged:thinks_for_ever"}}, budget={"wall_time": "2s"}),
    ),
    RecordedPath("stopped_by_policy", spec(stop={**ENDLESS, "policy": "plugged:enough"})),
    RecordedPath("by_activity", spec(target=by_activity())),
    RecordedPath("own_activities", own_activities()),
    RecordedPath("by_activity_racing", spec(target=by_activity(), dataset=FORTY, judgement=RACING)),
    RecordedPath("by_activity_in_batches", spec(target=by_activity(batch=4))),
    RecordedPath(
        "by_activity_tried_again", spec(target=by_activity(execution_params={"fail_first": True}), budget={"trials": 1})
    ),
    RecordedPath("by_activity_cancelled", spec(target=by_activity(execution_params={"hang": "s5"})), trial_cancelled),
    RecordedPath(
        "by_activity_out_of_time", spec(target=by_activity(execution_params={"hang": "s5"}), budget={"wall_time": "1s"})
    ),
    RecordedPath("on_runner", spec(target=on_runner())),
    RecordedPath("on_runner_without_signals", spec(target=on_runner(lose_signal=True, finish_after_questions=3))),
    RecordedPath("on_runner_cancelled", spec(target=on_runner(wait=True)), trial_cancelled),
    RecordedPath("on_runner_out_of_time", spec(target=on_runner(wait=True), budget={"wall_time": "1s"})),
    RecordedPath("on_runner_forgotten", spec(target=on_runner(forget=True))),
    RecordedPath("in_batches", in_batches(BATCHES, stop={"max_rounds": 1})),
    RecordedPath("in_batches_judged", judged_in_batches(BATCHES, stop={"max_rounds": 1})),
    RecordedPath("in_batches_cancelled", in_batches(HELD_BATCHES), trial_cancelled),
    RecordedPath("scoring_failed", spec(scorers=[{"kind": "python", "name": "height", "ref": "plugged:nan_score"}])),
)
