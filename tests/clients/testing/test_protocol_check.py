"""`check_protocol` finds what is wrong with an optimizer, and says how to mend it."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest

from clients.testing import ProtocolBroken, check_protocol
from tests.support import broken_optimizers as broken


def test_what_libraries_do_when_garbage_is_collected_is_not_the_optimizers_doing() -> None:
    def looks_at_a_clock(*_: object) -> None:
        time.perf_counter()

    often = gc.get_threshold()
    gc.callbacks.append(looks_at_a_clock)
    gc.set_threshold(1)
    try:
        assert check_protocol(broken.Good).status == "completed"
    finally:
        gc.set_threshold(*often)
        gc.callbacks.remove(looks_at_a_clock)


@pytest.mark.parametrize("optimizer", [broken.Good, broken.Async, broken.FillsUp])
def test_an_optimizer_that_keeps_to_the_protocol_passes(optimizer: type) -> None:
    run = check_protocol(optimizer)
    assert run.status == "completed"
    assert len(run.rounds) == 41


@pytest.mark.parametrize(
    ("optimizer", "told"),
    [
        (broken.GlobalChance, r"propose uses random .*draw from random.Random"),
        (broken.ChosenByTheModule, r"propose uses random"),
        (broken.NoSeed, r"propose uses random \(a generator without a seed\)"),
        (broken.Uuid, r"propose uses random \(os.urandom\)"),
        (broken.Clock, r"propose uses time \(time.time\).*count rounds"),
        (broken.Today, r"propose uses time \(datetime.now\)"),
        (broken.Sleepy, r"observe uses time \(time.sleep\)"),
        (broken.Reads, r"initialize uses files \(open '.*broken_optimizers.py.*keep what is remembered in the state"),
        (broken.ReadsInSecret, r"initialize uses files"),
        (broken.Connects, r"should_stop uses sockets"),
        (broken.Spawns, r"should_stop uses processes"),
        (broken.Threads, r"should_stop uses threads"),
        (broken.RemembersOnItself, r"one object lives for the whole run.*algorithm_data, not on self"),
        (broken.RemembersOnItsClass, r"other answers the second time"),
        (broken.Grows, r"its state grows by \d+ bytes a step.*the newest or the best"),
        (broken.Huge, r"its state is 70,\d+ bytes of JSON; at most 65,536 fit"),
        (broken.KeepsASet, r"observe returned a state that is another one after a round trip through JSON"),
        (broken.ProposeRemembers, r"propose changed the state that it was given"),
        (broken.OutOfRange, r"proposal 0 of round 1 is inadmissible \(out_of_range\)"),
        (broken.ForgetsFactors, r"inadmissible \(missing_factor\).*every factor"),
        (broken.TooMany, r"failed in propose: it returned 4 proposals; at most 3 are asked for"),
        (broken.NoList, r"failed in propose: it returned a NoneType; return a list of CandidateProposal"),
        (broken.NaN, r"failed in propose: proposal 0 is not JSON"),
        (broken.Raises, r"failed in observe: KeyError: 'population'"),
        (broken.GivesUp, r"stopped before it proposed anything"),
        (broken.Waits, r"propose waits for something outside of itself"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_each_mistake_is_found_and_its_cure_is_told(optimizer: type, told: str) -> None:
    broken.RemembersOnItsClass.asked = 0
    with pytest.raises(ProtocolBroken, match=told):
        check_protocol(optimizer)


@pytest.mark.parametrize(
    ("optimizer", "what"), [(broken.Connects, "sockets"), (broken.Sleepy, "time"), (broken.Reads, "files")]
)
def test_what_is_allowed_passes(optimizer: type, what: Any) -> None:
    check_protocol(optimizer, allows={what})


def test_nothing_is_watched_once_the_check_is_over() -> None:
    check_protocol(broken.Good)
    assert broken.Clock().draw(None, 0) >= 0  # type: ignore[arg-type]
    with open(__file__) as file:
        assert file.read()
