"""`ratchet replay` at the command line: a run, its exported file, and files that mean harm."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from clients.cli import main
from clients.reports.facts import SplitSamples
from clients.reports.history.files import history_json
from clients.reports.history.write import fingerprint
from tests.support.command_bench import Bench
from tests.support.report_examples import STARTED, the_example
from workflows.model.run.rounds import RoundRecord
from workflows.model.trial import Purpose, Split


def test_a_run_and_its_file_are_gone_through_again(bench: Bench) -> None:
    bench.write(name="replayed", judgement={"constraints": ["p95 latency <= 60000"]})
    told = bench.facts("run", "spec.yaml")
    run_id, file = told["run_id"], told["history_file"]

    shown = bench.ratchet("replay", run_id)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert f"{run_id}: " in shown.stdout and ": no difference\n" in shown.stdout
    assert "replayed with this version's code: as recorded" in shown.stdout
    facts = bench.facts("replay", run_id)
    assert facts["recomputed"]["answers"] == told["spend"]["samples"]
    assert facts["histories"]["trials"] == told["spend"]["trials"]
    assert bench.facts("replay", run_id, "--no-history")["histories"] is None

    shown = bench.ratchet("replay", file)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "no difference" in shown.stdout

    assert "constraints: they depend on single answers" not in shown.stdout

    path = bench.directory / file
    assert yaml.safe_load(path.read_text())["iterations"][1]["answers"]["measures"].keys() == {"latency_ms"}
    exported = json.loads(bench.ratchet("export", run_id, "--format", "history-json").stdout)
    assert exported["iterations"][1]["answers"] == yaml.safe_load(path.read_text())["iterations"][1]["answers"]
    path.write_text(path.read_text().replace("terminationReason:\n  cause: ", "terminationReason:\n  cause: X"))
    shown = bench.ratchet("replay", file)
    assert shown.returncode == 1
    assert 'terminationReason.cause: stored "X' in shown.stdout
    assert "contentFingerprint: " in shown.stdout

    bare = bench.directory / "bare.json"
    bench.ratchet("export", run_id, "--format", "history-json", "--no-sample-means", "--output", str(bare))
    shown = bench.ratchet("replay", str(bare))
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "Not recomputed: scores and comparisons: the file was exported without the scores of single samples" in shown.stdout


def test_a_run_that_nobody_knows_is_named(bench: Bench) -> None:
    shown = bench.ratchet("replay", "nobody")
    assert shown.returncode == 2
    assert "there is no run 'nobody'" in shown.stderr


def written() -> dict[str, Any]:
    """A document as it is exported, without a decision in it."""
    facts = the_example()
    iterations = [
        one.model_copy(
            update={
                "split": "all",
                "samples": 20,
                "sample_means": (0.5,) * 20,
                "trial_id": f"run/{one.number}",
                "purpose": Purpose.CANDIDATE if one.number else Purpose.BASELINE,
            }
        )
        for one in facts.iterations
    ]
    splits = (SplitSamples(split=Split.ALL, samples=20),)
    told = facts.model_copy(update={"iterations": tuple(iterations), "splits": splits, "rounds": facts.rounds or (ROUND,)})
    document: dict[str, Any] = json.loads(history_json(told))
    return document


ROUND = RoundRecord(run_id="run", round=0, decided_at=STARTED)


def put(document: dict[str, Any], field: str, value: Any) -> dict[str, Any]:
    made = copy.deepcopy(document)
    within: Any = made
    *before, last = [int(part) if part.isdigit() else part for part in field.split(".")]
    for part in before:
        within = within[part]
    within[last] = value
    made["contentFingerprint"] = fingerprint(made)
    return made


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["replay", str(path)]) == 2
    told = capsys.readouterr()
    assert "Traceback" not in told.err and told.out == ""
    return told.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it has no schemaVersion"),
        (b"\x80\x81 garbage", "is neither YAML nor JSON"),
        (b"{" * 100_000, "is neither YAML nor JSON"),
        (b"- " * 100_000, "nests deeper than 500 levels"),
        (b"[" * 100_000, "nests deeper than 500 levels"),
        (b"a: " + b"{b: " * 100_000, "nests deeper than 500 levels"),
        (b'{"schemaVersion": NaN}', "NaN is no number of JSON"),
        (b"[1, 2]", "it has no schemaVersion"),
        (b"schemaVersion: ratchet-optimize-99\n", "this version of Ratchet reads 'ratchet-optimize-1'"),
        (b"schemaVersion: !!python/object/apply:os.system [true]\n", "is neither YAML nor JSON"),
        (
            b"a: &a [1, 1]\nb: &b [*a, *a]\nc: &c [*b, *b]\nschemaVersion: ratchet-optimize-1\nd: [*c, *c]\n",
            "uses YAML aliases",
        ),
        (b'{"schemaVersion": "ratchet-optimize-1"}', "runId: "),
    ],
)
def test_what_is_no_history_is_refused(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.yaml"
    path.write_bytes(content)
    assert message in refused(path, capsys)


def test_a_file_that_is_not_there_or_a_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot be read: No such file" in refused(tmp_path / "gone.yaml", capsys)
    (tmp_path / "folder.yaml").mkdir()
    assert "cannot be read: " in refused(tmp_path / "folder.yaml", capsys)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("splits", [], "splits: is missing; export the run again with this version of Ratchet"),
        ("splits.0.samples", 10**12, "iterations.0.sampleMeans: has 20 values for 1000000000000 samples"),
        ("splits.0.weights", [1.0], "splits.0.weights: has 1 values for 20 samples"),
        ("searchSplit", "train", "searchSplit: 'train' is none of the splits"),
        ("iterations.1.datasetSplit", "test", "iterations.1.datasetSplit: 'test' is none of the splits"),
        ("iterations.1.sampleMeans", [0.5], "iterations.1.sampleMeans: has 1 values for 20 samples"),
        ("iterations.0.trial.purpose", "candidate", "iterations.0.trial.purpose: the first iteration is not the baseline"),
        ("iterations", [], "iterations: is empty, but rounds are not"),
        ("iterations.0.score", "high", "iterations.0.score: "),
        ("iterations.0.round", 10**400, ""),
        ("rounds.0.decidedAt", "yesterday", "rounds.0.decidedAt: "),
        ("spec.stop.max_rounds", -1, "spec.stop.max_rounds: "),
    ],
)
def test_parts_that_nothing_can_be_worked_out_from_are_named(
    field: str, value: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.json"
    path.write_text(json.dumps(put(written(), field, value)))
    if message:
        assert message in refused(path, capsys)
    else:
        assert main(["replay", str(path)]) in (1, 2)


def test_yaml_and_json_of_a_history_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(yaml.safe_dump(written(), sort_keys=False))
    told = []
    for file in (path, path.with_suffix(".json")):
        if file.suffix == ".json":
            file.write_text(json.dumps(written()))
        assert main(["replay", str(file), "--json"]) == 1
        told.append(json.loads(capsys.readouterr().out))
    assert told[0]["differences"]
    assert told[0] == told[1]
