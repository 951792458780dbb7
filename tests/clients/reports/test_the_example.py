"""The example of the design document, character by character: what it prints, Ratchet prints."""

from __future__ import annotations

import yaml

from clients.reports.history.files import history_text
from clients.reports.text.boxes import Verbosity, box
from clients.reports.text.progress_lines import progress_lines
from tests.support.report_examples import BETTER, INITIAL, NO_IMPROVEMENT, facts, first_block, the_example


def as_in_the_document(text: str) -> str:
    """The box without the block that leads: that one says how sure its figures are, which the document's do not."""
    heading, _, *others = text.split("╠")
    return "╠".join([heading, *others])


def test_the_box_leads_with_the_confirmed_figure() -> None:
    for verbosity in Verbosity:
        assert first_block(box(the_example(), verbosity)).startswith(
            "Better: 0.85 → 0.95, +0.10 (95% CI +0.01…+0.19, p = 0.01), on 40 held-back samples In the search: 0.85 → 0.95, r7-"
        )


def test_the_minimal_box_of_the_document() -> None:
    assert (
        as_in_the_document(box(the_example(), Verbosity.MINIMAL))
        == """\
╔══════════════════════════════════════════════════════════════════╗
║  OPTIMIZE: shopping-assistant / optimize-system-prompt           ║
╠══════════════════════════════════════════════════════════════════╣
║  Treatment factor: systemPrompt                                  ║
║  Best value:                                                     ║
║    You are a knowledgeable shopping assistant. When helping      ║
║    users:                                                        ║
║    1. Consider their stated budget                               ║
║    2. Prioritize highly-rated products                           ║
║    3. Mention key specifications relevant to their query         ║
╚══════════════════════════════════════════════════════════════════╝"""
    )


def test_the_summary_box_of_the_document() -> None:
    assert (
        as_in_the_document(box(the_example(), Verbosity.SUMMARY))
        == """\
╔══════════════════════════════════════════════════════════════════╗
║  OPTIMIZE: shopping-assistant / optimize-system-prompt           ║
╠══════════════════════════════════════════════════════════════════╣
║  Treatment factor: systemPrompt                                  ║
║  Fixed factors:    model=gpt-4, temperature=0.7                  ║
║  Objective:        MAXIMIZE success rate                         ║
╠══════════════════════════════════════════════════════════════════╣
║  Iterations:       12                                            ║
║  Best iteration:   7                                             ║
║  Score:            0.85 → 0.95 (+11.76%)                         ║
║  Termination:      No improvement in last 5 iterations           ║
╠══════════════════════════════════════════════════════════════════╣
║  Best value:                                                     ║
║    You are a knowledgeable shopping assistant. When helping      ║
║    users:                                                        ║
║    1. Consider their stated budget                               ║
║    2. Prioritize highly-rated products                           ║
║    3. Mention key specifications relevant to their query         ║
╚══════════════════════════════════════════════════════════════════╝"""
    )


def test_the_progress_lines_of_the_document() -> None:
    scores = [0.85, 0.88, 0.86, 0.90, 0.89, 0.91, 0.93, 0.95, 0.94, 0.92, 0.90, 0.91, 0.92]
    lines = progress_lines(facts(scores))

    assert lines[:6] == [
        "OPTIMIZE [shopping-assistant] Starting: treatmentFactor=systemPrompt, objective=MAXIMIZE",
        "OPTIMIZE [shopping-assistant] Iteration 0: score=0.85 (best=0.85)",
        "OPTIMIZE [shopping-assistant] Iteration 1: score=0.88 (best=0.88) ↑ NEW BEST",
        "OPTIMIZE [shopping-assistant] Iteration 2: score=0.86 (best=0.88)",
        "OPTIMIZE [shopping-assistant] Iteration 3: score=0.90 (best=0.90) ↑ NEW BEST",
        "OPTIMIZE [shopping-assistant] Iteration 4: score=0.89 (best=0.90)",
    ]
    assert lines[-2:] == [
        "OPTIMIZE [shopping-assistant] Iteration 12: score=0.92 (best=0.95)",
        "OPTIMIZE [shopping-assistant] Terminated: No improvement in last 5 iterations",
    ]


def test_the_yaml_of_the_document() -> None:
    text = history_text(the_example())
    document = yaml.safe_load(text)

    expected = {
        "useCaseId": "shopping-assistant",
        "experimentId": "optimize-system-prompt",
        "treatmentFactorName": "systemPrompt",
        "treatmentFactorType": "String",
        "fixedFactors": {"model": "gpt-4", "temperature": 0.7},
        "objective": "MAXIMIZE",
        "scorerDescription": "Success rate (higher is better)",
        "mutatorDescription": "LLM-based string mutator (max length: 2000)",
        "terminationPolicyDescription": "Max 20 iterations OR No improvement for 5 iterations",
        "startTime": "2026-01-16T10:30:00Z",
        "endTime": "2026-01-16T10:45:30Z",
        "totalDurationMs": 930000,
        "scoreImprovement": 0.10,
        "scoreImprovementPercent": 11.76,
        "totalIterations": 12,
    }
    assert {name: document[name] for name in expected} == expected
    first, best = document["iterations"][0], document["bestIteration"]
    suit = {"model": "gpt-4", "temperature": 0.7, "systemPrompt": INITIAL}
    assert first["factorSuit"] == suit and list(first["factorSuit"]) == list(suit)
    assert first["iterationNumber"] == 0 and first["score"] == 0.85 and first["status"] == "SUCCESS"
    assert first["statistics"].items() >= {"sampleCount": 20, "successRate": 0.85, "totalTokens": 9000}.items()
    assert best["iterationNumber"] == 7 and best["score"] == 0.95
    assert best["factorSuit"]["systemPrompt"] == BETTER
    assert document["terminationReason"].items() >= {"cause": "NO_IMPROVEMENT", "message": NO_IMPROVEMENT}.items()
    assert 'useCaseId: "shopping-assistant"\n' in text
    assert "objective: MAXIMIZE\n" in text
    assert "    status: SUCCESS\n" in text
    assert (
        "    systemPrompt: |-\n"
        "      You are a knowledgeable shopping assistant. When helping users:\n"
        "      1. Consider their stated budget\n" in text
    )
