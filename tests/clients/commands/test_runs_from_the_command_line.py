"""Runs from the command line on the embedded stack, the way a person starts, leaves, finds and steers them."""

from __future__ import annotations

import json
import re
import signal

import yaml

from tests.support.command_bench import MINE, Bench, ending, processes_of, read_until
from tests.support.documents import not_printed, shown_of_the_demo


def test_a_run_is_started_shown_again_for_nothing_and_run_anew_and_leaves_no_process(alone: Bench) -> None:
    alone.write("first")
    done = alone.ratchet("run", "spec.yaml")
    assert done.returncode == 0, done.stderr
    assert "OPTIMIZE [first] Starting: treatmentFactor=k, objective=MAXIMIZE" in done.stdout
    assert "OPTIMIZE [first] Terminated: " in done.stdout
    assert done.stdout.count("Terminated") == 1
    assert "║  Treatment factor: k " in done.stdout
    assert "ratchet dev" in done.stdout
    [history] = (alone.directory / "optimizations" / "first").iterdir()
    assert str(history.relative_to(alone.directory)) in done.stdout
    assert len(alone.calls) == 4 * 3

    again = alone.ratchet("run", "spec.yaml")
    assert again.returncode == 0
    assert "nothing was called or paid. `--new` runs it again." in again.stdout
    assert len(alone.calls) == 4 * 3

    anew = alone.facts("run", "spec.yaml", "--new")
    assert anew["run_id"].endswith("-2")
    assert anew["status"] == "completed"
    assert len(alone.calls) == 2 * 4 * 3
    assert [run["run_id"] for run in alone.facts("list")["runs"]] == [anew["run_id"], anew["run_id"].removesuffix("-2")]
    assert alone.ratchet("run", "spec.yaml", "--json").stdout.count("\n") == 1
    assert processes_of(alone) == []


def test_a_changed_spec_or_changed_code_is_another_run(bench: Bench) -> None:
    bench.write("changing")
    first = bench.facts("run", "spec.yaml")["run_id"]
    (bench.directory / "mine.py").write_text(MINE + "\n# changed\n")
    second = bench.facts("run", "spec.yaml")["run_id"]
    bench.write("changing", seed=5)
    third = bench.facts("run", "spec.yaml")["run_id"]
    assert len({first, second, third}) == 3
    bench.write("changing", replicates=1)  # a default, spelt out
    assert bench.facts("run", "spec.yaml")["run_id"] == first


def test_ctrl_c_lets_go_of_the_run_and_watch_comes_back(alone: Bench) -> None:
    alone.write("leaving", inputs=[{"n": 1, "waits": True}])
    process = alone.attached("run", "spec.yaml")
    run_id = read_until(process, "Started").split()[-1]
    alone.until(alone.waits_in_round_1)
    process.send_signal(signal.SIGINT)
    code, said = ending(process)
    assert code == 130
    assert f"Detached from {run_id}. The run sleeps until the stack is up again." in said
    assert f"ratchet watch {run_id}" in said
    assert processes_of(alone) == []

    assert alone.facts("status", run_id)["status"] == "running"
    assert "the run sleeps" in alone.ratchet("stop", run_id, "--reason", "seen enough").stdout.lower()
    alone.open_gate()
    back = alone.ratchet("watch", run_id)
    assert back.returncode == 0, back.stderr
    assert "Stopped early: seen enough" in back.stdout
    assert processes_of(alone) == []


def test_a_detached_run_is_listed_and_waits_for_a_worker(bench: Bench) -> None:
    bench.write("detached")
    started = bench.facts("run", "spec.yaml", "--detach")
    assert started["status"] == "started"
    run_id = started["run_id"]
    waiting = [run for run in bench.facts("list")["runs"] if run["run_id"] == run_id]
    assert waiting == [{"run_id": run_id, "status": "initialized", "waits_for": "a worker on task queue 'optimization'"}]
    assert bench.facts("status", run_id)["message"].startswith("waits for a worker")
    assert bench.ratchet("delete", run_id, "--yes").returncode == 2
    watched = bench.facts("watch", run_id)
    assert (watched["run_id"], watched["status"]) == (run_id, "completed")
    assert bench.facts("delete", run_id, "--yes") == {"run_id": run_id, "deleted": True}
    assert run_id not in json.dumps(bench.facts("list"))


def test_a_second_ratchet_joins_the_open_run(bench: Bench) -> None:
    bench.write("joined", inputs=[{"n": 1, "waits": True}, {"n": 3}], stop={"max_rounds": 2})
    first = bench.attached("run", "spec.yaml")
    run_id = read_until(first, "Started").split()[-1]
    bench.until(bench.waits_in_round_1)
    second = bench.attached("run", "spec.yaml")
    assert f"{run_id} is running; attached to it" in read_until(second, "attached")
    bench.open_gate()
    assert ending(first)[0] == 0
    assert ending(second)[0] == 0
    assert len(bench.calls) == 3 * 2


def test_pause_adjust_and_resume_reach_a_run_that_somebody_watches(bench: Bench) -> None:
    bench.write("steered", inputs=[{"n": 1, "waits": True}], stop={"max_rounds": 50, "no_improvement": 0})
    process = bench.attached("run", "spec.yaml")
    run_id = read_until(process, "Started").split()[-1]
    bench.until(bench.waits_in_round_1)
    assert "pausing" in bench.facts("pause", run_id)["message"]
    bench.open_gate()
    bench.until_told(run_id, lambda told: told["status"] == "paused")
    assert bench.ratchet("adjust", run_id, "--max-rounds", "2", "--wall-time", "1h").returncode == 0
    assert bench.facts("resume", run_id)["message"] == "going on"
    code, said = ending(process)
    assert code == 0
    assert "Reached the limit of 2 rounds" in said


def test_a_person_proposes_a_candidate_from_a_file_and_it_is_tried(bench: Bench) -> None:
    bench.write("offered", inputs=[{"n": 1, "waits": True}, {"n": 7}], stop={"max_rounds": 2})
    process = bench.attached("run", "spec.yaml")
    run_id = read_until(process, "Started").split()[-1]
    bench.until(bench.waits_in_round_1)
    file = bench.directory / "mine.json"
    for values, told in (
        ('{"j": 2}', "factor 'j' is unknown; known are k"),
        ('{"k": 10}', "factor 'k': 10 is outside 0 … 9"),
        ('{"k": 1, "k": 2}', "mine.json:1: "),
        ("[1]", "mine.json: is no mapping; write values by factor"),
    ):
        file.write_text(values)
        refused = bench.ratchet("propose", run_id, "mine.json")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert told in refused.stderr
    file.write_text('{\n\t"k": 8\n}')
    offered = bench.facts("propose", run_id, "mine.json", "--rationale", "further up")
    assert offered["run_id"] == run_id
    assert "queued for round" in offered["message"]
    bench.open_gate()
    assert ending(process)[0] == 0
    assert bench.facts("report", run_id)["headline"]["in_search"]["best_score"] == 1.0
    assert "further up" in bench.ratchet("report", run_id, "--format", "markdown").stdout
    assert bench.ratchet("propose", run_id, "mine.json").returncode == 2


def test_an_update_of_a_sleeping_run_is_answered_by_a_worker_for_the_time_of_the_call(alone: Bench) -> None:
    alone.write("sleeping")
    run_id = alone.facts("run", "spec.yaml", "--detach")["run_id"]
    answered = alone.facts("pause", run_id)
    assert answered["sleeps"] is True
    assert "pausing" in answered["message"]
    assert processes_of(alone) == []


def test_cancel_keeps_what_is_known_and_is_exit_code_4(bench: Bench) -> None:
    bench.write("cancelled", inputs=[{"n": 1, "waits": True}])
    process = bench.attached("run", "spec.yaml")
    run_id = read_until(process, "Started").split()[-1]
    bench.until(bench.waits_in_round_1)
    assert bench.ratchet("cancel", run_id).returncode == 0
    code, said = ending(process)
    assert code == 4, said
    assert "Status:           CANCELLED" in said
    report = bench.facts("report", run_id)
    assert (report["status"], report["stop_reason"]) == ("cancelled", "cancelled")
    assert bench.ratchet("cancel", run_id).returncode == 2
    assert bench.ratchet("run", "spec.yaml").returncode == 4


def test_a_failing_baseline_is_exit_code_1_with_the_first_error(bench: Bench) -> None:
    bench.write("failing", inputs=[{"n": 1, "raises": True}])
    done = bench.ratchet("run", "spec.yaml")
    assert done.returncode == 1
    assert "the target has no luck" in done.stdout


def test_a_target_that_kills_its_worker_does_not_end_the_run(bench: Bench) -> None:
    bench.write("killing", inputs=[{"n": 1}, {"n": 3, "dies": True}], stop={"max_rounds": 1})
    done = bench.facts("run", "spec.yaml")
    assert done["status"] == "completed"
    assert (bench.directory / "died").exists()


def test_changed_code_does_not_answer_for_a_run_that_began_with_other_code(bench: Bench) -> None:
    bench.write("stale")
    run_id = bench.facts("run", "spec.yaml", "--detach")["run_id"]
    (bench.directory / "mine.py").write_text(MINE + "\n# changed\n")
    process = bench.attached("watch", run_id)
    assert "has changed since" in read_until(process, "has changed since")
    bench.facts("cancel", run_id)
    assert ending(process)[0] == 4
    assert bench.calls == []


def test_reports_come_in_every_form(bench: Bench) -> None:
    bench.write("reported")
    run_id = bench.facts("run", "spec.yaml")["run_id"]
    assert "Iteration 0" in bench.ratchet("report", run_id, "--verbosity", "FULL").stdout
    assert yaml.safe_load(bench.ratchet("report", run_id, "--format", "yaml").stdout)["runId"] == run_id
    assert bench.ratchet("report", run_id, "--format", "json", "--output", "r.json").returncode == 0
    assert json.loads((bench.directory / "r.json").read_text())["run_id"] == run_id
    wrong = bench.ratchet("report", run_id[:-1] + "x")
    assert wrong.returncode == 2
    assert f"did you mean {run_id}" in wrong.stderr


def test_a_dataset_file_is_ingested_by_its_content(bench: Bench) -> None:
    bench.write("ingested", dataset={"path": "data.jsonl"})
    rows = [json.dumps({"input": {"n": n}, "expected": "yes"}) for n in range(4)]
    (bench.directory / "data.jsonl").write_text("\n".join(rows))
    first = bench.facts("run", "spec.yaml")
    assert first["spend"]["samples"] == 4 * 4
    (bench.directory / "data.jsonl").write_text("\n".join(rows[:3]))
    assert bench.facts("run", "spec.yaml")["run_id"] != first["run_id"]


def test_dev_serves_until_ctrl_c_and_lets_open_runs_go_on(alone: Bench) -> None:
    alone.write("woken")
    run_id = alone.facts("run", "spec.yaml", "--detach")["run_id"]
    dev = alone.attached("dev")
    said = read_until(dev, "Ctrl-C stops it")
    assert "export TEMPORAL_ADDRESS=127.0.0.1:" in said
    assert "http://127.0.0.1:" in said
    assert (alone.home / "stack" / "postgres.password").read_text().strip() not in said
    assert f"{run_id} goes on" in said
    [link] = re.findall(r"http://127\.0\.0\.1:\d+/\?token=(\S+)", said)
    assert (alone.home / "serve.token").read_text().strip() == link
    alone.until_told(run_id, lambda told: told["status"] == "completed")
    dev.send_signal(signal.SIGINT)
    assert ending(dev)[0] == 0
    assert processes_of(alone) == []


def test_the_demo_improves_twice_and_leaves_nothing_running(alone: Bench) -> None:
    first = alone.ratchet("demo")
    assert first.returncode == 0, first.stderr
    assert not_printed(shown_of_the_demo(), first.stdout) is None
    assert "run `make dev`, then open http://127.0.0.1:" in first.stdout
    assert processes_of(alone) == []
    second = alone.facts("demo")
    assert second["run_id"].endswith("-2")
    assert second["best_score"] > second["baseline_score"]
    assert len(list((alone.directory / "optimizations" / "support-triage").iterdir())) == 2
    assert processes_of(alone) == []
