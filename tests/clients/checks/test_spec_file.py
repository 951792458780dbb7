"""Spec files are read by YAML 1.2, and whatever is wrong has its line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from clients.checks.findings import check_spec
from clients.checks.spec_file import SpecFileError, read_spec_file
from ratchet._formats import yaml as yaml_reader


def written(tmp_path: Path, text: str, name: str = "spec.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_words_and_dates_stay_text(tmp_path: Path) -> None:
    file = read_spec_file(written(tmp_path, "a: [no, yes, on, 2024-01-01, 12:30:00]\nb: [true, False, null, ~]\n"))
    assert file.content == {"a": ["no", "yes", "on", "2024-01-01", "12:30:00"], "b": [True, False, None, None]}


def test_numbers_are_numbers(tmp_path: Path) -> None:
    file = read_spec_file(written(tmp_path, "a: [1_000, 1e-3, 5.5, -2, 0x10, 0o17, .5, +3]\nb: 2h\n"))
    assert file.content == {"a": [1000, 0.001, 5.5, -2, 16, 15, 0.5, 3], "b": "2h"}


def test_aliases_and_merges_are_understood(tmp_path: Path) -> None:
    file = read_spec_file(written(tmp_path, "a: &x {k: 1}\nb: *x\nc: {<<: *x, m: 2}\n"))
    assert file.content == {"a": {"k": 1}, "b": {"k": 1}, "c": {"k": 1, "m": 2}}


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: x\n")
    assert read_spec_file(path).content == {"name": "x"}


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("name: is bad", 1),
        ("configuration.prompt.max_length: is bad", 4),
        ("configuration.a.b: is bad", 5),
        ("configuration.prompt: is bad", 3),
        ("dataset.items[1].expected: is bad", 8),
        ("dataset: items is empty", 6),
        ("scorers[0].name: is bad", 9),
        ("configuration.prompt.nothing: is missing", 3),
        ("target: is missing", None),
    ],
)
def test_a_message_leads_to_its_line(tmp_path: Path, message: str, line: int | None) -> None:
    text = """name: x
configuration:
  prompt: {value: x,
           max_length: 0}
  a.b: 1
dataset:
  - {input: 1}
  - {input: 2, expected: 3}
scorers: [{kind: exact, name: "?"}]
"""
    assert read_spec_file(written(tmp_path, text)).line_of(message) == line


def test_json_is_read_as_json_with_lines(tmp_path: Path) -> None:
    file = read_spec_file(written(tmp_path, '{\n\t"name": "x",\n\t"stop": {"max_rounds": -1}\n}\n', "spec.json"))
    assert file.content == {"name": "x", "stop": {"max_rounds": -1}}
    assert file.line_of("stop.max_rounds: must be at least 0") == 3


@pytest.mark.parametrize(
    ("text", "name", "told", "line"),
    [
        ("a: [1\nb: 2\n", "spec.yaml", "is not valid YAML", 2),
        ("\ta: 1\n", "spec.yaml", "indent with spaces", 1),
        ("a: 1\na: 2\n", "spec.yaml", "key 'a' is there twice, first in line 1", 2),
        ("- 1\n", "spec.yaml", "is a list, not a mapping", 1),
        ("", "spec.yaml", "is empty", None),
        ("a: &x [*x]\n", "spec.yaml", "break the circle", 1),
        ("a: !!python/name:os.system\n", "spec.yaml", "tags such as !python are not allowed", 1),
        ("[" * 5000, "spec.yaml", "nested too deeply", None),
        ("a: " + "[" * 150 + "]" * 150, "spec.yaml", "nested more than 100 levels", 1),
        ("a: \x01\n", "spec.yaml", "a character that YAML does not allow", 1),
        ("a: 1\n---\nb: 2\n", "spec.yaml", "is not valid YAML", 2),
        ("{", "spec.json", "is not valid JSON", 1),
        ('{"name": "x",\n"seed": ' + "7" * 5_001 + "}", "spec.json", "a number has 5,001 digits; write numbers of more", 2),
        ("name: x\nseed: " + "7" * 5_001, "spec.yaml", "a number with thousands of digits", 2),
        ('{"a": NaN}', "spec.json", "NaN is not a JSON number", None),
        ('{"a": 1, "a": 2}', "spec.json", "key 'a' is there twice", None),
        ("[1]", "spec.json", "is a list, not an object", 1),
    ],
)
def test_what_cannot_be_read_says_why_and_where(tmp_path: Path, text: str, name: str, told: str, line: int | None) -> None:
    with pytest.raises(SpecFileError, match=told.replace("(", r"\(")) as caught:
        read_spec_file(written(tmp_path, text, name))
    assert caught.value.line == line


def test_an_alias_that_unfolds_without_end_is_refused(tmp_path: Path) -> None:
    levels = [f"l{number}: &l{number} [{', '.join([f'*l{number - 1}'] * 10)}]" for number in range(1, 9)]
    with pytest.raises(SpecFileError, match="unfolds into more than a million"):
        read_spec_file(written(tmp_path, "\n".join(["l0: &l0 [x]", *levels])))


def test_a_missing_file_a_directory_and_other_encodings_are_told(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes("name: é".encode("latin-1"))
    for path, told in (("nix.yaml", "does not exist"), (".", "is a directory"), ("latin.yaml", "is not UTF-8")):
        with pytest.raises(SpecFileError, match=told):
            read_spec_file(tmp_path / path)


def test_a_spec_may_hold_so_much() -> None:
    assert (yaml_reader.MOST_ENTRIES, yaml_reader.MOST_WRITTEN) == (50_000, 300_000)


class TestManyEntries:
    """A spec of far too many entries is refused after a bounded number of them, with the place and the fix. The limits are a
    hundredth of what they are."""

    @pytest.fixture(autouse=True)
    def hundredths(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(yaml_reader, "MOST_ENTRIES", 500)
        monkeypatch.setattr(yaml_reader, "MOST_WRITTEN", 3_000)

    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("name: x\ndataset:\n" + "- {input: a}\n" * 3_000, 3),
            ("name: x\ndataset:\n  items:\n" + "    - {input: a}\n" * 2_000, 4),
            ("name: x\ndataset: [" + "1," * 20_000 + "]", 2),
        ],
    )
    def test_a_list_of_more_than_a_spec_may_hold(
        self, tmp_path: Path, text: str, line: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = Counter[str]()
        original = yaml.composer.Composer.compose_scalar_node

        def counted(self: Any, anchor: Any) -> Any:
            made["scalars"] += 1
            return original(self, anchor)

        monkeypatch.setattr(yaml.composer.Composer, "compose_scalar_node", counted)
        path = tmp_path / "spec.yaml"
        path.write_text(text)
        with pytest.raises(SpecFileError) as refused:
            read_spec_file(path)
        told = "is a list of more than 500 entries; put samples in a JSONL file (dataset.path)"
        assert (str(refused.value), refused.value.line) == (told, line)
        assert made["scalars"] <= 1_100

    def test_a_mapping_of_more_keys_than_a_spec_may_hold(self, tmp_path: Path) -> None:
        path = tmp_path / "spec.yaml"
        path.write_text("name: x\nconfiguration:\n" + "".join(f"  a{n}: 1\n" for n in range(3_000)))
        with pytest.raises(SpecFileError, match="has more than 3,000 values; keep data in a file of its own"):
            read_spec_file(path)

    def test_json_of_as_many_entries_is_read_and_only_its_lines_are_lost(self, tmp_path: Path) -> None:
        path = tmp_path / "spec.json"
        path.write_text('{"dataset": [' + "1," * 600 + "1]}")
        assert read_spec_file(path).root is None


async def test_check_of_nine_hundred_thousand_items_says_the_limit_and_the_fix(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text("name: x\ndataset:\n" + "- {input: abcde}\n" * 900_000)
    [finding] = (await check_spec(path)).findings
    assert finding.message == "has 15,300,017 bytes, a spec at most 4,194,304; put samples in a JSONL file (dataset.path)"
    path = tmp_path / "spec.json"
    path.write_text('{"name": "x", "dataset": [' + "1," * 60_000 + "1]}")
    found = await check_spec(path)
    told = "items has 60,001 entries, a spec at most 50,000; put samples in a file (path), or add them to the store (name)"
    assert f"dataset: {told}" in [finding.message for finding in found.findings]
