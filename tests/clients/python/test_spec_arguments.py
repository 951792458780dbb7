"""What a call means, as a spec: rows of any kind, functions by reference, and what is wrong told by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ratchet
from clients.python import given_rows
from clients.python.spec_arguments import spec_of
from workflows.model.spec.request import OptimizationRequest


def answer(configuration: Any, sample: Any) -> str:
    return str(configuration) + str(sample)


def right(output: Any, sample: Any) -> bool:
    return bool(output.value == sample.expected)


class Table:
    """As a DataFrame of pandas looks to those who do not import it."""

    columns = ("question", "label")

    def to_dict(self, form: str) -> list[dict[str, Any]]:
        assert form == "records"
        return [{"question": "2 + 2", "label": "4"}, {"question": "?", "label": float("nan")}]


def content(spec: Any = None, **fields: Any) -> dict[str, Any]:
    with spec_of(spec, {"target": answer, "configuration": {"prompt": "Answer."}, "data": [{"input": 1}], **fields}) as given:
        return given.content


def test_functions_are_named_and_say_their_version() -> None:
    said = content(scorer=[right, "exact"])
    assert (said["target"]["kind"], said["target"]["ref"]) == ("python", "ratchet.program:answer")
    assert [scorer.get("name", scorer["kind"]) for scorer in said["scorers"]] == ["right", "exact"]
    assert said["objective"] == "right"
    assert content(target={"ref": answer, "version": "2", "pool": "process"})["target"] == {
        "kind": "python",
        "ref": "ratchet.program:answer",
        "version": "2",
        "pool": "process",
    }
    makers: list[Callable[..., Any]] = [lambda output, sample, n=n: n for n in range(2)]
    scorers = [{"ref": one, "name": f"s{place}"} for place, one in enumerate(makers)]
    references = [scorer["ref"] for scorer in content(scorer=scorers)["scorers"]]
    assert references == ["ratchet.program:lambda", "ratchet.program:lambda_2"]
    OptimizationRequest.model_validate(content(scorer=right, optimizer="none"))


def test_keywords_come_in_the_place_of_what_a_spec_says(tmp_path: Path) -> None:
    spec = {"name": "mine", "target": {"kind": "chat"}, "dataset": {"path": "x.jsonl", "splits": {"train": 0.5}}, "seed": 1}
    said = content(spec, seed=2)
    assert (said["name"], said["seed"], said["target"]["kind"]) == ("mine", 2, "python")
    assert said["dataset"] == {"items": [{"input": 1}], "splits": {"train": 0.5}}
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    assert content(tmp_path / "spec.yaml", seed=2) == said


def test_rows_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert content(data=[ratchet.Sample("s1", {"n": 1}, 2, tags=("a",))])["dataset"]["items"][0]["tags"] == ["a"]
    assert content(data=({"input": n} for n in (1, 2)))["dataset"] == {"items": [{"input": 1}, {"input": 2}]}
    assert content(data="s3://here/data.csv")["dataset"] == {"path": "s3://here/data.csv"}
    assert content(data=Path("data.csv"))["dataset"] == {"path": str(Path("data.csv").absolute())}
    parts = {"train": [{"input": 1}], "test": [{"input": 2}]}
    assert content(data=parts)["dataset"] == {"items": parts}
    monkeypatch.setattr(given_rows, "LARGEST_INLINE", 10)
    for data, columns in ((Table(), True), ([{"input": "long enough for a file"}], False)):
        with spec_of(None, {"data": data, "dataset": {"name": "mine"}}) as given:
            dataset = given.content["dataset"]
            lines = [json.loads(line) for line in Path(dataset["path"]).read_text().splitlines()]
            assert ("columns" in dataset, dataset["name"]) == (columns, "mine")
        assert not Path(dataset["path"]).exists()
        assert lines in ([{"question": "2 + 2", "label": "4"}, {"question": "?", "label": None}], data)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"data": 3}, "data: is a int; give rows, a table, or the path of a file"),
        ({"data": [1]}, "data[0]: is a int; give a mapping"),
        ({"data": [{"input": object()}]}, "data: Object of type object is not JSON"),
        ({"target": 3}, "target: is a int; give a function, or a mapping with ref"),
        ({"target": "agent:answer"}, 'or {"kind": "python", "ref": "module:function"}'),
        ({"scorer": right, "scorers": []}, "scorer: is given beside scorers"),
        ({"target": {"ref": lambda c, s: "", "pool": "process"}}, "cannot be imported by another process"),
    ],
)
def test_what_is_wrong_is_told_by_name(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ratchet.SpecError) as refused:
        content(**fields)
    assert told in str(refused.value)
    assert refused.value.findings[0]["message"] == str(refused.value)


def test_how_factors_are_written() -> None:
    factors = {
        "a": ratchet.text("Answer.", max_length=100),
        "b": ratchet.number(0.0, min=0, max=10, step=0.5),
        "c": ratchet.integer(1, min=1, max=9, scale="log"),
        "d": ratchet.choice("x", ["x", "y"]),
        "e": ratchet.flag(True, when={"d": "x"}),
        "f": ratchet.order([1, 2]),
        "g": ratchet.json({}, {"type": "object"}),
        "h": ratchet.frozen({"change": "me"}),
        "i": "bare",
    }
    read = OptimizationRequest.model_validate(content(configuration=factors, optimizer="none"))
    assert read.changeable == tuple("abcdefg")
    assert read.baseline["h"] == {"change": "me"}
