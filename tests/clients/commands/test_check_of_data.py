"""`ratchet check` reads the samples of a spec: splits, copies and groups, and whether they can show anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clients.checks.plan_summary import summary_of
from tests.support.checked_specs import ITEMS, checked
from tests.support.spec_texts import SPEC, changed


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text("def target(configuration, sample, context): return 1\n")
    (tmp_path / "broken.jsonl").write_text('{"input": {"q": 1}}\n{"input": \n')
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            "",
            "dataset.splits.test: its 4 samples are too few to show any gain, and by them the winner is confirmed; at least 5",
        ),
        ("judgement: {alpha: 0.001}\n", "at least 10 are needed"),
    ],
)
async def test_a_split_that_can_show_nothing_is_told(directory: Path, changes: str, told: str) -> None:
    items = "\n".join(f'{{"input": {{"q": {number}}}, "expected": 1}}' for number in range(20))
    (directory / "data.jsonl").write_text(items)
    text = changed(ITEMS, "{path: data.jsonl, splits: {validation: 0.8, test: 0.2}}")
    [found] = (await checked(directory, text + changes)).findings
    assert (found.line, found.severity) == (5, "warning")
    assert told in found.message


async def test_candidates_that_are_judged_need_enough_samples_too(directory: Path) -> None:
    [found] = (await checked(directory, SPEC + "judgement: {accept: better}\n")).findings
    assert "dataset: one sample is too few to show any gain, and by it the candidates are judged" in found.message


@pytest.mark.parametrize(("samples", "told"), [(4, "dataset: its 4 samples are too few to show any gain"), (5, None)])
async def test_too_few_samples_to_confirm_anything_by_cross_fitting_are_told(
    directory: Path, samples: int, told: str | None
) -> None:
    (directory / "data.jsonl").write_text("\n".join(f'{{"input": {{"q": {n}}}, "expected": 1}}' for n in range(samples)))
    found = await checked(directory, changed(ITEMS, "{path: data.jsonl}"))
    messages = [finding.message for finding in found.warnings]
    assert [message for message in messages if "too few" in message] == [one for one in messages if told and told in one]
    assert any("cross-fitting" in message for message in messages)
    [words] = [line for line in summary_of(found)[0] if "Can find" in line]
    assert ("no gain, however large, is found in 80% of cases" in words) is (samples == 4)


COPIES = "".join(f'{{"id": "s{n}", "input": {{"q": {n % 10}, "asker": "a{n % 3}"}}, "expected": 1}}\n' for n in range(60))
"""10 questions × 3 askers, each content twice."""


async def test_copies_under_several_ids_are_told_before_anything_is_paid(directory: Path) -> None:
    lines = [json.dumps({"id": f"s{n}", "input": {"q": n % 10}, "expected": 1}) for n in range(60)]
    (directory / "data.jsonl").write_text("\n".join(lines))
    found = await checked(directory, changed(ITEMS, "{path: data.jsonl, splits: {validation: 0.5, test: 0.5}}"))
    assert [finding.told(Path("s")) for finding in found.findings] == [
        "s:5: warning: dataset.path: 60 samples are copies of 10 contents: each content counts once"
    ]
    assert found.splits == {"validation": 30, "test": 30, "train": 0}
    lines, facts = summary_of(found)
    assert lines[1].endswith("60 samples, which count as 10: validation 30, test 30, train 0")
    assert facts["counting"] == 10


async def test_given_splits_are_taken_as_they_are_and_what_leaks_is_told(directory: Path) -> None:
    for name, numbers in {"train": range(10), "dev": range(8, 20), "test": [*range(20, 40), 0]}.items():
        lines = [json.dumps({"id": f"{name}{n}", "input": {"q": n}, "expected": 1}) for n in numbers]
        (directory / f"{name}.jsonl").write_text("\n".join(lines))
    found = await checked(directory, changed(ITEMS, "{paths: {train: train.jsonl, dev: dev.jsonl, test: test.jsonl}}"))
    assert [finding.told(Path("s")) for finding in found.findings] == [
        "s:5: warning: dataset.paths: 2 validation samples are left out, as the same content is in train, too: dev8, dev9",
        "s:5: warning: dataset.paths: 1 test sample is left out, as the same content is in train or validation, too: test0",
        "s:5: warning: dataset.paths: 6 samples are copies of 3 contents: each content counts once",
    ]
    assert found.splits == {"train": 10, "validation": 10, "test": 20}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            "{paths: {train: one.jsonl, test: two.jsonl}}",
            "dataset.paths: test has no sample of its own: what its 1 samples say is in",
        ),
        ("{paths: {train: one.jsonl, test: nix.jsonl}}", "dataset.paths.test: there is no file"),
        ("{paths: {train: one.jsonl, test: broken.jsonl}}", "dataset.paths.test: broken.jsonl line 2: is not JSON"),
        ("{path: split.jsonl, splits: {validation: 1}}", "dataset.splits: the samples name their splits themselves"),
        ("{path: wrong.jsonl}", "dataset.path: wrong.jsonl line 1: split: is no split; write train"),
    ],
)
async def test_given_splits_that_cannot_be_used_are_refused_at_their_line(directory: Path, given: str, problem: str) -> None:
    for name, text in {
        "one": '{"input": {"q": 1}, "expected": 1}',
        "two": '{"id": "other", "input": {"q": 1}, "expected": 1}',
        "split": '{"input": {"q": 1}, "expected": 1, "split": "train"}',
        "wrong": '{"input": {"q": 1}, "expected": 1, "split": "holdout"}',
    }.items():
        (directory / f"{name}.jsonl").write_text(text)
    found = await checked(directory, changed(ITEMS, given))
    assert [(finding.line, finding.message[: len(problem)]) for finding in found.errors] == [(5, problem)]


async def test_groups_that_the_spec_names_count_once_and_stay_together(directory: Path) -> None:
    (directory / "data.jsonl").write_text(COPIES)
    for given in ("group_by: input.q", "splits: {validation: 1, group_by: input.q}"):
        found = await checked(directory, changed(ITEMS, f"{{path: data.jsonl, {given}}}"))
        assert (found.errors, found.counting) == ([], 10)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            "group_by: input.qestion",
            "dataset.group_by: no sample has 'input.qestion'; correct the field, or leave group_by out",
        ),
        (
            "group_by: tags.customer",
            "dataset.group_by: no sample has a tag such as 'customer:…', as 'tags.customer' needs it; correct the field, "
            "or leave group_by out",
        ),
        (
            "splits: {validation: 1, group_by: expected.label}",
            "dataset.splits.group_by: no sample has 'expected.label'; correct the field, or leave group_by out",
        ),
        (
            "group_by: question",
            "dataset.group_by: is nothing to group by; write a field such as input.question, tags, or tags.customer for tags "
            'such as customer:acme (is "question")',
        ),
        (
            "group_by: tags, splits: {validation: 1, group_by: input.q}",
            "dataset: group_by is 'tags' and splits.group_by 'input.q'; give one of them",
        ),
    ],
)
async def test_a_field_that_groups_nothing_is_refused_by_name(directory: Path, given: str, problem: str) -> None:
    (directory / "data.jsonl").write_text(COPIES)
    found = await checked(directory, changed(ITEMS, f"{{path: data.jsonl, {given}}}"))
    assert [(finding.line, finding.message) for finding in found.errors] == [(5, problem)]


async def test_groups_with_which_nothing_can_be_compared_are_told(directory: Path) -> None:
    (directory / "data.jsonl").write_text(COPIES)
    found = await checked(directory, changed(ITEMS, "{path: data.jsonl, group_by: input.asker}"))
    assert [finding.message for finding in found.warnings] == [
        "dataset.path: 60 samples are copies of 30 contents: each content counts once",
        "dataset.group_by: 60 samples count as 3, with which nothing can be compared; 4 are the fewest",
        "dataset: its 3 samples are too few to show any gain, and by them the winner is confirmed; at least 5 are needed",
        "dataset: no samples are held back, which takes 75 samples or a share in dataset.splits.test: the winner is confirmed "
        "by cross-fitting over the samples of the search",
    ]
