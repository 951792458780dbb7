"""Figures are ratios to what was measured beside them, and the figures are what they say."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import pytest

from benchmarks import __main__ as every_benchmark
from benchmarks.bare_calls import each
from benchmarks.efficiency import most_beside
from benchmarks.engine import of_chat, of_python
from benchmarks.overhead import Taken, compared
from benchmarks.processor_time import CORE, LAYERS, PYTHON, is_of_the_core, measured_time
from benchmarks.scale_out import scaling, unfairness
from benchmarks.start import Started, figures_of, moment_served, moment_supervised
from clients.embedded.home import Home
from tests.support.engines import Engines


def test_a_trial_is_compared_with_its_neighbour_and_not_with_another_minute() -> None:
    its, ours = dict.fromkeys(LAYERS, 5.0), {**dict.fromkeys(LAYERS, 5.0), PYTHON: 15.0}
    quiet, busy = (Taken(10.0, its, 9.0), Taken(12.0, ours, 9.0)), (Taken(100.0, its, 9.0), Taken(125.0, ours, 9.0))
    figures = compared([quiet, busy, quiet], "here", 1.22, 10.0)
    assert figures[0].value == pytest.approx(1.2) and figures[0].holds
    assert not compared([busy], "here", 1.22, 10.0)[0].holds
    assert [figure.value for figure in figures[1:4]] == [12.0, 10.0, 1.5]
    told = {figure.name: figure.value for figure in figures[4:]}
    assert (told.pop("CPU of a trial in Python here"), told.pop("parent history events per trial here")) == (15.0, 9.0)
    assert set(told.values()) == {5.0}


def test_wall_over_ideal_is_held_to_its_target_where_bare_engines_allow_it_and_else_to_them() -> None:
    assert most_beside(1.0) == 1.05
    assert most_beside(1.10) == pytest.approx(1.133)


def test_answers_are_compared_with_calls_by_a_bare_client() -> None:
    python, chat = [(0.01, 0.1), (0.01, 0.2), (0.01, 0.3)], [(1.0, 1.4), (2.0, 3.2), (2.0, 2.8)]
    assert [figure.value for figure in of_chat(chat)] == pytest.approx([1.4, 2.8, 2.0])
    assert [figure.value for figure in of_python(python, chat)] == pytest.approx([0.1, 0.2, 0.01])
    assert of_chat(chat)[0].holds and of_python(python, chat)[0].holds
    assert not of_chat([(1.0, 1.6)])[0].holds and not of_python([(0.01, 0.2)], [(1.0, 1.4)])[0].holds


async def test_bare_loops_make_every_call_and_never_more_at_once_than_they_may() -> None:
    at_work, most, made = 0, 0, []

    async def call(number: int) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0)
        made.append(number)
        at_work -= 1

    await each(call, 40, 4)
    assert sorted(made) == list(range(40)) and most == 4


@pytest.mark.slow
async def test_time_of_processors_is_told_by_layer(engines: Engines) -> None:
    async with measured_time(engines.addresses.home) as taken:
        until = time.process_time() + 0.2
        while time.process_time() < until:
            pass
    assert set(taken) == set(LAYERS)
    assert taken[PYTHON] >= 0.1
    names = [(thread / "comm").read_text().strip() for thread in Path(f"/proc/{os.getpid()}/task").iterdir()]
    assert any(is_of_the_core(name) for name in names) and not is_of_the_core("python")
    assert CORE in taken


def test_scaling_is_over_a_straight_line_from_one_worker() -> None:
    figures = scaling({1: 31.0, 2: 62.0, 4: 100.0})
    assert [figure.value for figure in figures] == pytest.approx([31 / 32, 1.0, 100 / 124])
    assert [figure.holds for figure in figures] == [True, True, False]


def test_a_run_that_gets_nothing_is_infinitely_unfair() -> None:
    assert unfairness([10, 10, 10]) == 1.0
    assert unfairness([15, 15, 10]) == pytest.approx(4 / 3)
    assert unfairness([10, 0]) == float("inf")


def test_where_a_start_goes_is_read_off_the_logs_of_this_start_alone(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    home.make()
    day = "2026-01-01T12:00:"
    home.log("supervisor").write_text(f"{day}01.000+00:00 [1] supervising\n{day}11.500+00:00 [2] supervising\n")
    events = [("serving", "02"), ("draining", "03"), ("serving", "12"), ("serving", "14")]
    told = [json.dumps({"event": event, "timestamp": f"{day}{second}.000000Z"}) for event, second in events]
    home.log("worker").write_text("\n".join(told))
    since = 1767268810.0  # ten seconds after noon
    supervised, served = moment_supervised(home.path, since), moment_served(home.path, since)
    assert (supervised, served) == (since + 1.5, since + 2.0)
    assert moment_served(tmp_path / "elsewhere", since) is None


def test_the_parts_of_a_cold_start_are_the_whole() -> None:
    cold = Started(first_call=3.0, supervised=1.0, served=2.5, cpu=2.0)
    warm = Started(first_call=0.9, supervised=None, served=None, cpu=1.0)
    figures = figures_of([1.2], [cold], [warm])
    assert sum(figure.value for figure in figures[1:4]) == figures[0].value == 3.0
    assert [figure.holds for figure in figures if figure.target] == [True, True]


def test_every_benchmark_that_make_bench_runs_is_there_and_in_the_table_of_its_folder() -> None:
    table = (Path(every_benchmark.__file__).parent / "README.md").read_text()
    for name in (*every_benchmark.BENCHMARKS, *every_benchmark.FULL_ONLY):
        assert Path(every_benchmark.__file__).with_name(f"{name}.py").exists()
        assert f"| `{name}` |" in table
