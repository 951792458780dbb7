"""What only some runs have to tell: edits of a compression, and a Pareto front; in every format."""

from __future__ import annotations

import re

import pytest

from clients.reports.compressions import compression_text
from clients.reports.facts import RunFacts
from clients.reports.history.entries import report_json
from clients.reports.html import html
from clients.reports.markdown import markdown
from clients.reports.text.boxes import Verbosity, box
from ratchet.prompts import Modification
from tests.support.html_reports import HtmlReport
from tests.support.report_examples import facts
from workflows.model.run.compression_report import Compression, EditReport
from workflows.model.run.decisions import FrontMember
from workflows.model.run.run_result import Confirmation
from workflows.model.spec.judgement import Verdict
from workflows.model.trial import Purpose, Split
from workflows.rules.scoring.slices import Slice, Slices


def edit(path: str, tokens: int, *, kept: bool, broke: int | None = None, reason: str = "alone: not worse") -> EditReport:
    rate = None if broke is None else 0.6
    return EditReport(
        section_path=path,
        strategy="ablation",
        token_reduction=tokens,
        kept=kept,
        pass_rate=rate,
        regression_count=broke,
        reason=reason,
    )


COMPRESSION = Compression(
    modifications=(Modification(section_path="rules", original_hash="h", proposed_body="shorter", token_reduction=71),),
    edits=(
        edit("rules", 50, kept=True, broke=0),
        edit("role", 30, kept=False, broke=1, reason="alone: worse than <b>"),
        edit("tail", 21, kept=True),
    ),
    tokens_before=95,
    tokens_after=24,
    total_token_reduction=71,
    confirmed=True,
    has_modifications=True,
)


def compressed(compression: Compression = COMPRESSION) -> RunFacts:
    run = facts([0.8, 0.8])
    assert run.result is not None
    return run.model_copy(update={"result": run.result.model_copy(update={"compression": compression})})


def with_front(members: int = 2) -> RunFacts:
    run = facts([0.5, *(0.6 + n / 100 for n in range(members))])
    front = tuple(
        FrontMember(
            candidate_id=one.candidate_id,
            gains={"label": 0.1 + one.number / 100, "cost": -0.002 * one.number},
            verdicts={"label": Verdict.BETTER, "cost": Verdict.NOT_WORSE},
        )
        for one in run.iterations[1:]
    )
    *before, last = run.rounds
    return run.model_copy(update={"rounds": (*before, last.model_copy(update={"pareto_front": front}))})


def rows(text: str) -> list[str]:
    return [line.strip("║").rstrip() for line in text.splitlines()]


def test_a_compression_is_told_in_tokens_with_every_edit_and_what_became_of_it() -> None:
    told = rows(box(compressed()))
    assert "  Compressed:       95 → 24 tokens (-74.74%), 2 of 3 edits kept;" in told
    assert "    + rules, ablation: 50 tokens, passed 60.0% alone; alone: not" in told
    assert "    - role, ablation: 30 tokens, passed 60.0% alone, 1 sample" in told
    assert "    + tail, ablation: 21 tokens; alone: not worse" in told


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"confirmed": False}, "2 of 3 edits kept; NOT confirmed"),
        ({"confirmed": None}, "2 of 3 edits kept"),
        ({"has_modifications": False}, "none of 3 edits kept; 95 tokens stay"),
        ({"edits": ()}, "nothing was found that could be shorter"),
    ],
)
def test_what_was_not_compressed_or_not_confirmed_is_told(changes: dict[str, object], words: str) -> None:
    assert compression_text(COMPRESSION.model_copy(update=changes)).endswith(words)


def test_markdown_and_the_page_tell_edits_too_and_their_reasons_are_text() -> None:
    text, page = markdown(compressed()), HtmlReport(html(compressed(), {}))
    for told in (text, page.figures["Compressed"]):
        assert "95 → 24 tokens (-74.74%)" in told
    assert "alone: worse than &lt;b&gt;" in text
    assert text.count("\n- ✅ ") == 2
    assert [edit["kept"] for edit in page.words["edits"]] == [True, False, True]
    assert page.words["edits"][1]["text"].endswith("alone: worse than <b>")


def test_the_front_is_told_with_every_gain_and_its_verdict() -> None:
    run = with_front()
    told = rows(box(run))
    start = told.index("  Pareto front, gains over the baseline:")
    one = run.iterations[1].candidate_id
    assert told[start + 1] == f"    1 {one}: label +0.11 (better), cost -0.002 (not worse)"
    assert "Pareto front" in markdown(run)
    assert f"| 1 {one} | +0.11 (better) | -0.002 (not worse) |" in markdown(run)
    assert "Pareto" not in box(facts([0.5, 0.6])) + markdown(facts([0.5, 0.6]))


def test_a_summary_lists_a_few_and_a_full_report_all() -> None:
    run = with_front(12)
    assert "and 4 more; --verbosity full lists them" in box(run)
    full = box(run, Verbosity.FULL)
    assert len(re.findall(r"║    \d+ r\d+-", full)) == 12
    assert "more;" not in full


def test_slices_are_told_in_every_format_of_a_full_report() -> None:
    parts = (Slice(name="<i>de</i>", samples=12, baseline=0.5, best=0.75), Slice(name="en", samples=3, baseline=0.5))
    run = facts([0.5, 0.6]).model_copy(update={"slices": Slices(split=Split.TEST, slices=parts, left_out={"tags": 2})})
    assert any(row.split() == ["<i>de</i>", "(12)", "0.50", "→", "0.75"] for row in rows(box(run, Verbosity.FULL)))
    text = markdown(run, Verbosity.FULL)
    assert "| &lt;i&gt;de&lt;/i&gt; | 12 | 0.50 | 0.75 |" in text
    assert "…and 2 more values of tags." in text
    assert "Slices" not in box(run) + markdown(run)
    dataset = run.request.dataset.model_copy(update={"slices": ["input.language"]})
    asked = run.model_copy(update={"request": run.request.model_copy(update={"dataset": dataset})})
    assert "Slices" in box(asked) and "Slices" in markdown(asked)
    assert "Slices" in box(run.model_copy(update={"slices_asked": True}))
    assert "Slices" not in box(asked, Verbosity.MINIMAL) + markdown(asked, Verbosity.MINIMAL)


def test_baseline_and_winner_are_told_as_means_with_their_intervals() -> None:
    run = facts([0.5, 0.8])
    assert run.result is not None
    result = run.result.model_copy(update={"confirmation": Confirmation(baseline_score=850.0, winner_score=905.0)})
    baseline, winner = [
        one.model_copy(update={"purpose": Purpose.CONFIRMATION, "score": score, "low": score - 95, "high": score + 95})
        for one, score in zip(run.iterations, (850.0, 905.0), strict=True)
    ]
    run = run.model_copy(update={"result": result, "further": (winner, baseline)})
    told = "850.00 [755.00, 945.00] → 905.00 [810.00, 1000.00], 95% CI"
    assert told in " ".join(" ".join(rows(box(run))).split()) and told in markdown(run).replace("\\", "")
    assert [mean["score"] for mean in report_json(run)["confirmed"]] == [850.0, 905.0]
    alone = run.model_copy(update={"further": (baseline,)})
    assert "850.00 [755.00, 945.00], 95% CI" in " ".join(rows(box(alone)))
    assert "Means" not in box(facts([0.5, 0.8]))


def test_everything_is_in_the_json() -> None:
    assert report_json(compressed())["compression"]["tokens_after"] == 24
    assert report_json(with_front())["pareto_front"][0]["gains"]["cost"] == -0.002
