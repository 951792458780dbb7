"""Code under test knows its experiment, wherever it runs, and production knows of none."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from dataclasses import asdict, replace

import pytest

from ratchet import (
    ExperimentContext,
    current_experiment,
    experiment_from_headers,
    experiment_from_input,
    experiment_headers,
    in_experiment,
)

EXPERIMENT = ExperimentContext(
    id="triage/r3/abc",
    name="Größer: 100 %",
    overrides_tag="a" * 64,
    parent_tag="b" * 64,
    flags={"new_parser": True, "größe": 1.5, "names": ["ü", None]},
    overlay_hash="c" * 64,
    run_id="triage",
    candidate_id="r3-abc",
    replicate=2,
    seed=2**62,
)


def test_production_runs_under_no_experiment() -> None:
    assert current_experiment() is None


def test_an_experiment_ends_with_its_block_whatever_ends_that() -> None:
    def fails() -> None:
        with in_experiment(EXPERIMENT):
            assert current_experiment() is EXPERIMENT
            with in_experiment(None):
                assert current_experiment() is None
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert current_experiment() is None


async def test_tasks_and_threads_of_asyncio_take_it_along_and_never_mix_it_up() -> None:
    async def seen(number: int) -> tuple[int, ...]:
        with in_experiment(replace(EXPERIMENT, replicate=number)):
            in_a_thread = asyncio.to_thread(current_experiment)
            in_a_task = asyncio.create_task(_current())
            found = [current_experiment(), await in_a_thread, await in_a_task]
        return tuple(experiment.replicate for experiment in found if experiment is not None)

    assert await asyncio.gather(*map(seen, range(50))) == [(number,) * 3 for number in range(50)]


async def _current() -> ExperimentContext | None:
    return current_experiment()


def test_a_thread_of_ones_own_takes_it_along_in_a_copied_context() -> None:
    seen: list[ExperimentContext | None] = []
    with in_experiment(EXPERIMENT):
        copied = contextvars.copy_context()
    thread = threading.Thread(target=lambda: seen.append(copied.run(current_experiment)))
    thread.start()
    thread.join()
    assert seen == [EXPERIMENT]


class TestHeaders:
    def test_headers_carry_the_whole_experiment(self) -> None:
        headers = experiment_headers(EXPERIMENT)
        assert all(text.isascii() and text.isprintable() for text in headers.values())
        assert experiment_from_headers(headers) == EXPERIMENT

    def test_headers_are_read_in_any_case(self) -> None:
        assert experiment_from_headers({n.lower(): v for n, v in experiment_headers(EXPERIMENT).items()}) == EXPERIMENT

    def test_the_baseline_has_no_parent_and_a_run_may_have_no_flags(self) -> None:
        baseline = replace(EXPERIMENT, parent_tag=None, flags={})
        assert {"X-Ratchet-Parent", "X-Ratchet-Flags"}.isdisjoint(experiment_headers(baseline))
        assert experiment_from_headers(experiment_headers(baseline)) == baseline

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"Overlay": "a" * 64},
            {"X-Ratchet-Run": "triage"},
            {"X-Ratchet-Overlay": "canary"},
            {"X-Ratchet-Overlay": "1.0.0"},
            {"X-Ratchet-Overlay": "a" * 64 + "\n"},
        ],
    )
    def test_an_ordinary_request_is_part_of_no_experiment(self, headers: dict[str, str]) -> None:
        assert experiment_from_headers(headers) is None

    @pytest.mark.parametrize(
        "broken",
        [{"X-Ratchet-Seed": "many"}, {"X-Ratchet-Flags": "{"}, {"X-Ratchet-Flags": "[1]"}, {"X-Ratchet-Flags": "[" * 9_000}],
    )
    def test_headers_that_are_broken_are_refused_and_not_taken_for_production(self, broken: dict[str, str]) -> None:
        with pytest.raises(ValueError, match="X-Ratchet-"):
            experiment_from_headers({**experiment_headers(EXPERIMENT), **broken})


def test_the_input_of_an_activity_is_read_and_what_is_unknown_left_out() -> None:
    assert experiment_from_input({**asdict(EXPERIMENT), "of_a_later_version": 1}) == EXPERIMENT


def test_knowing_the_experiment_takes_neither_temporal_nor_a_room() -> None:
    program = (
        "import ratchet, sys; assert ratchet.current_experiment() is None;"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'temporalio', 'workflows', 'activities', 'clients'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
