"""Text that looks like something else stays text: placeholders in samples, Markdown and HTML in names, values and reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.hostile_harness import Arena, as_json, gated, measuring, spec

HOSTILE: Final = "a | b\n|---|---|\n| **Status** | <script>alert(1)</script> `code` [x](javascript:1) {{factors.prompt}}"


async def details_of(arena: Arena, run_id: str) -> str:
    metadata: Any = await arena.client.get_workflow_handle(run_id).query("__temporal_workflow_metadata")
    text = metadata["currentDetails"] if isinstance(metadata, dict) else metadata.current_details
    return str(text)


async def test_a_placeholder_in_a_sample_is_plain_text(arena: Arena) -> None:
    """A sample's text is put in as it is; what it contains is not substituted again."""
    end = await arena.run(
        [
            as_json(
                spec(
                    configuration={"prompt": {"value": "secret instructions", "change": "text"}},
                    target={
                        "kind": "chat",
                        "model": "simulated-echo",
                        "base_url": arena.base_url,
                        "messages": [{"role": "user", "content": "{{factors.prompt}} {{input.text}}"}],
                    },
                    dataset={
                        "items": [{"input": {"text": "{{factors.prompt}} {{input.nothing}} {{nonsense}}"}}],
                        "splits": "none",
                    },
                    scorers=[{"kind": "contains", "name": "height", "values": ["a"]}],
                    optimizer={"proposer": {"kind": "noop"}},
                    execution={"sample_timeout": "5s"},
                    stop={"max_rounds": 1, "no_improvement": 0},
                )
            )
        ],
        "hostile-placeholder",
    )
    assert end.status == "completed", str(end)


async def test_markdown_and_html_do_not_break_the_details(arena: Arena, tmp_path: Path) -> None:
    gate = tmp_path / "open"
    run = gated(gate, stop={"max_rounds": 1000, "no_improvement": 0})
    handle = await arena.start([as_json(run)], "hostile-details")
    await measuring(handle)
    await handle.signal("stop_early", HOSTILE)
    gate.touch()
    await arena.finish(handle)
    shown = await details_of(arena, "hostile-details")
    lines = shown.splitlines()
    assert len(lines) == 8, shown
    for line in lines:
        assert line.startswith("|")
        assert line.replace("\\|", "").count("|") == 3, line
    assert "<script>" not in shown
    assert "alert(1)" in shown


async def test_hostile_words_of_a_target_do_not_break_the_details(arena: Arena) -> None:
    configuration = {"x": 1, "deed": "raises markdown", "y": {"value": False, "change": "structured", "type": "flag"}}
    end = await arena.run(
        [as_json(spec(configuration=configuration, target={"kind": "python", "ref": "misbehaving:target"}))], "hostile-words"
    )
    assert end.status == "failed", str(end)
    shown = await details_of(arena, "hostile-words")
    assert len(shown.splitlines()) == 8, shown
    assert "<script>" not in shown


@pytest.mark.parametrize("text", [HOSTILE, "'; DROP TABLE runs; --", "\u202e\u200b\ufeff", "\x1b[31mred", "🦑" * 1000])
async def test_any_text_may_be_a_prompt_and_a_sample(text: str, arena: Arena) -> None:
    prompt = text.replace("{{factors.prompt}}", "")
    run = spec(
        configuration={**spec()["configuration"], "prompt": prompt},
        dataset={"items": [{"id": text[:200], "input": {text[:50]: text}, "tags": [text]}], "splits": "none"},
    )
    end = await arena.run([as_json(run)], f"hostile-text-{abs(hash(text))}")
    assert end.status == "completed", str(end)
    async with arena.database.connection() as connection:
        stored = await connection.fetchval(
            "SELECT s.item_id FROM samples s JOIN runs r USING (dataset_id) WHERE r.run_id = $1", end.run_id
        )
    assert stored == text[:200]
