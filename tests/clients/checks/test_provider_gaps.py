"""What a model's provider does not have is told before a run is started, with the field that asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.checked_specs import checked

PICTURE = {"$file": "a.png"}
SYSTEM = {"role": "system", "content": "{{factors.prompt}}"}
USER = {"role": "user", "content": "{{input.q}}"}
CLAUDE, TITAN, GEMINI = "anthropic/claude-opus-4-1", "bedrock/amazon.nova-pro-v1:0", "google/gemini-2.5-pro"
NO_SEEDS = "which has no seeds; take it out, or name a model of another provider"
NO_SHAPE = "which has no JSON without a schema; give one"
JSON = {"type": "json_object"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "notes.txt").write_text("Be kind.")


async def told(
    folder: Path,
    model: str,
    *,
    messages: Any = (SYSTEM, USER),
    factors: Any = None,
    given: Any = 1,
    rubric: Any = None,
    **target: Any,
) -> list[tuple[str, str]]:
    """What check says of a spec, with how grave it is."""
    judged = {"scorers": [{"kind": "rubric", "name": "r", "rubric": "Good.", **rubric}], "objective": "r"} if rubric else {}
    spec = {
        "name": "t",
        "configuration": {"prompt": {"value": "Answer yes", "change": "text"}, **(factors or {})},
        "target": {"kind": "chat", "model": model, "messages": [*messages], **target},
        "dataset": {"items": [{"input": {"q": given}, "expected": 1}], "splits": "none"},
        "objective": "exact",
        "optimizer": {"proposer": {"kind": "noop"}},
        **judged,
    }
    found = (await checked(folder, yaml.safe_dump(spec))).findings
    assert all(finding.line is not None for finding in found)
    return [(finding.severity, finding.message) for finding in found]


@pytest.mark.parametrize("model", [CLAUDE, TITAN])
async def test_a_parameter_that_is_not_sent_is_a_warning(tmp_path: Path, model: str) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    left_out = {"target.parameters.response_format": NO_SHAPE, "target.parameters.seed": NO_SEEDS}
    for form in (JSON, {"type": "json_schema"}):
        found = await told(tmp_path, model, parameters={"seed": 1, "response_format": form, "top_p": 1})
        assert found == [("warning", f"{field}: is not sent to {model}, {why}") for field, why in left_out.items()]
    assert await told(tmp_path, model, parameters={"response_format": schema}) == []
    assert await told(tmp_path, "gpt-5-mini", parameters={"seed": 1, "response_format": JSON}) == []
    assert await told(tmp_path, GEMINI, parameters={"seed": 1, "response_format": JSON}) == []


async def test_so_is_one_of_a_factor_of_a_judge_and_of_a_simulated_user(tmp_path: Path) -> None:
    seeds = {"seed": {"value": 1, "change": "structured", "type": "choice", "choices": [1, 2]}}
    [(_, of_factor)] = await told(tmp_path, CLAUDE, factors=seeds)
    assert of_factor == f"configuration.seed: is not sent to {CLAUDE}, {NO_SEEDS}"
    models = {"model": {"value": "gpt-5-mini", "change": "structured", "type": "choice", "choices": ["gpt-5-mini", CLAUDE]}}
    [(_, of_choice)] = await told(tmp_path, "{{factors.model}}", factors=models, parameters={"seed": 1})
    assert of_choice == f"target.parameters.seed: is not sent to {CLAUDE}, {NO_SEEDS}"
    of_judge = await told(tmp_path, "m", rubric={"model": CLAUDE, "response_format": "json_object", "parameters": {"seed": 1}})
    assert of_judge == [
        ("warning", f"scorers[0].parameters.seed: is not sent to {CLAUDE}, {NO_SEEDS}"),
        ("warning", f"scorers[0].response_format: is not sent to {CLAUDE}, {NO_SHAPE}"),
    ]
    user = {"kind": "model", "model": CLAUDE, "goal": "know"}
    [(_, of_user)] = await told(tmp_path, "m", kind="agent", user={**user, "seed": 5})
    assert of_user == f"target.user.seed: is not sent to {CLAUDE}, {NO_SEEDS}"
    assert await told(tmp_path, "m", kind="agent", user=user) == [], "who states none misses none"


@pytest.mark.parametrize("model", [CLAUDE, TITAN, GEMINI])
async def test_a_file_in_a_system_message_is_refused_where_only_text_is_taken(tmp_path: Path, model: str) -> None:
    where = f"in a system message, where {model} takes only text; show it in a user message"
    shown = ({"role": "system", "content": "Look: {{input.q}}"}, USER)
    of_sample = f"target.messages[0].content: shows the file of dataset.items[0] ({{{{input.q}}}}) {where}"
    assert await told(tmp_path, model, messages=shown, given=PICTURE) == [("error", of_sample)]
    assert await told(tmp_path, model, given=PICTURE) == [], "the user's message may show it"
    assert await told(tmp_path, model, messages=shown, given={"$file": "notes.txt"}) == [], "a text file is text"
    assert await told(tmp_path, "gpt-5-mini", messages=shown, given=PICTURE) == []
    by_way = {"prompt": {"value": "See {{factors.logo}}", "change": "text"}, "logo": PICTURE}
    of_factor = f"target.messages[0].content: shows the file of configuration.logo {where}"
    assert await told(tmp_path, model, factors=by_way) == [("error", of_factor)]
    spliced = ({"splice": "{{input.q}}"},)
    [(_, of_splice)] = await told(
        tmp_path, model, messages=spliced, given=[{"role": "system", "content": [{"type": "image_url", "image_url": "x"}]}]
    )
    assert of_splice == f"target.messages[0].splice: shows the file of dataset.items[0] ({{{{input.q}}}}) {where}"
    talk = [{"role": "system", "content": "Hi."}, {"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]
    assert await told(tmp_path, model, messages=spliced, given=talk) == []
