"""What plug-ins print is kept with the answer that it belongs to, wherever they run."""

from __future__ import annotations

import pytest

from activities.plugins.printed_text import LONGEST_PRINTED
from tests.support.activity_attempts import activity_environment
from tests.support.measured_runs import MeasuredRun, evaluation
from tests.support.suite_building import plugin, samples, scored_by, shard, suite
from workflows.model.spec.targets.python import PythonTarget

pytestmark = pytest.mark.usefixtures("measured_runs")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SHOP_API_KEY", "very-secret")
    return "very-secret"


async def printed(target: PythonTarget | str, **asks: object) -> dict[str, str | None]:
    run = MeasuredRun(suite(target, scorers=scored_by("chatty_score")), samples(3, **asks))
    async with evaluation(run) as evaluating:
        await activity_environment().run(evaluating.evaluate_shard, shard(3))
    return {name: outcome.printed for name, outcome in (await run.by_sample()).items()}


POOLED = PythonTarget.model_validate({"kind": "python", "ref": plugin("chatty"), "pool": "process", "processes": 1})


@pytest.mark.parametrize("target", ["chatty", "chatty_async", POOLED], ids=["thread", "loop", "process"])
async def test_it_is_kept_with_its_answer_and_hides_keys(target: PythonTarget | str) -> None:
    assert await printed(target) == {f"s{n}": f"asking s{n} with (hidden) \nnoted\nscoring s{n}" for n in range(3)}
    failed = await printed(target, raises=True)
    assert failed["s0"] == "asking s0 with (hidden) \nnoted"


async def test_only_the_end_of_much_is_kept() -> None:
    found = await printed("chatty", more=LONGEST_PRINTED * 2)
    text = found["s0"] or ""
    assert text.startswith("…xxx")
    assert text.endswith("x\nnoted\nscoring s0")
    assert len(text) <= LONGEST_PRINTED + len("…\nscoring s0")
