"""A finished run at the command line: gates and their exit codes, files for CI, exports, comparisons."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ElementTree

from tests.support.command_bench import Bench
from tests.support.html_reports import HtmlReport


def test_a_run_that_misses_its_gate_ends_with_3_and_tells_ci(bench: Bench) -> None:
    bench.write(name="gated")
    done = bench.ratchet(
        "run", "spec.yaml", "--gate", "score > 2", "--gate", "trials >= 1", "--junit", "out.xml", "--summary", "out.md"
    )
    assert done.returncode == 3, done.stderr
    assert "Gate not met: score > 2" in done.stdout
    assert "Gate met: trials >= 1" in done.stdout
    suite = ElementTree.parse(bench.directory / "out.xml").getroot()
    assert suite.get("failures") == "1"
    assert "gate not met" in (bench.directory / "out.md").read_text()


def test_a_gate_that_cannot_be_read_costs_nothing(bench: Bench) -> None:
    bench.write(name="ungated")
    done = bench.ratchet("run", "spec.yaml", "--gate", "verdcit == better")
    assert done.returncode == 2
    assert "--gate" in done.stderr
    assert "did you mean verdict" in done.stderr
    assert bench.calls == []


def test_a_finished_run_is_exported_compared_and_gated(bench: Bench) -> None:
    bench.write(name="exported", seed=3)
    first = bench.facts("run", "spec.yaml")
    bench.write(name="exported", seed=4)
    second = bench.facts("run", "spec.yaml")
    one, other = first["run_id"], second["run_id"]

    rows = list(csv.DictReader(io.StringIO(bench.ratchet("export", one, "--format", "csv").stdout)))
    assert len(rows) == first["spend"]["samples"]
    assert {row["score_name"] for row in rows} == {"exact"}
    assert bench.ratchet("export", one, "--format", "mermaid").stdout.startswith("flowchart TD\n")
    entries = json.loads(bench.ratchet("export", one, "--format", "json").stdout)
    assert sum(len(entry["trials"]) for entry in entries) == first["counts"]["completed"]

    told = bench.facts("compare", one, other)
    assert told["reference"]["run_id"] == one
    assert sum(told["compared"][0]["counts"].values()) == 3
    shown = bench.ratchet("compare", one, other)
    assert shown.returncode == 0, shown.stderr
    assert "search samples" in shown.stdout

    best, baseline = f"{one}/best", f"{one}/baseline"
    [against] = bench.facts("compare", baseline, best)["compared"]
    [fixed, *_] = against["samples"]["fixed"]
    assert against["inputs"][fixed] in ('{"n": 3}', '{"n": 5}')  # its id is a hash: the data names none
    assert f"  fixed: {fixed}  {against['inputs'][fixed]}\n" in bench.ratchet("compare", baseline, best).stdout

    page = bench.ratchet("report", one, "--format", "html", "--output", "report.html", "--gate", "score < 0")
    assert page.returncode == 3, page.stderr
    kept = HtmlReport((bench.directory / "report.html").read_text())
    assert [gate["met"] for gate in kept.words["gates"]] == [False]
    assert kept.data["answers"][f"/optimizations/{one}"]["status"] == "completed"
    assert kept.data["answers"][f"/optimizations/{one}/outline"]["trials"]


def test_a_candidate_that_is_not_there_is_named(bench: Bench) -> None:
    bench.write(name="lonely")
    run_id = bench.facts("run", "spec.yaml")["run_id"]
    done = bench.ratchet("compare", run_id, f"{run_id}/r9-nothing")
    assert done.returncode == 2
    assert "r9-nothing" in done.stderr
