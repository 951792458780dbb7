"""Files of what a run without a search measured: one specification, or an exploration that is compared by diff."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from clients.reports.facts import RunFacts
from clients.reports.history.specifications import write_measurements
from clients.reports.text.boxes import box
from tests.support.report_examples import BETTER, facts, request, the_example


def _measured(*variations: dict[str, Any], **changes: Any) -> RunFacts:
    spec = request(optimizer={"name": "none", "configurations": list(variations)})
    scores = [0.85 + 0.01 * number for number in range(len(variations) + 1)]
    return facts(scores, spec=spec, values=dict(enumerate(variations, start=1)), **changes)


def test_one_configuration_is_the_specification_of_its_use_case(tmp_path: Path) -> None:
    [path] = write_measurements(_measured(), tmp_path)
    assert path == tmp_path / "specs/shopping-assistant.yaml"
    document = yaml.safe_load(path.read_text())
    assert (document["useCaseId"], document["score"], document["objective"]) == ("shopping-assistant", 0.85, "MAXIMIZE")
    assert document["factorSuit"] == request().baseline
    assert document["statistics"]["sampleCount"] == 20
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [path]


def test_a_report_says_what_the_run_was_for() -> None:
    runs = {"MEASURE": _measured(), "EXPLORE": _measured({"model": "gpt-5"}), "OPTIMIZE": the_example()}
    assert all(f"{mode}: shopping-assistant" in box(run) for mode, run in runs.items())


def test_several_are_an_exploration_and_differ_where_they_are_different(tmp_path: Path) -> None:
    paths = write_measurements(_measured({"model": "gpt-5"}, {"model": "gpt-5", "temperature": 0.1}), tmp_path)
    home = tmp_path / "explorations/shopping-assistant"
    assert paths == [home / f"{name}.yaml" for name in ("baseline", "model-gpt-5", "model-gpt-5_temperature-0.1")]
    baseline, other = (path.read_text().splitlines() for path in paths[:2])
    changed = {line.split(":")[0].strip() for line in set(baseline) ^ set(other)}
    assert "model" in changed and "score" in changed
    assert changed <= {"model", "score", "successRate", "successCount", "failureCount", "low", "high"}


def test_long_values_are_named_by_their_hash_and_none_leads_out_of_the_folder(tmp_path: Path) -> None:
    paths = write_measurements(
        _measured({"systemPrompt": BETTER}, {"model": "../../x"}, {"model": "a/b"}, {"model": "a\\b"}), tmp_path
    )
    home = tmp_path / "explorations/shopping-assistant"
    assert {path.resolve().parent for path in paths} == {home.resolve()}
    assert len({path.name for path in paths}) == 5
    assert paths[1].name.startswith("systemPrompt-") and len(paths[1].name) < 40


def test_a_newer_measurement_replaces_the_older_one(tmp_path: Path) -> None:
    write_measurements(_measured(), tmp_path)
    [path] = write_measurements(_measured().model_copy(update={"run_id": "later"}), tmp_path)
    assert yaml.safe_load(path.read_text())["runId"] == "later"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "specs" / "shopping-assistant.yaml"
    mine.parent.mkdir()
    mine.write_text("name: my own spec\n")
    for _ in range(2):
        assert write_measurements(_measured(), tmp_path) == [mine.with_name("shopping-assistant-2.yaml")]
    assert mine.read_text() == "name: my own spec\n"


def test_a_search_writes_its_history_alone(tmp_path: Path) -> None:
    assert write_measurements(the_example(), tmp_path) == []
    assert list(tmp_path.iterdir()) == []
