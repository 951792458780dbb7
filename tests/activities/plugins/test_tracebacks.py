"""Where plug-ins raised: their own frames, in a few lines, with nothing secret in them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from activities.plugins.calls import PluginCalls
from activities.plugins.loader import Plugin
from activities.plugins.tracebacks import MOST_FRAMES, traceback_of
from activities.secret_texts import without_secrets

HERE = "tests/activities/plugins/test_tracebacks.py"


def price(table: Mapping[str, Any], depth: int = 0) -> Any:
    if depth:
        return price(table, depth - 1)
    return table["apples"]


async def price_later(table: Mapping[str, Any]) -> Any:
    await asyncio.sleep(0)
    return price(table)


def price_in_a_group(table: Mapping[str, Any]) -> Any:
    try:
        price(table)
    except KeyError as error:
        raise ExceptionGroup("several", [error]) from None


async def raised_by(call: Callable[..., Any], *arguments: Any, is_async: bool = False) -> BaseException:
    with pytest.raises(BaseException) as raised:  # noqa: PT011 (whatever it is)
        await PluginCalls().call(Plugin("here:there", call, is_async, ""), *arguments)
    trace = raised.value.__traceback__
    return raised.value.with_traceback(None if trace is None else trace.tb_next)


@pytest.mark.parametrize(("call", "is_async"), [(price, False), (price_later, True), (price_in_a_group, False)])
async def test_the_users_frames_are_told_and_none_of_ours(call: Callable[..., Any], is_async: bool) -> None:
    lines = traceback_of(await raised_by(call, {}, is_async=is_async)).splitlines()
    assert lines[-1].startswith(f"  {HERE}:")
    assert lines[-1].endswith(' in price: return table["apples"]')
    assert all(line.startswith(f"  {HERE}:") for line in lines)


async def test_the_standard_library_is_shown_only_where_there_is_nothing_else() -> None:
    [line] = traceback_of(await raised_by(json.loads, "{")).splitlines()
    assert "json" in line
    assert "decoder.py" in line


async def test_deep_ones_are_cut_to_the_first_and_the_last() -> None:
    lines = traceback_of(await raised_by(price, {}, 40)).splitlines()
    assert len(lines) == MOST_FRAMES + 1
    assert lines[1] == "  … 36 more …"
    assert lines[-1].endswith('return table["apples"]')


def test_what_was_loaded_in_strange_ways_hides_nothing() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        exec(compile("1 / 0", "\x1b[31mno file", "exec"), {})
    assert "\x1b" not in traceback_of(raised.value)


def test_secrets_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "abcd-1234-efgh")
    monkeypatch.setenv("SHOP_DATABASE", "postgresql://me:hunter2222@host/db")
    told = without_secrets("abcd-1234-efgh, 'sk-proj-Zz12-34', hunter2222 and mine; not risk-free", "mine")
    assert told == "(hidden), '(hidden)', (hidden) and (hidden); not risk-free"


def test_a_key_in_a_line_of_code_is_hidden(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text('raise ValueError("sk-proj-Zz1234")\n')
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        exec(compile(file.read_text(), str(file), "exec"), {})
    assert 'raise ValueError("(hidden)")' in traceback_of(raised.value)
