"""Chat targets and proposers against endpoints that lie, refuse or are not there."""

from __future__ import annotations

from typing import Any, Final

import pytest
import pytest_asyncio

from tests.support.hostile_harness import LIES, Arena, Ended, as_json, spec

MODEL: Final = "simulated-echo"
PROMPT: Final = {"value": "Answer {{input}}.", "change": "text"}
NOWHERE: Final = "http://127.0.0.1:9/v1"


def asks(about: str, base_url: str, model: str = MODEL, **target: Any) -> dict[str, Any]:
    """A run whose model server treats every request as its text says."""
    return spec(
        configuration={"prompt": PROMPT},
        target={
            "kind": "chat",
            "model": model,
            "base_url": base_url,
            "messages": [{"role": "system", "content": "{{factors.prompt}}"}, {"role": "user", "content": about}],
            **target,
        },
        scorers=[{"kind": "contains", "name": "height", "values": ["a"]}],
        optimizer={"proposer": {"kind": "noop"}},
        execution={"sample_timeout": "5s"},
        stop={"max_rounds": 1, "no_improvement": 0},
    )


SAID: Final[dict[str, tuple[str, ...]]] = {
    "malformed_json": ("2 of the baseline's 2 samples failed", "not a JSON object"),
    "empty_choices": ("2 of the baseline's 2 samples failed", "no choices"),
    "truncated_stream": ("only 0 of 2 samples have an answer", "broke off"),
    "null_content": ("2 of the baseline's 2 samples failed", "empty answer"),
    "locked": ("HTTP 401", "check OPENAI_API_KEY"),
    "missing": ("HTTP 404", "check the model's name"),
    "unknown-model": ("no-such-model", "check the model's name"),
    "unreachable": ("only 0 of 2 samples have an answer", "127.0.0.1:9/v1 cannot be reached"),
    "no-endpoint": ("cannot be reached",),
    "no-key": ("will not send its key there", "RATCHET_MODEL_URLS"),
    "no-url": ("not a url at all",),
}


CAME: Final = ("malformed_json", "empty_choices", "null_content")
"""Answers that came and were paid for: they are stored as failed, so that nobody asks for them again."""


def cases(base_url: str) -> dict[str, dict[str, Any]]:
    lies = {lie: asks(f"lie {lie}", base_url, stream=lie == "truncated_stream") for lie in LIES}
    return lies | {
        "locked": asks("be locked", base_url),
        "missing": asks("be missing", base_url),
        "unknown-model": asks("hello", base_url, model="no-such-model"),
        "unreachable": asks("hello", NOWHERE),
        "no-endpoint": asks("hello", "http://127.0.0.1:0"),
        "no-key": asks("hello", "http://example.invalid/v1"),
        "no-url": asks("hello", "not a url at all"),
    }


def proposes(model: str, base_url: str) -> dict[str, Any]:
    parts = asks("hello", base_url)
    proposer = {"kind": "model", "model": model, "base_url": base_url}
    return parts | {"configuration": {"prompt": PROMPT}, "optimizer": {"name": "refine", "proposer": proposer}}


def sent(base_url: str, target_url: str) -> dict[str, dict[str, Any]]:
    refused = proposes("no-such-model", base_url)
    away = proposes(MODEL, NOWHERE)
    away["target"]["base_url"] = target_url
    return {"proposer-refused": refused, "proposer-away": away}


@pytest_asyncio.fixture(scope="module")
async def ended(arena: Arena) -> dict[str, Ended]:
    everything = cases(arena.base_url) | sent(arena.base_url, arena.base_url)
    return await arena.run_all({name: (as_json(run),) for name, run in everything.items()})


@pytest.mark.parametrize("name", SAID)
async def test_an_endpoint_that_gives_no_answer_fails_the_baseline_with_its_reason(name: str, ended: dict[str, Ended]) -> None:
    end = ended[name]
    assert (end.status, end.type) == ("failed", "baseline_failed"), str(end)
    for part in SAID[name]:
        assert part in end.message, str(end)
    assert end.stored["status"] == "failed"
    assert end.rows.get("answers", 0) == (2 if name in CAME else 0)


async def test_rubbish_in_the_usage_costs_nothing_and_ends_nothing(ended: dict[str, Ended]) -> None:
    end = ended["nan_usage"]
    assert end.status == "completed", str(end)
    assert end.result["spend"]["samples"] == 4
    assert end.result["spend"]["cost"] == 0


@pytest.mark.parametrize(
    ("name", "said"), [("proposer-refused", "check the model's name"), ("proposer-away", "cannot be reached")]
)
async def test_a_proposer_that_is_not_there_ends_the_run_with_the_best_so_far(
    name: str, said: str, ended: dict[str, Ended]
) -> None:
    end = ended[name]
    assert (end.status, end.type) == ("completed", "proposal_failure"), str(end)
    assert said in end.message
    assert end.result["best_score"] == end.result["baseline_score"]
