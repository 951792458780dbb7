"""Every public name has an example, and the examples are run: those of pages by `test_examples`, those of tutorials by
`test_tutorials`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

import ratchet
from tests.support.documents import blocks, documents
from tests.support.public_names import MODULES, public_names


def used_in(code: str) -> Iterator[str]:
    """What an example uses of ours, by module and name. To import a name is not to show it."""
    tree = ast.parse(code)
    ours = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "ratchet"
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in ours:
            yield ours[node.id]
        elif isinstance(node, ast.Attribute):
            first, _, rest = ast.unparse(node).partition(".")
            yield f"{ours.get(first, first)}.{rest}"


def as_offered(name: str) -> str:
    """The package offers most of the optimizer protocol under its own name."""
    last = name.removeprefix("ratchet.optimizer.")
    return f"ratchet.{last}" if last in ratchet.__all__ else name


SHOWN = {
    as_offered(name)
    for path in documents()
    for block in blocks(path.read_text(encoding="utf-8"))
    if block.language == "python"
    for name in used_in(block.text)
}


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_an_example(module: str) -> None:
    missing = [name for name in public_names(module) if as_offered(f"{module}.{name}") not in SHOWN]
    assert missing == [], f"show {missing} of {module} in a document, where its user looks"


def test_the_check_sees_what_is_shown_and_what_is_only_imported() -> None:
    code = "import ratchet\nfrom ratchet.prompts import resolve, aresolve as a\na('x')\nratchet.optimize()\n"
    assert set(used_in(code)) == {"ratchet.prompts.aresolve", "ratchet.optimize"}
    assert "ratchet.experiment.measure" in set(used_in("from ratchet import experiment\nexperiment.measure()\n"))
