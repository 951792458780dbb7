"""Numbers of any finite size: each is used as what it is, or refused in one sentence. None makes a run hang."""

from __future__ import annotations

from typing import Any, Final

import pytest
import pytest_asyncio

from tests.support.hostile_harness import Arena, Ended, as_json, spec

COMPLETED: Final = ("completed", ())
X: Final = {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 1000, "step": 10}
NUMBER: Final = {"value": 0.0, "change": "structured", "type": "number"}


def items(*inputs: Any, **parts: Any) -> dict[str, Any]:
    """A few of each, so that there is something to compute a spread of."""
    return {
        "items": [{"id": f"{place}-{n}", "input": given, **parts} for n in range(4) for place, given in enumerate(inputs)],
        "splits": "none",
    }


def scored(*scores: float) -> dict[str, Any]:
    return spec(dataset=items(*scores), scorers=[{"kind": "python", "name": "height", "ref": "misbehaving:scores_its_sample"}])


def billed(**parts: Any) -> dict[str, Any]:
    """The first sample says that it took so much."""
    return spec(dataset=items(parts, {}), target={"kind": "python", "ref": "misbehaving:bills_its_sample"})


def weighted(*weights: float) -> dict[str, Any]:
    return spec(
        dataset={
            "items": [{"id": str(n), "input": n, "weight": weight} for n, weight in enumerate(weights * 3)],
            "splits": "none",
        }
    )


TOO_LARGE: Final = ("failed", ("'height' gave 1e+308", "between -1e+30 and 1e+30"))

SCORES: Final[dict[str, tuple[dict[str, Any], tuple[str, tuple[str, ...]]]]] = {
    "score-1e308": (scored(1e308), TOO_LARGE),
    "score-1e308-beside-1": (scored(1e308, 1.0), TOO_LARGE),
    "score-1e160-beside-1": (scored(1e160, 1.0), ("failed", ("'height' gave 1e+160", "between -1e+30 and 1e+30"))),
    "score-at-both-ends": (scored(1.7e308, -1.7e308), ("failed", ("'height' gave", "between -1e+30 and 1e+30"))),
    "score-1e30-beside-its-opposite": (scored(1e30, -1e30, 0.5), COMPLETED),
    "score-next-to-nothing": (scored(5e-324, 1e30, -5e-324), COMPLETED),
    "objective-1.7e308": (
        spec(objective={"kind": "python", "metric": "height", "ref": "misbehaving:objective_near_the_end_of_floats"}),
        ("failed", ("objective_near_the_end_of_floats", "1.7e+308", "between -1e+30 and 1e+30")),
    ),
}

BILLS: Final[dict[str, tuple[dict[str, Any], tuple[str, ...]]]] = {
    "cost-1e308": (billed(cost=1e308), ("cost=1e+308", "from 0 to 1e+09")),
    "latency-1e308": (billed(latency_ms=1e308), ("latency_ms=1e+308", "from 0 to 1e+12")),
    "time-to-first-token-1e308": (billed(ttft_ms=1e308), ("ttft_ms=1e+308", "from 0 to 1e+12")),
    "tokens-1e300": (billed(tokens=1e300), ("tokens=10000000000", "from 0 to 1,000,000,000")),
    "tokens-2-to-the-62": (billed(tokens=2**62), ("tokens=4611686018427387904", "from 0 to 1,000,000,000")),
    "tokens-of-300-digits": (billed(tokens=10**300), ("tokens=10000000000", "from 0 to 1,000,000,000")),
}

SPECS: Final[dict[str, tuple[dict[str, Any], tuple[str, tuple[str, ...]]]]] = {
    "weight-1e308": (weighted(1e308, 1.0), ("failed", ("dataset.items[0].weight", "at most 1e+30"))),
    "weight-next-to-nothing": (weighted(5e-324, 1.0), COMPLETED),
    "weight-1e30-beside-1e-30": (weighted(1e30, 1e-30), COMPLETED),
    "budget-of-300-digits": (
        spec(budget={"tokens": 10**300, "samples": 10**300, "cost": 1e308}),
        ("failed", ("budget.tokens", "budget.cost")),
    ),
    "at-most-of-300-digits": (
        spec(
            target={"kind": "python", "ref": "plugged:hill", "at_most": {"tokens": 10**300, "cost": 1e308}},
            budget={"tokens": 1000},
        ),
        ("failed", ("target.at_most.tokens", "at most 1,000,000,000,000,000")),
    ),
    "score-range-1e308": (
        spec(judgement={"score_range": 1e308, "margin": 1e308}),
        ("failed", ("judgement.score_range", "judgement.margin", "at most 1e+30")),
    ),
    "score-range-next-to-nothing": (spec(judgement={"score_range": 5e-324}), COMPLETED),
    "min-delta-1e30": (spec(stop={"max_rounds": 2, "min_delta": 1e30, "score": 1e30}), COMPLETED),
    "factor-at-both-ends": (
        spec(
            configuration={
                "x": X,
                "y": {"value": 0.0, "change": "structured", "type": "number", "min": -1.7e308, "max": 1.7e308},
            }
        ),
        COMPLETED,
    ),
    "factor-at-both-ends-searched": (
        spec(
            configuration={
                "x": X,
                "y": NUMBER | {"min": -1.7e308, "max": 1.7e308},
                "z": NUMBER | {"value": 1e-300, "min": 1e-300, "max": 1e308, "scale": "log"},
            },
            optimizer={"name": "search", "candidates_per_round": 2},
            stop={"max_rounds": 12, "no_improvement": 0},
        ),
        COMPLETED,
    ),
}


@pytest_asyncio.fixture(scope="module")
async def ended(arena: Arena) -> dict[str, Ended]:
    sent = {name: case[0] for name, case in (SCORES | SPECS).items()} | {name: case[0] for name, case in BILLS.items()}
    return await arena.run_all({name: (as_json(given),) for name, given in sent.items()})


@pytest.mark.parametrize("name", [*SCORES, *SPECS])
async def test_no_number_makes_a_run_hang(name: str, ended: dict[str, Ended]) -> None:
    end, (status, said) = ended[name], (SCORES | SPECS)[name][1]
    assert end.status == status, str(end)
    for part in said:
        assert part in end.message, str(end)


@pytest.mark.parametrize("name", BILLS)
async def test_a_bill_that_nobody_can_add_up_fails_its_sample_alone(name: str, ended: dict[str, Ended], arena: Arena) -> None:
    assert ended[name].status != "hangs", str(ended[name])
    async with arena.database.connection() as connection:
        outcomes = await connection.fetch("SELECT status, error FROM outcomes WHERE run_id = $1", ended[name].run_id)
    assert {outcome["status"] for outcome in outcomes} == {"answered", "failed"}
    for part in BILLS[name][1]:
        assert all(part in outcome["error"] for outcome in outcomes if outcome["status"] == "failed")
