"""What a run may cost is told before it starts, somebody is asked when it is much, and a retry pays for what failed only."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from clients.checks.costs.estimate import Estimate, estimate
from clients.checks.findings import check_spec
from tests.support.command_bench import Bench

AT_MOST = {"kind": "python", "ref": "mine:target", "at_most": {"cost": 0.5, "tokens": 100}}
PRICES = {"m": {"input": 1, "output": 10}, "judge": {"input": 2, "output": 20}}


def chat(**changes: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "{{factors.prompt}} {{input.q}}"}]
    return {
        "name": "t",
        "configuration": {"prompt": {"value": "Answer yes.", "change": "text", "max_length": 1000}, "max_tokens": 50},
        "target": {"kind": "chat", "model": "m", "messages": messages},
        "dataset": {"items": [{"input": {"q": f"question {n}"}, "expected": "yes"} for n in range(10)]},
        "objective": "exact",
        "optimizer": {"proposer": {"kind": "noop"}},
        "stop": {"max_rounds": 4},
        "prices": PRICES,
        **changes,
    }


async def estimated(directory: Path, spec: dict[str, Any]) -> Estimate:
    path = directory / "spec.yaml"
    path.write_text(yaml.safe_dump(spec))
    checked = await check_spec(path, endpoints=False)
    assert checked.request is not None, checked.findings
    return estimate(checked)


class TestEstimates:
    async def test_the_worst_case_covers_the_longest_texts_and_answers(self, tmp_path: Path) -> None:
        found = await estimated(tmp_path, chat())
        assert (found.trials, found.calls) == (5, 50)
        assert found.tokens is not None and found.expected_tokens is not None
        assert 50 * (1000 + 50) <= found.tokens <= 50 * 1300
        assert 50 * (50 + 10) <= found.expected_tokens <= 50 * 100
        assert found.cost is not None and found.expected_cost is not None
        assert found.cost == pytest.approx((found.tokens - 50 * 50) / 1e6 + 50 * 50 * 10 / 1e6)
        assert 0 < found.expected_cost < found.cost

    async def test_judges_proposers_and_the_confirmation_are_part_of_it(self, tmp_path: Path) -> None:
        alone = await estimated(tmp_path, chat())
        judge = {"kind": "rubric", "name": "exact", "rubric": "Good?", "model": "judge"}
        judged = await estimated(tmp_path, chat(scorers=[judge]))
        proposed = await estimated(tmp_path, chat(optimizer={"name": "refine", "proposer": {"kind": "model", "model": "m"}}))
        data = {**chat()["dataset"], "splits": {"validation": 0.5, "test": 0.5}}
        confirmed = await estimated(tmp_path, chat(dataset=data))
        assert (judged.cost or 0) > (alone.cost or 0) < (proposed.cost or 0)
        assert confirmed.calls == 5 * 5 + 2 * 5

    async def test_a_budget_caps_it(self, tmp_path: Path) -> None:
        found = await estimated(tmp_path, chat(budget={"cost": 0.01, "tokens": 500, "samples": 20}))
        assert (found.cost, found.tokens, found.calls, found.trials) == (0.01, 500, 20, 2)

    async def test_what_nothing_bounds_is_said_to_be_unbounded(self, tmp_path: Path) -> None:
        endless = {"max_rounds": 0}
        assert (await estimated(tmp_path, chat(stop=endless))).is_unbounded
        assert not (await estimated(tmp_path, chat(stop=endless, budget={"cost": 2}))).is_unbounded
        free = await estimated(tmp_path, chat(stop=endless, prices={}))
        assert (free.costs_money, free.is_unbounded) == (False, False)

    async def test_a_target_that_states_its_price_is_counted_by_it(self, tmp_path: Path) -> None:
        (tmp_path / "mine.py").write_text("def target(configuration, sample, context): return 'yes'\n")
        found = await estimated(tmp_path, chat(target=AT_MOST))
        assert (found.tokens, found.cost, found.costs_money) == (50 * 100, 25.0, True)

    async def test_a_user_whom_a_model_plays_is_counted_and_so_is_what_tools_say_at_worst(self, tmp_path: Path) -> None:
        def agent(**more: Any) -> dict[str, Any]:
            messages = [{"role": "user", "content": "{{factors.prompt}} {{input.q}}"}]
            limits = {"turns": 3, "tool_calls": 2}
            target = {"kind": "agent", "model": "m", "messages": messages, "limits": limits, "longest_result": 5000, **more}
            return chat(target=target, optimizer="none", stop={})

        async def taken(replies: int | None) -> Estimate:
            user = {"kind": "model", "model": "judge", "goal": "{{input.q}}", "parameters": {"max_tokens": 40}}
            return await estimated(tmp_path, agent() if replies is None else agent(user=user | {"replies": replies}))

        alone, one, two, many = [await taken(replies) for replies in (None, 1, 2, 20)]
        assert many == two, "he replies between two of the three turns"
        for less, more in ((alone, one), (one, two)):
            assert (less.tokens or 0) < (more.tokens or 0) and (less.cost or 0) < (more.cost or 0)
            assert (less.expected_tokens or 0) < (more.expected_tokens or 0)
            assert (less.expected_cost or 0) < (more.expected_cost or 0)
        calls, prompt = alone.calls or 0, 1000
        # He is sent the opening twice, and what was said before: 1 and 2 answers of 50 tokens, and his own words of 40 tokens.
        said_to_him, said_by_him = 2 * prompt + 3 * 50 + 40, 2 * 40
        assert (two.tokens or 0) - (alone.tokens or 0) >= calls * (said_to_him + said_by_him + 3 * 40)
        assert (two.cost or 0) - (alone.cost or 0) >= calls * (said_to_him * 2 + said_by_him * 20 + 3 * 40) / 1e6

        server = {"kind": "http", "name": "find", "description": "Finds.", "url": "http://127.0.0.1:1/find"}
        shown = await estimated(tmp_path, agent(tools=[server]))
        assert (shown.tokens or 0) >= (alone.tokens or 0) + calls * 2 * 2 * 5000, "two results, in both turns after them"

    async def test_nothing_is_made_up_of_data_that_is_not_known_yet(self, tmp_path: Path) -> None:
        (tmp_path / "mine.py").write_text("def items(): return [{'input': {'q': 'a'}}]\n")
        found = await estimated(tmp_path, chat(dataset={"ref": "mine:items"}))
        assert (found.trials, found.calls, found.cost, found.is_unbounded) == (5, None, None, True)
        capped = await estimated(tmp_path, chat(dataset={"name": "stored"}, budget={"cost": 2, "samples": 30}))
        assert (capped.calls, capped.is_unbounded) == (30, False)


def test_a_dry_run_tells_the_plan_and_starts_nothing(alone: Bench) -> None:
    alone.write(target=AT_MOST)
    done = alone.ratchet("run", "spec.yaml", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "A trial:   3 samples × 1 = 3 calls" in done.stdout
    assert "Cost:      about 6.00 expected, 6.00 at worst" in done.stdout
    assert done.stdout.endswith("Nothing was started.\n")
    facts = alone.facts("run", "spec.yaml", "--dry-run")
    assert (facts["dry_run"], facts["estimate"]["cost"], facts["estimate"]["calls"]) == (True, 6.0, 12)
    assert not alone.home.exists()
    assert alone.calls == []


def test_without_a_terminal_a_dear_run_needs_yes(bench: Bench) -> None:
    bench.write("dear", target=AT_MOST)
    refused = bench.ratchet("run", "spec.yaml", "--json")
    assert refused.returncode == 2
    assert "at most 12 target calls, and costs about 6.00, 6.00 at worst" in refused.stdout + refused.stderr
    assert "give --yes to start it, or set budget.cost to at most 1" in refused.stdout + refused.stderr
    assert bench.calls == []
    assert bench.facts("run", "spec.yaml", "--ask-above", "6")["status"] == "completed"
    assert bench.facts("run", "spec.yaml", "--new", "--yes")["status"] == "completed"


def test_a_run_that_failed_names_its_retry_which_asks_before_it_may_be_dear(bench: Bench) -> None:
    bench.write("failing", inputs=[{"n": 0}, *({"n": n, "raises": True} for n in (1, 2))], target=AT_MOST)
    first = bench.facts("run", "spec.yaml", "--yes")
    assert first["status"] == "failed"
    shown = bench.ratchet("run", "spec.yaml", "--yes")
    assert f"This spec ran before, as {first['run_id']} (failed); nothing was called or paid. `--retry-failed`" in shown.stdout
    asked = bench.ratchet("retry", first["run_id"])
    assert asked.returncode == 2
    assert "There is nobody to ask: give --yes to start it" in asked.stderr
    assert bench.facts("retry", first["run_id"], "--ask-above", "6")["run_id"] == f"{first['run_id']}-2"


def test_data_from_a_callable_is_not_taken_for_cheap(bench: Bench) -> None:
    (bench.directory / "data_source.py").write_text("def items(): return [{'input': {'n': 1}, 'expected': 'yes'}]\n")
    bench.write("callable", target=AT_MOST, dataset={"ref": "data_source:items"})
    refused = bench.ratchet("run", "spec.yaml")
    assert (refused.returncode, "nothing bounds what it costs" in refused.stderr) == (2, True)
    assert "4 trials, of as many target calls as the data says" in bench.ratchet("check", "spec.yaml").stdout
    assert bench.calls == []


def test_stored_data_is_counted_before_anybody_is_asked(bench: Bench) -> None:
    (bench.directory / "three.jsonl").write_text("".join(f'{{"input": {{"n": {n}}}}}\n' for n in range(3)))
    assert bench.ratchet("datasets", "add", "three.jsonl").returncode == 0
    bench.write("stored", target=AT_MOST, dataset={"name": "three.jsonl"})
    refused = bench.ratchet("run", "spec.yaml")
    assert (refused.returncode, "at most 12 target calls, and costs about 6.00" in refused.stderr) == (2, True)


def test_a_cheap_run_and_one_that_costs_nothing_start_unasked(bench: Bench) -> None:
    bench.write("cheap", target=AT_MOST, budget={"cost": 1.0}, stop={"max_rounds": 0, "no_improvement": 3}, inputs=[{"n": 1}])
    assert bench.facts("run", "spec.yaml")["status"] == "completed"


def test_a_person_at_a_terminal_is_asked(bench: Bench) -> None:
    bench.write("asked", target=AT_MOST)
    terminal, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "clients.cli", "run", "spec.yaml", "--home", str(bench.home)],
        cwd=bench.directory,
        env=bench.environment(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = ""
    while "Start? [Y/n]" not in shown:
        shown += os.read(terminal, 4096).decode()
    assert "costs about 6.00, 6.00 at worst" in shown
    os.write(terminal, b"n\n")
    assert process.wait(timeout=30) == 4
    os.close(terminal)
    assert bench.calls == []


def test_a_retry_pays_only_for_what_failed(bench: Bench) -> None:
    bench.write("unlucky", inputs=[{"n": 0}, {"n": 3}, {"n": 5}, {"n": 1, "raises": True}], stop={"max_rounds": 2})
    nothing = bench.ratchet("run", "spec.yaml", "--retry-failed")
    assert nothing.returncode == 2
    assert "there is nothing to retry" in nothing.stderr
    first = bench.facts("run", "spec.yaml")
    assert len(bench.calls) == 3 * 4
    retried = bench.facts("run", "spec.yaml", "--retry-failed")
    assert retried["run_id"] == f"{first['run_id']}-2"
    assert (retried["reused"], retried["spend"]["samples"]) == (9, 3)
    assert len(bench.calls) == 3 * 4 + 3
    again = bench.facts("retry", first["run_id"])
    assert (again["run_id"], again["reused"]) == (f"{first['run_id']}-3", 9)
    assert "Reused: 9 of 12 answers" in " ".join(bench.ratchet("report", again["run_id"]).stdout.split())
    assert json.loads(bench.ratchet("report", again["run_id"], "--format", "json").stdout)["reused"] == 9
    assert "9 of 12 answers" in bench.ratchet("status", again["run_id"]).stdout


def test_new_and_retry_exclude_each_other(bench: Bench) -> None:
    bench.write()
    done = bench.ratchet("run", "spec.yaml", "--new", "--retry-failed")
    assert done.returncode == 2
    assert "--new and --retry-failed exclude each other" in done.stderr


def test_help_says_what_a_retry_is() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "clients.cli", "retry", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert "Nothing that was answered is paid for again" in " ".join(shown.split())
