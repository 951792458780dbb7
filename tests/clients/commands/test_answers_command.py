"""`ratchet answers`: what candidates answered, read at the command line."""

from __future__ import annotations

import asyncio
import json

from clients.demo.model_server import simulated_model
from tests.support.command_bench import Bench
from tests.support.engines import Engines
from tests.support.rewriting_runs import REFLECTOR, spec

ESCAPE = "\x1b[31m"


def test_answers_are_shown_readably_and_filtered(bench: Bench) -> None:
    inputs = [{"n": 0}, {"n": 3, "say": f"{ESCAPE}red"}, {"n": 50}]
    bench.write(name="answered", inputs=inputs)
    run_id = bench.facts("run", "spec.yaml")["run_id"]

    shown = bench.ratchet("answers", f"{run_id}/baseline")
    assert shown.returncode == 0, shown.stderr
    assert f"{run_id}/" in shown.stdout
    assert "3 answers" in shown.stdout
    assert shown.stdout.count("passed") == 1
    assert shown.stdout.count("did not pass") == 2
    assert "  Expected    yes\n" in shown.stdout
    assert "  Answer      no\n" in shown.stdout
    assert "  exact       0.00" in shown.stdout
    assert ESCAPE not in shown.stdout
    assert "u001b[31mred" in shown.stdout

    failed = bench.facts("answers", f"{run_id}/baseline", "--failed", "--limit", "1")
    assert failed["total"] == 2
    assert {answer["input"]["n"] for answer in failed["answers"]} <= {3, 50}
    assert len(failed["answers"]) == 1
    best = bench.facts("answers", run_id, "--passed")
    assert {answer["input"]["n"] for answer in best["answers"]} == {0, 3}

    changed = bench.ratchet("answers", run_id, "--changed-from", "baseline")
    assert "1 sample broken or fixed" in changed.stdout
    assert ": fixed\n" in changed.stdout
    assert "  Before      no\n" in changed.stdout
    assert "  Now         yes\n" in changed.stdout
    assert bench.facts("answers", run_id, "--changed-from", "baseline", "--failed")["answers"] == []

    assert bench.ratchet("best", run_id, "k").stdout == "4\n"
    piped = bench.ratchet("best", run_id)
    assert (piped.stdout, piped.stderr) == ("k: 4\n", "")
    assert bench.facts("best", run_id)["configuration"] == {"k": 4}


def test_what_cannot_be_shown_is_told_with_the_fix(bench: Bench) -> None:
    bench.write(name="told")
    run_id = bench.facts("run", "spec.yaml")["run_id"]
    for arguments, told in (
        (("answers", f"{run_id}/r9-nothing"), "r9-nothing"),
        (("answers", f"{run_id}x"), "did you mean"),
        (("answers", run_id, "--changed-from", "nobody"), "nobody"),
        (("answers", run_id, "--failed", "--passed"), "give one of them"),
        (("best", run_id, "promt"), "has no factor 'promt'; it has k"),
        (("delete", run_id), "give --yes to delete them"),
    ):
        done = bench.ratchet(*arguments)
        assert done.returncode == 2, done.stdout
        assert told in done.stderr


def test_where_a_target_raised_is_told_with_its_answers_and_with_the_end_of_the_run(bench: Bench) -> None:
    bench.write(name="raising", inputs=[{"n": 0, "raises": True}, {"n": 1, "raises": True}, {"n": 0}])
    ended = bench.ratchet("run", "spec.yaml")
    assert ended.returncode == 1
    where = 'in target: raise RuntimeError("the target has no'
    assert "mine.py:" in ended.stdout
    assert where in ended.stdout
    line = next(line for line in ended.stdout.splitlines() if "Termination" in line)
    assert "The baseline failed: 2 of the" in line
    assert "printed: looking for luck" in ended.stdout
    run_id = bench.facts("list")["runs"][0]["run_id"]

    shown = bench.ratchet("answers", run_id, "--failed")
    assert "  Error       target raised RuntimeError: the target has no luck\n" in shown.stdout
    assert "mine.py:" in shown.stdout
    assert where in shown.stdout
    assert "  Printed     looking for luck\n" in shown.stdout
    report = bench.ratchet("report", run_id, "--format", "markdown").stdout
    assert "```\n  mine.py:" in report


def test_where_a_scorer_raised_is_told_and_once_it_is_mended_no_answer_is_paid_again(bench: Bench) -> None:
    scorer = {"kind": "python", "ref": "judging:judge", "name": "exact"}
    bench.write(name="scoring", scorers=[scorer])
    (bench.directory / "judging.py").write_text("def judge(output, sample):\n    return 1 / len('')\n")
    ended = bench.ratchet("run", "spec.yaml")
    assert ended.returncode == 1
    assert "judging.py:2 in judge: return 1 / len('')" in ended.stdout
    assert "execution.max_failed_scores allows 1; first: sample" in ended.stdout
    run_id, paid = bench.facts("list")["runs"][0]["run_id"], len(bench.calls)
    shown = bench.ratchet("answers", run_id + "/baseline").stdout
    assert ": unscored" in shown and "judging.py:2 in judge" in shown

    (bench.directory / "judging.py").write_text("def judge(output, sample):\n    return output.value == sample.expected\n")
    again = bench.ratchet("retry", run_id, "--json")
    assert "it is retried with the code as it is now" in again.stderr
    retried = json.loads(again.stdout)
    assert (retried["status"], retried["reused"]) == ("completed", paid)

    calls = len(bench.calls)
    bench.write(name="scoring", scorers=[{"kind": "exact", "ignore_case": True}])
    anew = bench.facts("rescore", retried["run_id"], "--spec", "spec.yaml")
    assert (anew["status"], anew["spend"]["samples"], len(bench.calls)) == ("completed", 0, calls)
    assert anew["run_id"] != retried["run_id"]
    assert f"rescored from {retried['run_id']}" in bench.ratchet("report", anew["run_id"], "--format", "markdown").stdout
    bench.write(name="scoring", scorers=[scorer], seed=99)
    refused = bench.ratchet("rescore", retried["run_id"], "--spec", "spec.yaml")
    assert refused.returncode == 2
    assert f"seed: differs from that of {retried['run_id']}" in refused.stderr


async def test_what_proposers_were_asked_and_answered_is_shown_with_what_was_rejected(engines: Engines, bench: Bench) -> None:
    short = {"prompt": {"value": "Sort the ticket.", "change": "text", "max_length": 120}, "manners": "Be polite."}
    async with simulated_model() as server:
        proposer = {"kind": "model", "model": REFLECTOR, "base_url": server.base_url, "repairs": 0}
        optimizer = {"name": "refine", "proposer": proposer, "candidates_per_round": 2}
        request = spec(server.base_url, configuration=short, optimizer=optimizer, stop={"max_rounds": 3})
        await engines.run(request, run_id="asked-for")
    bench.servers = {"TEMPORAL_ADDRESS": engines.addresses.temporal_address, "DATABASE_URL": engines.addresses.database_url}

    facts = await asyncio.to_thread(bench.facts, "answers", "asked-for", "--proposals")
    rejected = {(one["rejection"]["round"], one["rejection"]["proposed_index"]) for one in facts["rejections"]}
    kept = [place for place in facts["proposals"] if place["candidate_ids"]]
    assert kept and rejected, "the run shall have candidates that were let in, and others that were not"
    assert facts["total"] == len(facts["proposals"])
    assert {(place["round"], index) for place in facts["proposals"] for index in place["rejected"]} == rejected
    assert all("Sort the ticket." in json.dumps(place["calls"]) for place in facts["proposals"] if place["round"] == 1)

    shown = await asyncio.to_thread(bench.ratchet, "answers", "asked-for", "--proposals")
    assert f"asked-for: {facts['total']} requests for new values" in shown.stdout
    assert "<new_value>" in shown.stdout
    assert shown.stdout.count(" was rejected: ") == len(rejected)
    first = await asyncio.to_thread(bench.facts, "answers", "asked-for", "--proposals", "--round", "1", "--limit", "1")
    assert [(place["round"], place["index"]) for place in first["proposals"]] == [(1, 0)]
    [candidate, *_] = kept[0]["candidate_ids"]
    own = await asyncio.to_thread(bench.facts, "answers", f"asked-for/{candidate}", "--proposals")
    assert [place["candidate_ids"] for place in own["proposals"]] == [kept[0]["candidate_ids"]]
    assert own["rejections"] == []
