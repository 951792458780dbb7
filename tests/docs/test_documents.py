"""The documents say what is so: links lead somewhere, specs pass the check, names exist, generated pages are fresh."""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from clients.checks.environment import VARIABLES
from docs.generate import REFERENCE, pages
from tests.support.documents import AROUND, COMPLETE, ROOT, blocks, broken, documents, links, missing_names, name_of, specs_of
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.spec.check import check_request

DOCUMENTS = documents()
MOST_LINES_OF_README = 250
ROOMS_WITH_CODE = ("workflows", "activities", "store", "clients", "ratchet", "worker.py")
OF_TESTS = ("RATCHET_PICTURE", "RATCHET_KILL_SEEDS")
"""Variables that only the tests read."""


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


every_document = pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)


@cache
def generated() -> dict[str, str]:
    return pages()


@pytest.mark.parametrize("name", ["spec.md", "cli.md", "http.md", "environment.md"])
def test_a_generated_page_is_fresh(name: str) -> None:
    assert text_of(REFERENCE / name) == generated()[name], f"docs/reference/{name} is stale: run `make docs`"


def test_every_generated_page_is_compared() -> None:
    assert sorted(generated()) == sorted(path.name for path in REFERENCE.iterdir())


@every_document
def test_a_relative_link_leads_somewhere(path: Path) -> None:
    assert [found for target in links(text_of(path)) if (found := broken(path, target))] == []


@every_document
def test_a_path_or_a_module_that_is_named_exists(path: Path) -> None:
    assert list(missing_names(text_of(path))) == []


def test_the_readme_is_short() -> None:
    assert len(text_of(ROOT / "README.md").splitlines()) <= MOST_LINES_OF_README


SPECS = [
    pytest.param(spec, id=f"{name_of(path)}:{line}") for path in DOCUMENTS for line, spec in specs_of(text_of(path)) if spec
]


@pytest.mark.parametrize("spec", SPECS)
def test_a_spec_that_is_shown_is_one(spec: dict[str, Any]) -> None:
    if spec.keys() >= COMPLETE:
        assert check_request(OptimizationRequest.model_validate(spec)) == []
    else:
        OptimizationRequest.model_validate({**AROUND, **spec})


FILES = sorted(
    path
    for folder in ("examples", "clients/templates", "clients/demo/example", "docs")
    for path in (ROOT / folder).rglob("spec.yaml")
)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_spec_file_that_is_given_along_passes_the_check(path: Path) -> None:
    content = yaml.safe_load(text_of(path))
    assert [problem for problem in check_request(OptimizationRequest.model_validate(content)) if "prompt" not in content] == []


PYTHON = [
    pytest.param(block.text, id=f"{name_of(path)}:{block.line}")
    for path in DOCUMENTS
    for block in blocks(text_of(path))
    if block.language == "python"
]


@pytest.mark.parametrize("code", PYTHON)
def test_python_that_is_shown_imports_what_there_is(code: str) -> None:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("ratchet", "clients", "workflows"):
            module = importlib.import_module(str(node.module))
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []


@every_document
def test_a_command_that_is_shown_exists(path: Path) -> None:
    commands = set(re.findall(r"^### ratchet (.+)$", generated()["cli.md"], re.MULTILINE))
    shown = re.findall(
        r"(?:^\$ |`)(?:\.venv/bin/)?ratchet ((?:prompts |datasets )?[a-z][a-z-]*)\b", text_of(path), re.MULTILINE
    )
    assert [name for name in shown if name not in commands] == []
    targets = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    assert [name for name in re.findall(r"(?:^\$ |`)make ([a-z-]+)", text_of(path), re.MULTILINE) if name not in targets] == []


QUOTED = re.compile(r"^\| ([a-z -]+) \| .* \| \[`([\w./]+)`\]\(\.\./\2\): `(.+)` \|$", re.MULTILINE)
TERMS = {
    *("determinism", "idempotency", "heartbeats", "cancellation", "versioning", "continue-as-new", "payload limits"),
    *("task queues", "timeouts", "retries"),
}


def test_every_line_that_answers_a_term_of_temporal_is_in_its_file() -> None:
    section = text_of(ROOT / "docs" / "architecture.md").partition("## In Temporal's terms")[2].partition("\n## ")[0]
    rows = QUOTED.findall(section)
    assert len(rows) == section.count("\n| ") - 1, "a row quotes no line"
    assert {term for term, _, _ in rows} >= TERMS
    assert [row for row in rows if row[2] not in text_of(ROOT / row[1])] == []


def code_files() -> list[Path]:
    return [
        path for room in ROOMS_WITH_CODE for path in ([ROOT / room] if room.endswith(".py") else (ROOT / room).rglob("*.py"))
    ]


def named_by_code() -> set[str]:
    """The names of Ratchet's variables that stand as whole strings in the code."""
    return {name for path in code_files() for name in re.findall(r"[\"'](RATCHET_[A-Z_]+)[\"']", text_of(path))}


def test_the_table_has_every_variable_that_the_code_reads() -> None:
    listed = {variable.name for variable in VARIABLES if variable.name.startswith("RATCHET_")}
    assert named_by_code() - listed == set(), "make it a field of activities/settings.py or clients/settings.py"


@every_document
def test_a_variable_that_is_named_is_in_the_table(path: Path) -> None:
    listed = {variable.name for variable in VARIABLES} | set(OF_TESTS)
    assert sorted(set(re.findall(r"\bRATCHET_[A-Z]+(?:_[A-Z]+)*\b", text_of(path))) - listed) == []


def test_a_module_name_that_is_used_twice_is_explained() -> None:
    names = Counter(path.stem for path in code_files() if path.name not in ("__init__.py", "__main__.py"))
    twice = {name for name, count in names.items() if count > 1}
    explained = text_of(ROOT / "docs" / "glossary.md").partition("## Names that are used twice")[2]
    assert sorted(twice - set(re.findall(r"`(\w+)`", explained))) == [], "give it another name, or a reason in the glossary"
