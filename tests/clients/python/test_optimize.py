"""`ratchet.optimize` and its like, over the real engines."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import ratchet
from clients.python.result_rows import AnswerDict, EventDict, TrialDict
from tests.support.patience import until

ROOT = Path(__file__).parents[3]
K = {"k": ratchet.integer(1, min=0, max=9)}
ROWS = [{"id": f"s{n}", "input": {"n": n}, "expected": "yes"} for n in range(8)]
IN_FLIGHT = 2
PROGRAM = f"""
import signal, sys, time
from pathlib import Path
import ratchet

signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored where the tests run in a shell's background
calls, gate = Path("calls"), Path("gate")

def answer(configuration, sample):
    with calls.open("a") as noted:
        noted.write(f"{{configuration['k']}} {{sample.id}}\\n")
    while configuration["k"] != 1 and not gate.exists():
        time.sleep(0.02)
    return "yes" if configuration["k"] > sample.input["n"] else "no"

result = ratchet.optimize(name="program", target=answer, configuration={{"k": ratchet.integer(1, min=0, max=9)}},
                          data={ROWS!r}, scorer="exact", stop={{"max_rounds": 2}},
                          execution={{"concurrent_samples": {IN_FLIGHT}}}, home=sys.argv[1])
print(result.status, result.score, result.configuration, result.calls)
"""


def large_enough(configuration: Any, sample: Any) -> str:
    return "yes" if configuration["k"] > sample.input["n"] else "no"


def in_another_process(configuration: Any, sample: Any, context: Any) -> str:
    return "yes" if os.getpid() != configuration["pid"] else "no"


def test_a_closure_is_optimized_where_it_is_and_the_same_call_pays_nothing_again(home: Path) -> None:
    asked: Counter[str] = Counter()
    lock = threading.Lock()

    def optimize(step: int) -> ratchet.Result:
        def answer(configuration: Any, sample: ratchet.Sample, context: ratchet.ExperimentContext) -> str:
            with lock:
                asked[f"{configuration['k'] + step - 1}"] += 1
            assert context.id
            return large_enough(configuration, sample)

        def right(output: ratchet.Output, sample: ratchet.Sample) -> ratchet.Score:
            return ratchet.Score("right", float(output.value == sample.expected))

        target = {"ref": answer, "version": str(step)}
        return ratchet.optimize(
            name="closure", target=target, configuration=K, data=ROWS, scorer=right, stop={"max_rounds": 2}, home=home
        )

    result = optimize(1)
    assert (result.status, result.baseline_score, result.configuration["k"]) == ("completed", 1 / 8, max(map(int, asked)))
    assert (result.score or 0) > 1 / 8
    assert result.calls == sum(asked.values()) == len(result.trials()) * len(ROWS)
    assert [answer["item_id"] for answer in result.answers("baseline", passed=True)] == ["s0"]
    assert set(result.answers("baseline")[0]) == set(AnswerDict.__annotations__)
    assert set(result.trials()[0]) == set(TrialDict.__annotations__)
    assert len(result.history()) == 3
    assert "OPTIMIZE: closure" in str(result) == result.report().rstrip("\n") or str(result) in result.report()
    assert result.report("html").startswith("<!")
    with pytest.raises(ratchet.RunError, match="use one of text, markdown"):
        result.report("pdf")  # type: ignore[arg-type]
    trials, answers = result.to_pandas(), result.to_pandas("answers", candidate="baseline")
    assert list(trials.k) == [trial["configuration"]["k"] for trial in result.trials()]
    assert list(trials.score) == [trial["score"] for trial in result.trials()]
    assert list(answers.right) == [float(answer["passed"]) for answer in result.answers("baseline")]
    assert len(result.to_pandas("answers", candidate="baseline", passed=True)) == 1
    with pytest.raises(ratchet.RunError, match="use trials or answers"):
        result.to_pandas("rounds")  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as without:
        without.setitem(sys.modules, "pandas", None)
        with pytest.raises(ratchet.RunError, match=r'pip install "ratchet-optimizer\[pandas\]"'):
            result.to_pandas()
    before = sum(asked.values())
    again = optimize(1)
    assert (again.id, again.score, sum(asked.values())) == (result.id, result.score, before)
    assert optimize(2).id != result.id


async def test_a_run_is_followed_and_steered_from_the_loop_that_its_target_runs_in(home: Path) -> None:
    here, gate = asyncio.get_running_loop(), asyncio.Event()

    async def answer(configuration: Any, sample: Any) -> str:
        assert asyncio.get_running_loop() is here
        if configuration["k"] != 1:
            await gate.wait()
        return large_enough(configuration, sample)

    run = ratchet.start(name="steered", target=answer, configuration=K, data=ROWS, scorer="exact", home=home)
    assert (await asyncio.to_thread(run.so_far)).status in ("initialized", "running"), "one that has not begun is waited for"
    events = aiter(run)
    async for event in events:
        assert set(event) == set(EventDict.__annotations__)
        if event["type"] == "trial_added_or_updated" and event["payload"]["round"] == 1:
            break
    with pytest.raises(ratchet.RunError, match="write `await run`"):
        run.result()
    assert (await asyncio.to_thread(lambda: run.status), (await asyncio.to_thread(run.progress))["round"]) == ("running", 0)
    assert "pausing" in await asyncio.to_thread(run.pause)
    with pytest.raises(ratchet.RunError, match="19 is outside 0 … 9"):
        await asyncio.to_thread(run.propose, {"k": 19})
    with pytest.raises(ratchet.RunError, match="adjust: max_round: is not a known field"):
        run.adjust(max_round=3)
    assert "queued" in await asyncio.to_thread(run.propose, {"k": 8}, "enough")
    await asyncio.to_thread(lambda: run.adjust(budget={"samples": 400}, max_rounds=2))
    await asyncio.to_thread(run.resume)
    gate.set()
    result = await run
    assert (result.score, result.message) == (1.0, "Reached the limit of 2 rounds")
    assert 8 in [trial["configuration"]["k"] for trial in result.trials()]
    assert [event["type"] async for event in events][-1] == "run_finished"
    stopped = ratchet.start(name="stopped", target=answer, configuration=K, data=ROWS, scorer="exact", home=home, seed=1)
    await asyncio.to_thread(stopped.stop, "enough")
    assert (await stopped).message == "Stopped early: enough"
    again = await ratchet.aoptimize(
        name="stopped", target=answer, configuration=K, data=ROWS, scorer="exact", home=home, seed=1
    )
    assert again.id == stopped.id


def test_variations_are_measured_and_a_function_may_run_in_processes(home: Path) -> None:
    target = {"ref": in_another_process, "pool": "process", "processes": 1}
    configuration = {"pid": os.getpid(), "k": 1}
    shared: dict[str, Any] = {
        "target": target,
        "configuration": configuration,
        "data": ROWS[:2],
        "scorer": "exact",
        "home": home,
    }
    measured = ratchet.start(optimizer="none", name="pooled", **shared)
    assert [event["type"] for event in measured][-1] == "run_finished", "without a loop, too"
    assert measured.result().score == 1.0
    assert ratchet.measure(name="pooled", **shared).id == measured.id
    result = ratchet.explore([{"k": 3}, {"pid": 0}], name="varied", **shared)
    assert [trial["configuration"]["k"] for trial in result.trials()] == [1, 3, 1]


def test_what_would_be_refused_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"target": lambda one: one, "configuration": {"k": ratchet.integer(3, min=5, max=9)}, "data": ROWS}
    with pytest.raises(ratchet.SpecError) as refused:
        ratchet.optimize(**asked | {"budjet": {"cost": 1}}, home=tmp_path / "home")
    assert [finding["field"] for finding in refused.value.findings] == ["configuration.k", "budjet"]
    with pytest.raises(
        ratchet.SpecError, match=r"target\.ref: .* is called with 3 positional arguments, or with 2 of them, but takes \(one\)"
    ):
        ratchet.optimize(**asked | {"configuration": K}, home=tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_a_run_that_fails_says_why(home: Path) -> None:
    def answer(configuration: Any, sample: Any) -> str:
        raise LookupError("nothing is there")

    with pytest.raises(ratchet.RunError, match="nothing is there") as failed:
        ratchet.optimize(name="failing", target=answer, configuration=K, data=ROWS, scorer="exact", home=home)
    assert failed.value.result is not None
    assert failed.value.result.status == "failed"


def test_a_program_that_is_killed_or_interrupted_goes_on_where_it_was(tmp_path: Path, home: Path) -> None:
    measured = ratchet.measure(name="closed", target=large_enough, configuration=K, data=ROWS[:1], home=home)
    ratchet.close()
    with pytest.raises(ratchet.RunError, match="let go of the servers"):
        measured.answers()
    (tmp_path / "program.py").write_text(PROGRAM)
    calls = tmp_path / "calls"

    def program() -> subprocess.Popen[str]:
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "program.py", str(home)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True)

    def asked() -> list[str]:
        return calls.read_text().splitlines() if calls.exists() else []

    for number in (signal.SIGKILL, signal.SIGINT):
        before = len(asked())
        with program() as one:
            until(lambda before=before: len(asked()) >= max(before + 1, len(ROWS) + 1) or one.poll() is not None)  # type: ignore[misc]
            one.send_signal(number)
    (tmp_path / "gate").touch()
    with program() as last:
        told, complained = last.communicate(timeout=120)
    assert told.startswith("completed "), complained
    assert max(Counter(asked()).values()) <= 3
    repeated = len(asked()) - len(set(asked()))
    assert repeated <= 2 * IN_FLIGHT
