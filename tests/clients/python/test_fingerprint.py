"""What a function is: its source and what it reaches, and neither its layout nor the process it is read in."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.python.fingerprint import fingerprint_of

ROOT = Path(__file__).parents[3]
READ = "import sys; sys.path.insert(0, '.'); import {0}; from clients.python.fingerprint import fingerprint_of\n"
MODULE = '''
import json
import mine_too
WORDS = {"a", "b", "c", "d"}
def shout(text):
    return text.upper()
def answer(configuration, sample):
    """Answer."""
    return shout(sample) if sample in WORDS else mine_too.other(json.dumps(configuration))
quick = lambda output, sample: output in {"a", "b", "c", "d", "e"}
'''


@dataclass
class Settings:
    limit: int
    client: Any = None

    def allows(self, number: int) -> bool:
        return number < self.limit


def told(function: Callable[..., Any]) -> str:
    return fingerprint_of(function).text


def closing_over(value: Any, default: Any = 1) -> Callable[..., Any]:
    def answer(configuration: Any, sample: Any, more: Any = default) -> Any:
        return value, configuration, sample, more

    return answer


def test_what_it_closes_over_counts_by_content() -> None:
    assert told(closing_over([1, {"a": (2, 3)}])) == told(closing_over([1, {"a": (2, 3)}]))
    others: list[Any] = [[1, {"a": (2, 4)}], True, 1, "1", 1.0, None, b"1", Settings(1), Settings(2), Settings(1).allows]
    others += [Settings(2).allows, functools.partial(closing_over, 1), functools.partial(closing_over, 2), closing_over(1), str]
    fingerprints = [told(closing_over(value)) for value in others]
    assert len(set(fingerprints)) == len(others)
    assert fingerprints == [told(closing_over(value)) for value in others]
    assert told(closing_over(1, default=2)) != told(closing_over(1))


def test_what_reaches_itself_has_an_end() -> None:
    endless: list[Any] = [1]
    endless.append(endless)
    assert told(closing_over(endless)) == told(closing_over(endless))


def test_what_nobody_can_read_is_named() -> None:
    found = fingerprint_of(closing_over(Settings(1, client=iter([]))))
    assert found.by_type == ("value.client (builtins.list_iterator)",)
    assert found.text == told(closing_over(Settings(1, client=iter([1]))))
    assert fingerprint_of(closing_over(Path("here"))).by_type == ()


def test_every_process_reads_the_same_whatever_the_layout_and_another_thing_where_the_code_changed(tmp_path: Path) -> None:
    def read(hash_seed: str) -> list[str]:
        program = READ.format("mine") + "print(*(fingerprint_of(one).text for one in (mine.answer, mine.quick)))"
        environment = {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", program]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout.split()

    def write(mine: str, other: str = "text") -> None:
        (tmp_path / "mine.py").write_text(mine)
        (tmp_path / "mine_too.py").write_text(f"def other(text): return {other}")

    write(MODULE)
    first = read("1")
    write(MODULE.replace("def answer", "# a word\n\ndef answer").replace("return text.upper()", "return  text.upper( )"))
    assert read("2") == first
    write(MODULE, "'no'")
    answer, quick = read("1")
    assert (answer != first[0], quick == first[1]) == (True, True)
    write(MODULE.replace("upper", "lower").replace('"e"', '"f"'))
    answer, quick = read("1")
    assert (answer != first[0], quick != first[1]) == (True, True)
