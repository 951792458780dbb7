"""A run that teaches a prompt words; its texts are full of markup."""

from __future__ import annotations

from typing import Any

HOSTILE = "</pre><script>window.obeyed = true</script><b onclick='window.obeyed = true'>bold</b>"
PROMPT = "\n".join(
    ["You know words.", HOSTILE, *(f"Line {n} says nothing." for n in range(12)), *(f"Know word-{n:02d}." for n in range(4))]
)


def word_spec(**parts: Any) -> dict[str, Any]:
    """A run that teaches a prompt words: every candidate knows some more, and forgets one."""
    items = [
        {
            "id": f"sample-{n:02d}",
            "input": {"word": f"word-{n:02d}", "language": "en" if n % 3 else "de"},
            "expected": f"word-{n:02d}",
            "tags": ["<i>even</i>" if n % 2 == 0 else "odd"],
        }
        for n in range(60)
    ]
    return {
        "name": "words",
        "configuration": {"prompt": {"value": PROMPT, "change": "text", "max_length": 4000}, "temperature": 0.5},
        "target": {"kind": "python", "ref": "plugged:vocabulary"},
        "dataset": {"items": items, "splits": {"validation": 0.7, "test": 0.3}},
        "scorers": [{"kind": "exact", "name": "known"}],
        "objective": {"metric": "known"},
        "optimizer": {"name": "refine", "proposer": {"kind": "python", "ref": "plugged:teaching"}},
        "judgement": {"objectives": [{"measure": "tokens", "direction": "minimize"}]},
        "stop": {"max_rounds": 3, "no_improvement": 0},
        "budget": {"cost": 5, "samples": 1000},
        "seed": 7,
    } | parts
