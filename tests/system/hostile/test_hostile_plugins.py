"""Plug-ins that misbehave: each trial or run ends as DESIGN §6 and requirement A8 say, with the reason shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pytest
import pytest_asyncio

from tests.support.hostile_harness import Arena, Ended, as_json, spec
from tests.support.plugins.misbehaving import DEEDS

X: Final = {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 1000, "step": 10}


class Case(NamedTuple):
    """A spec, how its run must end, and what must be said of it."""

    spec: dict[str, Any]
    status: str
    type: str
    said: tuple[str, ...]


def misbehaves(deed: str, *said: str, ref: str = "misbehaving:target") -> Case:
    """A target that does this on every sample: the candidate's fault, so the baseline fails."""
    assert deed in DEEDS
    configuration = {"x": X, "deed": deed}
    return Case(spec(configuration=configuration, target={"kind": "python", "ref": ref}), "failed", "baseline_failed", said)


def target(ref: str, *said: str) -> Case:
    return Case(spec(target={"kind": "python", "ref": ref}), "failed", "baseline_failed", said)


def hangs(ref: str) -> Case:
    sent = spec(target={"kind": "python", "ref": ref}, execution={"sample_timeout": "0.3s"})
    return Case(sent, "failed", "baseline_failed", ("sample timeout of 0.3 s",))


def scorer(ref: str, *said: str) -> Case:
    return Case(spec(scorers=[{"kind": "python", "name": "height", "ref": ref}]), "failed", "baseline_failed", said)


def objective(ref: str, *said: str) -> Case:
    return Case(spec(objective={"kind": "python", "metric": "height", "ref": ref}), "failed", "baseline_failed", said)


def proposer(ref: str, kind: str, *said: str) -> Case:
    """What was best so far is kept: the run completes, and says why it went no further."""
    rounds = {"max_rounds": 10, "no_improvement": 0}
    return Case(
        spec(optimizer={"name": "refine", "proposer": {"kind": "python", "ref": ref}}, stop=rounds), "completed", kind, said
    )


TARGETS: Final = {
    "returns-nothing": misbehaves("returns nothing", "returned nothing", "return text"),
    "returns-bytes": misbehaves("returns bytes", "returned a bytes", "return text"),
    "returns-a-generator": misbehaves("returns a generator", "returned a generator"),
    "returns-a-class": misbehaves("returns the class", "returned a type"),
    "returns-an-object": target("plugged:rubbish", "returned a object"),
    "returns-nan": misbehaves("returns nan", "nan is not a finite number"),
    "returns-infinity-inside": misbehaves("returns infinity inside", "-inf is not a finite number"),
    "returns-nul": misbehaves("returns nul", "NUL"),
    "returns-a-surrogate": misbehaves("returns a surrogate", "lone surrogate"),
    "returns-a-surrogate-as-key": misbehaves("returns a surrogate as key", "lone surrogate"),
    "returns-keys-that-are-no-text": misbehaves("returns keys that are no text", "key 1 is not text"),
    "returns-a-set": misbehaves("returns a set", "set is not a JSON value"),
    "returns-5-mb": misbehaves("returns 5 mb", "more than 1,048,576 characters"),
    "returns-5-mb-asynchronously": misbehaves("returns 5 mb", "more than 1,048,576 characters", ref="misbehaving:async_target"),
    "returns-a-list-of-5-mb": misbehaves("returns a list of 5 mb", "1,048,576"),
    "returns-300-levels": misbehaves("returns 300 levels", "100 levels"),
    "returns-100000-levels": misbehaves("returns 100000 levels", "100 levels"),
    "returns-a-circle": misbehaves("returns a circle", "more than 1,048,576 characters"),
    "returns-endless-digits": misbehaves("returns an integer of 5000 digits", "308 digits"),
    "returns-a-trap": misbehaves("returns a trap", "OSError: trap"),
    "returns-a-trap-inside": misbehaves("returns a trap inside", "OSError: trap"),
    "nan-tokens": misbehaves("returns nan tokens", "tokens=nan", "whole number"),
    "negative-tokens": misbehaves("returns negative tokens", "tokens=-1"),
    "tokens-as-text": misbehaves("returns tokens as text", "tokens='many'"),
    "endless-tokens": misbehaves("returns endless tokens", "tokens=10000"),
    "trapped-tokens": misbehaves("returns trapped tokens", "OSError: trap"),
    "nan-cost": misbehaves("returns nan cost", "cost=nan", "finite"),
    "negative-cost": misbehaves("returns negative cost", "cost=-0.5"),
    "infinite-latency": misbehaves("returns infinite latency", "latency_ms=inf"),
    "trapped-cost": misbehaves("returns a trapped cost", "OSError: trap"),
    "another-overlay": misbehaves("returns another overlay", "another", "must answer with the configuration it is given"),
    "raises": misbehaves("raises", "target raised ValueError: no idea"),
    "raises-asynchronously": misbehaves("raises", "target raised ValueError: no idea", ref="misbehaving:async_target"),
    "raises-a-surrogate": misbehaves("raises a surrogate", "target raised ValueError: half <U+D83D> and"),
    "raises-5-mb": misbehaves("raises 5 mb", "target raised ValueError: xxx", "…"),
    "raises-without-text": misbehaves("raises without text", "target raised Untellable"),
    "raises-system-exit": misbehaves("raises SystemExit", "target raised SystemExit: 3"),
    "raises-system-exit-asynchronously": misbehaves("raises SystemExit", "SystemExit: 3", ref="misbehaving:async_target"),
    "raises-keyboard-interrupt": misbehaves("raises KeyboardInterrupt", "KeyboardInterrupt"),
    "raises-keyboard-interrupt-asynchronously": misbehaves(
        "raises KeyboardInterrupt", "KeyboardInterrupt", ref="misbehaving:async_target"
    ),
    "raises-generator-exit": misbehaves("raises GeneratorExit", "GeneratorExit"),
    "raises-generator-exit-asynchronously": misbehaves("raises GeneratorExit", "GeneratorExit", ref="misbehaving:async_target"),
    "raises-cancelled": misbehaves("raises CancelledError", "CancelledError"),
    "raises-cancelled-asynchronously": misbehaves("raises CancelledError", "CancelledError", ref="misbehaving:async_target"),
    "raises-a-group": misbehaves("raises a group", "ExceptionGroup: several"),
    "raises-memory-error": misbehaves("raises MemoryError", "MemoryError"),
    "raises-stop-iteration": misbehaves("raises StopIteration", "StopIteration"),
    "raises-stop-iteration-asynchronously": misbehaves("raises StopIteration", "StopIteration", ref="misbehaving:async_target"),
    "recurses": misbehaves("recurses", "RecursionError"),
    "hangs": hangs("plugged:hangs"),
    "hangs-in-a-thread": hangs("plugged:hangs_in_a_thread"),
    "fails-on-the-sample-alone": target("plugged:raises", "no answer to"),
}

SCORERS: Final = {
    "score-nan": scorer("plugged:nan_score", "'height' gave nan", "finite"),
    "score-infinite": scorer("plugged:infinite_score", "'height' gave inf", "finite"),
    "score-text": scorer("plugged:text_score", "'height' gave 'good'", "not a number"),
    "score-raising": scorer("plugged:raising_score", "raised ValueError: cannot score this"),
    "score-nothing": scorer("misbehaving:scores_nothing", "gave no score", "return a number"),
    "score-none": scorer("misbehaving:scores_none", "None", "not a number"),
    "score-twice": scorer("misbehaving:scores_twice", "'height' was given twice"),
    "score-of-another-name": scorer("misbehaving:scores_something_else", "'height' is not among", "width"),
    "score-of-a-strange-name": scorer("misbehaving:scores_with_a_strange_name", "use letters"),
    "score-a-trap": scorer("misbehaving:scores_a_trap", "height"),
    "score-raising-a-surrogate": scorer("misbehaving:scores_with_a_surrogate", "ValueError: half <U+D83D> and"),
    "score-raising-without-text": scorer("misbehaving:scores_without_text", "Untellable"),
    "score-exiting": scorer("misbehaving:scores_by_exiting", "SystemExit: 4"),
    "objective-nan": objective("plugged:nan_objective", "plugged:nan_objective", "nan", "finite"),
    "objective-text": objective("misbehaving:objective_of_text", "'good'", "finite"),
    "objective-raising": objective("misbehaving:objective_raises", "ValueError: half <U+D83D>"),
    "objective-exiting": objective("misbehaving:objective_exits", "SystemExit: 5"),
    "objective-a-trap": objective("misbehaving:objective_is_a_trap", "objective_is_a_trap"),
    "objective-endless-digits": objective("misbehaving:objective_of_400_digits", "too large"),
}

PROPOSERS: Final = {
    "proposer-raising": proposer("plugged:raising_proposer", "proposal_failure", "Mutation failed", "LookupError: no idea"),
    "proposer-out-of-range": proposer("plugged:wild_proposer", "convergence"),
    "proposer-of-nothing": proposer("misbehaving:proposes_nothing", "convergence"),
    "proposer-of-a-list": proposer("misbehaving:proposes_a_list", "proposal_failure", "returned a list", "mapping"),
    "proposer-of-a-surrogate": proposer("misbehaving:proposes_an_unknown_factor", "proposal_failure", "lone surrogate"),
    "proposer-of-an-unknown-factor": proposer("misbehaving:proposes_another_factor", "convergence"),
    "proposer-of-nan": proposer("misbehaving:proposes_nan", "proposal_failure", "nan"),
    "proposer-of-text": proposer("misbehaving:proposes_text", "convergence"),
    "proposer-of-5-mb": proposer("misbehaving:proposes_5_mb", "proposal_failure", "5,000,0"),
    "proposer-of-a-trap": proposer("misbehaving:proposes_a_trap", "proposal_failure", "trap"),
    "proposer-of-300-levels": proposer("misbehaving:proposes_300_levels", "proposal_failure", "100 levels"),
    "proposer-exiting": proposer("misbehaving:proposer_exits", "proposal_failure", "SystemExit: 6"),
    "proposer-without-text": proposer("misbehaving:proposer_without_text", "proposal_failure", "Untellable"),
}

FINE: Final = {
    "strange-trace": Case(spec(target={"kind": "python", "ref": "misbehaving:strange_trace"}), "completed", "max_rounds", ()),
    "strange-reason": Case(
        spec(scorers=[{"kind": "python", "name": "height", "ref": "misbehaving:strange_reason"}]), "completed", "max_rounds", ()
    ),
    "changes-its-configuration": Case(
        spec(
            configuration={"x": X, "inner": {"list": []}},
            target={"kind": "python", "ref": "misbehaving:changes_its_configuration"},
            stop={"max_rounds": 1, "no_improvement": 0},
        ),
        "completed",
        "max_rounds",
        (),
    ),
}

CASES: Final[Mapping[str, Case]] = TARGETS | SCORERS | PROPOSERS | FINE


@pytest_asyncio.fixture(scope="module")
async def ended(arena: Arena) -> dict[str, Ended]:
    return await arena.run_all({name: (as_json(case.spec),) for name, case in CASES.items()})


@pytest.mark.parametrize("name", CASES)
async def test_a_misbehaving_plug_in_ends_its_run_with_a_reason(name: str, ended: dict[str, Ended]) -> None:
    end, case = ended[name], CASES[name]
    assert (end.status, end.type) == (case.status, case.type), str(end)
    for part in case.said:
        assert part in end.message, str(end)
    assert len(end.message) < 10_000
    stored = (end.stored["status"], end.stored["stop_reason"], end.stored["message"])
    assert stored == (case.status, case.type, end.message)


@pytest.mark.parametrize("name", TARGETS)
async def test_a_misbehaving_target_is_the_candidates_fault_sample_by_sample(
    name: str, ended: dict[str, Ended], arena: Arena
) -> None:
    async with arena.database.connection() as connection:
        outcomes = await connection.fetch("SELECT status, error FROM outcomes WHERE run_id = $1", ended[name].run_id)
        trials = await connection.fetch("SELECT status FROM trials WHERE run_id = $1", ended[name].run_id)
    assert [outcome["status"] for outcome in outcomes] == ["failed", "failed"]
    assert all(outcome["error"] for outcome in outcomes)
    assert [trial["status"] for trial in trials] == ["failed"]


@pytest.mark.parametrize("name", SCORERS)
async def test_what_cannot_be_scored_is_nobodys_answer(name: str, ended: dict[str, Ended], arena: Arena) -> None:
    async with arena.database.connection() as connection:
        stored = await connection.fetch(
            "SELECT status, scores::text AS scores FROM outcomes WHERE run_id = $1", ended[name].run_id
        )
    assert {outcome["status"] for outcome in stored} == {"answered" if name.startswith("objective") else "unscored"}
    assert all("NaN" not in outcome["scores"] for outcome in stored)


async def test_a_target_gets_a_configuration_of_its_own(ended: dict[str, Ended]) -> None:
    assert ended["changes-its-configuration"].result["baseline_score"] == 0.5
