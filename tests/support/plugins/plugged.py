"""Targets, scorers and proposers for the tests; deterministic unless they are told to misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from ratchet import ExperimentContext, Output, Record, Sample, Score, StopFacts

TOP = 700


async def hill(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """The nearer `x` is to the top, the higher; a little different on every sample."""
    height = 1 - abs(configuration["x"] - TOP) / 1000 + (hash_of(sample.id) % 10) / 1000
    return Output({"height": height}, tokens=10, cost=0.001)


async def english_hill(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Like `hill`, for those who speak English."""
    found = await hill(configuration, sample, context)
    return found if sample.input["language"] == "en" else Output({"height": 0.0})


async def hill_of_the_searched(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Like `hill` while it is searched, and upside down on samples that the search never saw."""
    found = await hill(configuration, sample, context)
    confirming = "/confirm" in context.id
    return Output({"height": 1 - found.value["height"]}) if confirming else found


async def never_confirmed(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Like `hill` while it is searched; the confirmation waits for ever."""
    if "/confirm" in context.id:
        await asyncio.Event().wait()
    return await hill(configuration, sample, context)


def given_items() -> Iterator[dict[str, Any]]:
    """A dataset."""
    return ({"id": f"s{n}", "input": n} for n in range(8))


def split_items() -> dict[str, list[dict[str, Any]]]:
    """A dataset with splits of its own; three test samples say what is in train, and one what is in validation."""
    numbers = {"train": range(6), "dev": range(6, 26), "test": [*range(26, 46), 0, 1, 2, 25]}
    words = {"train": "train", "dev": "validation", "test": "test"}
    return {split: [{"id": f"{words[split]}-{n}", "input": n} for n in found] for split, found in numbers.items()}


def no_items() -> list[Any]:
    raise ValueError("nothing to give")


def height_unless_broken(output: Output, sample: Sample) -> float:
    """A scorer that raises as long as the file is there that the sample names."""
    if Path(sample.input["broken"]).exists():
        raise RuntimeError("the scorer is broken")
    return height(output, sample)


def height(output: Output, sample: Sample) -> float:
    return float(output.value["height"])


def altitude(output: Output, sample: Sample) -> float:
    return 300 + 40 * height(output, sample)


def hash_of(text: str) -> int:
    return sum(ord(letter) * (index + 1) for index, letter in enumerate(text))


async def logged_hill(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Like `hill`, slower, and every call leaves a line in the file named by the environment."""
    line = f"{context.overrides_tag[:16]} {sample.id} {context.replicate}"
    note(f"start {line}")
    await asyncio.sleep(0.03 + (hash_of(line) % 20) / 1000)
    note(f"end {line}")
    return await hill(configuration, sample, context)


async def held_hill(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Like `logged_hill`; a call that begins while somebody holds calls of its run back waits until they are let go."""
    line = f"{context.overrides_tag[:16]} {sample.id} {context.replicate}"
    note(f"start {line}")
    held = Path(f"{os.environ['RATCHET_TEST_CALLS']}.held.{sample.id.rstrip('0123456789')}")
    await asyncio.sleep(0.03)
    while held.exists():
        await asyncio.sleep(0.02)
    return await hill(configuration, sample, context)


async def slow_hill(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    await asyncio.sleep(0.1)
    return await hill(configuration, sample, context)


async def coin(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Right by chance, the more likely the more skill and the easier the sample. The same call has the same answer."""
    ease = Random(sample.id).uniform(-0.2, 0.2)
    chance = Random(f"{context.overrides_tag} {sample.id} {context.replicate}").random()
    return Output({"height": float(chance < configuration["skill"] + ease)}, tokens=10, cost=0.001)


async def coin_dear_above_half(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Like `coin`; more skill than the baseline has costs four times as much."""
    output = await coin(configuration, sample, context)
    return output if configuration["skill"] <= 0.5 else replace(output, cost=0.004, tokens=40)


async def coin_that_waits(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Like `coin`; with more skill than the baseline has, some samples are never answered."""
    if configuration["skill"] > 0.5 and sample.id in configuration["never"]:
        await asyncio.Event().wait()
    return await coin(configuration, sample, context)


async def logged_coin(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Like `coin`, slower, and every call leaves a line in the file named by the environment."""
    line = f"{context.overrides_tag[:16]} {sample.id} {context.replicate}"
    note(f"start {line}")
    await asyncio.sleep(0.02 + (hash_of(line) % 20) / 1000)
    note(f"end {line}")
    return await coin(configuration, sample, context)


def note(line: str) -> None:
    descriptor = os.open(os.environ["RATCHET_TEST_CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


async def half_waits(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Every other sample is answered at once, the rest when the file is there."""
    return await (waits_for_a_file if sample.input % 2 else hill)(configuration, sample, context)


async def waits_for_a_file(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Answers once the file named by the configuration exists, so that tests decide when a trial goes on."""
    while not Path(configuration["gate"]).exists():
        await asyncio.sleep(0.01)
    return await hill(configuration, sample, context)


def raises(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    raise RuntimeError(f"no answer to {sample.id}")


def raises_above(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Fine for the baseline; fails every candidate further up."""
    if configuration["x"] > 10:
        raise RuntimeError("too high")
    return Output({"height": 0.5})


def rubbish(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Any:
    return object()


def nan_tokens(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    return Output({"height": 0.5}, cost=math.nan)


async def hangs(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    await asyncio.Event().wait()
    raise AssertionError


def hangs_in_a_thread(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    time.sleep(3600)
    raise AssertionError


def exits(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    raise SystemExit(3)


def kills_its_process(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    os._exit(17)


def nan_score(output: Output, sample: Sample) -> float:
    return math.nan


def infinite_score(output: Output, sample: Sample) -> float:
    return math.inf


def text_score(output: Output, sample: Sample) -> Any:
    return "good"


def raising_score(output: Output, sample: Sample) -> float:
    raise ValueError("cannot score this")


def nan_objective(statistics: Mapping[str, Any]) -> float:
    return math.nan


def mean_minus_spread(statistics: Mapping[str, Any]) -> float:
    return float(statistics["metrics"]["height"]["mean"]) - 0.1


def climb(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Mapping[str, Any]:
    return {"x": min(int(current["x"]) + 40, 1000)}


def raising_proposer(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Mapping[str, Any]:
    raise LookupError("no idea")


def wild_proposer(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Mapping[str, Any]:
    return {"x": 10**9}


def rewrites_the_text(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Mapping[str, Any]:
    return {"text": f"{current['text']} And on."}


def rewrites_the_recipe(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Mapping[str, Any]:
    """Takes the last word away."""
    return {"recipe": " ".join(str(current["recipe"]).split()[:-1]) or "bake"}


def knows_invoices(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Mapping[str, Any]:
    return {"system_prompt": f"{current['system_prompt']} And invoice."}


async def dearer_above(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Cheap for the baseline; everything further up costs four times as much."""
    output = await hill(configuration, sample, context)
    return output if configuration["x"] == 10 else replace(output, cost=0.004, tokens=40)


def raises_while_a_file_is_there(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Fails on every third sample until the file named by the configuration is gone; every call leaves a line beside it."""
    broken = Path(configuration["broken"])
    with broken.with_suffix(".calls").open("a") as calls:
        calls.write(f"{configuration['x']} {sample.id}\n")
    if broken.exists() and sample.input % 3 == 0:
        raise RuntimeError("broken for now")
    return Output({"height": configuration["x"] / 1000}, tokens=10, cost=0.001)


def takes_no_arguments() -> None:
    return None


not_callable = 3


async def oven(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Bakes best at 180 degrees on the middle rack, with the fan for a quarter of an hour; samples differ a little."""
    if "RATCHET_TEST_CALLS" in os.environ:
        line = f"{context.overrides_tag[:16]} {sample.id} {context.replicate}"
        note(f"start {line}")
        await asyncio.sleep(0.03)
        note(f"end {line}")
    height = 1 - abs(configuration["heat"] - 180) / 200 - 0.2 * (configuration["rack"] != "middle")
    height -= abs(configuration["fan_minutes"] - 15) / 100 if configuration["fan"] else 0.2
    height -= 0.1 * list(configuration["layers"]).index("dough") + (0.3 if "burn" in configuration["recipe"] else 0.0)
    return Output({"height": height + (hash_of(sample.id) % 10) / 1000}, tokens=10, cost=0.001)


async def pupil(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Knows whatever the examples show, and the more of what is alike."""
    if "RATCHET_TEST_CALLS" in os.environ:
        line = f"{context.overrides_tag[:16]} {sample.id} {context.replicate}"
        note(f"start {line}")
        await asyncio.sleep(0.03)
        note(f"end {line}")
    shown = [int(example["input"]) % 4 for example in configuration["examples"]]
    alike = shown.count(int(sample.input) % 4)
    return Output({"height": min(alike, 2) / 2 - 0.02 * len(shown)}, tokens=10, cost=0.001)


async def dungeon(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """An episode of a game that goes best for those who flee below 60 % of their health; seeds differ a little."""
    if "RATCHET_TEST_CALLS" in os.environ:
        line = f"{context.overrides_tag[:16]} {sample.id} {context.replicate}"
        note(f"start {line}")
        await asyncio.sleep(0.03)
        note(f"end {line}")
    caution, luck = configuration["health_threshold"], hash_of(sample.id) % 7
    points = 100 - 100 * abs(caution - 0.6) + luck - 10 * abs(configuration["risk_tolerance"] - 0.5)
    return Output({"points": points, "injured": luck / 10 >= caution}, tokens=10, cost=0.001)


async def dungeon_by_its_prompt(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """The same game, played by a prompt that states its policy; the answer quotes the prompt."""
    played = await dungeon(configuration, sample, context)
    return replace(played, value={**played.value, "prompt": configuration["prompt"]})


def points(output: Output, sample: Sample) -> float:
    return float(output.value["points"])


def dungeon_failures(records: list[Record]) -> Mapping[str, int]:
    """How many episodes ended with an injury."""
    return {"injury": sum(record.output["injured"] for record in records)}


def failures_that_raise(records: list[Record]) -> Mapping[str, int]:
    raise RuntimeError("no idea what went wrong")


def failures_that_are_no_counts(records: list[Record]) -> Any:
    return ["injury"]


async def vocabulary(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Knows the words that its prompt lists, and answers anything else with markup."""
    word, prompt = sample.input["word"], configuration["prompt"]
    known = f"Know {word}." in prompt
    answer = word if known else f"<img src=x onerror='window.obeyed = true'> What is {word}?"
    calls = [{"tool": "look_up", "arguments": {"word": word}, "result": f"<b>{answer}</b>", "latency_ms": 1}]
    trace = {"ended": "answered", "turns": [{"said": None, "calls": calls, "tokens": 5}, {"said": answer, "calls": []}]}
    return Output(answer, tokens=len(prompt), cost=len(prompt) / 1e6, latency_ms=3, trace=trace)


def teaching(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Mapping[str, Any]:
    """Three unknown words more, and the first known one forgotten."""
    unknown = sorted(record.inputs["word"] for record in records if not record.score)[:3]
    lines = current["prompt"].split("\n")
    first = next(place for place, line in enumerate(lines) if line.startswith("Know "))
    return {"prompt": "\n".join([*lines[:first], *lines[first + 1 :], *(f"Know {word}." for word in unknown)])}


async def hangs_for_one(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Never answers for the candidate that comes first, the baseline apart; which one that is stands in a file."""
    if not context.candidate_id.startswith("r0-"):
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(configuration["gate"], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(descriptor, context.candidate_id.encode())
            os.close(descriptor)
        if Path(configuration["gate"]).read_text() == context.candidate_id:
            await asyncio.Event().wait()
    return await hill(configuration, sample, context)


class Described:
    """Says of itself what it is, and looks at what comes of it."""

    def __init__(self, words: str, call: Callable[..., Any], limit: float = math.inf) -> None:
        self._words = words
        self._limit = limit
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def description(self) -> str:
        return self._words

    def validate(self, value: Any) -> None:
        if value > self._limit:
            raise ValueError(f"{value} is more than {self._limit}")


def _mean_height(statistics: Mapping[str, Any]) -> float:
    return float(statistics["metrics"]["height"]["mean"])


described_climb = Described("forty steps up", climb)
described_height = Described("how high it gets", _mean_height)
height_at_most_04 = Described("how high it gets, up to 0.4", _mean_height, 0.4)


def _after_two_rounds(facts: StopFacts) -> str | None:
    tried = [trial for trial in facts.history.trials if trial.kept]
    return f"{len(tried)} were kept by round {facts.round}" if facts.round == 2 else None


enough = Described("no more than two rounds", _after_two_rounds)


async def thinks_for_ever(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Mapping[str, Any]:
    await asyncio.sleep(3_600)
    return current


async def secretive(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> Output:
    """Answers, prints, traces and raises what it is told; candidates wait until the file is there."""
    told = f"{configuration['prompt']} {sample.input['text']}"
    note(f"start {'candidate' if 'again' in configuration['prompt'] else 'baseline'} {sample.id}")
    print(told)
    if sample.input.get("raises"):
        raise RuntimeError(f"cannot say {told}")
    while "again" in configuration["prompt"] and not Path(configuration["gate"]).exists():
        await asyncio.sleep(0.01)
    return Output({"height": min(len(configuration["prompt"]) / 200, 1.0), "told": told}, trace={"told": told}, tokens=10)


def secretive_height(output: Output, sample: Sample) -> Score:
    """A scorer that quotes the answer."""
    return Score("height", height(output, sample), reason=f"it says {output.value['told']}")


def says_it_again(current: Mapping[str, Any], records: Sequence[Record], factors: Sequence[str]) -> Mapping[str, Any]:
    return {"prompt": f"{current['prompt']} and again"}
