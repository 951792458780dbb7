"""Mending a scorer is no reason to ask the target of the same file again; whatever both use, is."""

from __future__ import annotations

import ast

import pytest

from activities.plugins.source_hashes import source_hash

FILE = """
import re

PATTERN = re.compile("x")


def target(configuration, sample, context):
    return helper(sample.input)


def helper(text):
    return PATTERN.sub("y", text)


def score(output, sample):
    return only_for_scores(output) == sample.expected


def only_for_scores(output):
    return output.value
"""
MENDED = (
    FILE.replace("output.value", "output.value.strip()").replace("== sample", "!= sample") + "\n\ndef more():\n    return 1\n"
)


def of(source: str, name: str = "target") -> str:
    return source_hash(source.encode(), name)


def test_what_only_the_scorer_uses_is_part_of_the_scorer_alone() -> None:
    assert of(MENDED) == of(FILE)
    assert of(MENDED, "score") != of(FILE, "score")
    assert of(FILE.replace('"y"', '"z"'), "score") == of(FILE, "score")


@pytest.mark.parametrize(
    "changed",
    [
        FILE.replace('"y"', '"z"'),
        FILE.replace('"x"', '"xx"'),
        FILE.replace("sample.input", "sample.id"),
        FILE + "\nREGISTRY = []\n",
    ],
    ids=["a helper", "a constant", "itself", "what runs when it is imported"],
)
def test_what_the_target_can_reach_is_part_of_it(changed: str) -> None:
    assert of(changed) != of(FILE)


@pytest.mark.parametrize(
    "reaching",
    [
        FILE.replace("helper(sample", "globals()[sample"),
        FILE.replace("def score", "@registered\ndef score"),
        FILE + "\nSCORERS = {'a': score}\n",
        FILE + "\nNAMES = ['score']\n",
        FILE + "\nclass Target:\n    def __call__(self):\n        return score\n",
    ],
    ids=["by any name", "decorated", "listed", "by a text", "in a class"],
)
def test_what_may_be_reached_otherwise_counts_too(reaching: str) -> None:
    assert of(reaching.replace("== sample", "!= sample")) != of(reaching)


def test_a_plug_in_that_is_none_of_its_functions_is_the_whole_file() -> None:
    assert of(MENDED, "elsewhere") != of(FILE, "elsewhere")
    assert of("not python (", "target") != of("not python [", "target")


def test_a_good_file_of_which_the_interpreter_says_that_it_miscounted_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed, parse, complaints = of(FILE), ast.parse, iter([SystemError("AST constructor recursion depth mismatch")] * 3)

    def parse_at_last(source: bytes) -> ast.Module:
        for complaint in complaints:
            raise complaint
        return parse(source)

    monkeypatch.setattr(ast, "parse", parse_at_last)
    assert of(FILE) == hashed
