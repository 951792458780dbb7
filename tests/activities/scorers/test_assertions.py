"""Declarative assertions: likeness, limits, negation, combinations, and the part of an output that is looked at."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from activities.plugins.loader import Plugins
from activities.scorers import ScorerTools, details_of_a_failure
from activities.scorers.grades import Grade, turned_around
from activities.scorers.similarity import cosine
from ratchet import Output, Sample, Score
from tests.support.scoring import SCORER, grade, scored
from tests.support.suite_building import PLUGINS
from workflows.rules.scoring.objective_score import ScoringFailed

LONG = "word " * 200


@pytest.fixture(scope="module")
async def tools() -> AsyncIterator[ScorerTools]:
    tools = ScorerTools(Plugins([PLUGINS]))
    yield tools
    await tools.matching.close()


@pytest.mark.parametrize(
    ("spec", "output", "expected", "worth"),
    [
        ({"kind": "equals"}, "bug", "bug", 1),
        ({"kind": "equals"}, "bug", "billing", 0),
        ({"kind": "starts_with"}, "Dear customer, …", "Dear", 1),
        ({"kind": "starts_with"}, "dear customer, …", "Dear", 0),
        ({"kind": "starts_with", "ignore_case": True}, "dear customer, …", "Dear", 1),
        ({"kind": "starts_with"}, "Hi", ["Dear", "Hi"], 1),
        ({"kind": "starts_with", "values": ["Hello"]}, "Oh, Hello", None, 0),
        ({"kind": "classification"}, " Billing\n", "billing", 1),
        ({"kind": "classification", "ignore_case": False}, "Billing", "billing", 0),
        ({"kind": "classification"}, "7", 7, 1),
        ({"kind": "levenshtein"}, "kitten", "sitting", 1 - 3 / 7),
        ({"kind": "levenshtein"}, "abc", "ABC", 0),
        ({"kind": "levenshtein", "ignore_case": True}, "abc", "ABC", 1),
        ({"kind": "levenshtein"}, "", "abc", 0),
        ({"kind": "levenshtein"}, "", "", 1),
        ({"kind": "levenshtein"}, "grey", ["colour", "gray"], 0.75),
        # as the package rouge-score computes it
        ({"kind": "rouge", "variant": "rouge1"}, "the cat sat on the mat", "the cat is sitting on the mat", 0.769231),
        ({"kind": "rouge", "variant": "rouge2"}, "the cat sat on the mat", "the cat is sitting on the mat", 0.545455),
        ({"kind": "rouge", "variant": "rouge1"}, "police killed the gunman", "the gunman killed police", 1.0),
        ({"kind": "rouge", "variant": "rouge2"}, "police killed the gunman", "the gunman killed police", 0.333333),
        ({"kind": "rouge"}, "police killed the gunman", "the gunman killed police", 0.5),
        ({"kind": "rouge", "variant": "rouge2"}, "a b a b c", "a b c a", 0.571429),
        (
            {"kind": "rouge", "variant": "rouge1"},
            "Refunds take five days.",
            "A refund takes up to five working days!",
            0.333333,
        ),
        ({"kind": "rouge"}, "größer über", "Größer, über!", 1.0),
        ({"kind": "rouge", "variant": "rouge2"}, "x", "x y", 0),
        # as sacrebleu computes it
        ({"kind": "bleu"}, "the cat sat on the mat", "the cat sat on a mat", 0.537285),
        ({"kind": "bleu"}, "the cat sat on the mat", ["a dog", "the cat sat on the mat"], 1),
        ({"kind": "bleu"}, "", "the cat", 0),
    ],
)
async def test_what_an_output_is_worth(
    tools: ScorerTools, spec: dict[str, Any], output: Any, expected: Any, worth: float
) -> None:
    assert (await scored(tools, spec, output, expected)).value == pytest.approx(worth, abs=1e-6)


@pytest.mark.parametrize(
    ("extract", "output", "expected", "worth"),
    [
        ({"regex": r"Answer: (\w+)"}, "Well.\nAnswer: bug\nSo it is.", "bug", 1),
        ({"regex": r"\d+"}, "It takes 14 days.", 14, 1),
        ({"regex": r"Answer: (\w+)"}, "bug", "bug", 0),
        ({"json_path": "$.label"}, '{"label": "bug", "why": "it crashes"}', "bug", 1),
        ({"json_path": "$.answers[0].label"}, {"answers": [{"label": "bug"}]}, "bug", 1),
        ({"json_path": "answers[-1]['a label']"}, {"answers": [{}, {"a label": 3}]}, 3, 1),
        ({"json_path": "$.label"}, '```json\n{"label": "bug"}\n```', "bug", 1),
        ({"json_path": "$.label"}, "bug", "bug", 0),
        ({"json_path": "$.label"}, '{"labels": []}', "bug", 0),
        ({"json_path": "$.a"}, '{"a": NaN}', "NaN", 0),
        ({"json_path": "$.a[5]"}, '{"a": [1]}', 1, 0),
        ({"json_path": "$.a.b"}, '{"a": 1}', 1, 0),
        ({"json_path": "$.a"}, '{"a": "\\ud800"}', "x", 0),
        ({"regex": r"(?s)\{.*\}", "json_path": "$.label"}, 'Sure! {"label": "bug"} Bye.', "bug", 1),
        ({"regex": "(x)?bug"}, "bug", "bug", 0),
    ],
)
async def test_only_a_part_may_be_scored(tools: ScorerTools, extract: Any, output: Any, expected: Any, worth: float) -> None:
    assert (await scored(tools, {"kind": "exact", "extract": extract}, output, expected)).value == worth


async def test_white_space_and_case_may_be_taken_away_first(tools: ScorerTools) -> None:
    spec = {"kind": "regex", "pattern": "bug", "full_match": True}
    assert (await scored(tools, spec, " BUG ")).value == 0
    assert (await scored(tools, {**spec, "extract": {"strip": True, "lower": True}}, " BUG ")).value == 1


async def test_an_output_without_the_part_fails_even_where_it_should_not_match(tools: ScorerTools) -> None:
    spec = {"kind": "contains", "values": ["sorry"], "not": True, "extract": {"json_path": "$.reply"}}
    assert (await scored(tools, spec, '{"reply": "Done."}')).value == 1
    missing = await scored(tools, spec, "Done.")
    assert (missing.value, missing.passed) == (0, False)
    assert missing.reason is not None
    assert missing.reason.startswith("the answer is not valid JSON")


class TestFeedback:
    @pytest.mark.parametrize(
        ("spec", "output", "expected", "reason"),
        [
            ({"kind": "exact"}, "bug", "billing", "expected billing, got bug"),
            ({"kind": "exact"}, "", "billing", "expected billing, got "),
            ({"kind": "classification"}, "Bug", "Billing", "expected billing, got bug"),
            ({"kind": "contains"}, "a", ["a", "b", "c"], "does not contain b, c"),
            ({"kind": "starts_with"}, "Hi there", "Dear", "starts with Hi there and not with Dear"),
            ({"kind": "rouge"}, "the cat", "the black cat sat", "lacks the words black, sat"),
            ({"kind": "rouge"}, "cat the", "the cat", "has the words in another order, or further ones; expected the cat"),
            ({"kind": "bleu"}, "the cat", "the black cat sat", "lacks the words black, sat"),
            ({"kind": "levenshtein"}, "grey", "gray", "expected gray, got grey"),
            ({"kind": "exact", "not": True}, "bug", "bug", "equals bug, and must not"),
            (
                {"kind": "contains", "values": ["sorry", "oh"], "mode": "any", "not": True},
                "sorry!",
                None,
                "contains sorry, and must not",
            ),
            ({"kind": "regex", "pattern": "a+", "not": True}, "aaa", None, "matches a+, and must not"),
            ({"kind": "json", "not": True}, "{}", None, "is valid JSON, and must not"),
            ({"kind": "levenshtein", "not": True}, "gray", "gray", "scores 1, and should not"),
        ],
    )
    async def test_it_says_what_is_wrong(
        self, tools: ScorerTools, spec: dict[str, Any], output: Any, expected: Any, reason: str
    ) -> None:
        assert (await scored(tools, spec, output, expected)).reason == reason

    async def test_of_long_texts_it_shows_where_they_part(self, tools: ScorerTools) -> None:
        score = await scored(tools, {"kind": "exact"}, LONG + "ends here", LONG + "goes on")
        assert score.reason is not None
        assert score.reason.startswith("differs from what is expected from character 1001 on: expected '")
        assert "goes on" in score.reason
        assert "ends here" in score.reason
        assert len(score.reason) < 400

    @pytest.mark.parametrize("spec", [{"kind": "exact", "not": True}, {"kind": "levenshtein"}, {"kind": "rouge", "not": True}])
    async def test_what_passes_without_a_fault_says_nothing(self, tools: ScorerTools, spec: dict[str, Any]) -> None:
        passing = "other" if spec.get("not") else "gray"
        score = await scored(tools, spec, passing, "gray")
        assert score.passed
        assert score.reason is None


class TestWhatAnAnswerTook:
    OUTPUT = Output("x", tokens=120, cost=0.25, latency_ms=800.0, ttft_ms=90.0)

    @pytest.mark.parametrize(
        ("spec", "value", "passed"),
        [
            ({"kind": "latency"}, 800.0, True),
            ({"kind": "latency", "at_most": 800}, 1.0, True),
            ({"kind": "latency", "at_most": 799}, 0.0, False),
            ({"kind": "latency", "at_most": 799, "not": True}, 1.0, True),
            ({"kind": "latency", "until": "first_token", "at_most": 100}, 1.0, True),
            ({"kind": "cost"}, 0.25, True),
            ({"kind": "cost", "at_most": 0.2}, 0.0, False),
            ({"kind": "tokens"}, 120.0, True),
            ({"kind": "tokens", "at_most": 120}, 1.0, True),
        ],
    )
    async def test_it_is_a_score(self, tools: ScorerTools, spec: dict[str, Any], value: float, passed: bool) -> None:
        given = await scored(tools, spec, self.OUTPUT)
        assert (given.value, given.passed) == (value, passed)

    async def test_feedback_says_both_numbers(self, tools: ScorerTools) -> None:
        given = await scored(tools, {"kind": "latency", "at_most": 500}, self.OUTPUT)
        assert given.reason == "took 800 ms, at most 500 ms are wanted"

    async def test_a_time_to_the_first_token_that_nobody_measured_is_no_score(self, tools: ScorerTools) -> None:
        with pytest.raises(ScoringFailed, match=r"target\.stream: true"):
            await scored(tools, {"kind": "latency", "until": "first_token"}, Output("x", latency_ms=1.0))


SHORT = {"kind": "regex", "name": "short", "pattern": "(?s).{0,10}", "full_match": True}
POLITE = {"kind": "contains", "name": "polite", "values": ["please"]}


class TestCombinations:
    @pytest.mark.parametrize(
        ("kind", "output", "worth"),
        [
            ("all_of", "please", 1),
            ("all_of", "please, and then some more", 0),
            ("any_of", "please, and then some more", 1),
            ("any_of", "this is long and rude", 0),
            ("mean_of", "please, and then some more", 0.5),
            ("mean_of", "please", 1),
        ],
    )
    async def test_all_any_and_mean(self, tools: ScorerTools, kind: str, output: str, worth: float) -> None:
        assert (await scored(tools, {"kind": kind, "scorers": [SHORT, POLITE]}, output)).value == worth

    async def test_a_mean_goes_by_weight(self, tools: ScorerTools) -> None:
        members = [{**SHORT, "weight": 3}, POLITE]
        assert (await scored(tools, {"kind": "mean_of", "scorers": members}, "short")).value == 0.75

    async def test_members_pass_by_their_own_threshold(self, tools: ScorerTools) -> None:
        near = {"kind": "levenshtein", "threshold": 0.8}
        spec = {"kind": "all_of", "scorers": [near]}
        assert (await scored(tools, spec, "grey", "gray")).value == 0
        assert (await scored(tools, {**spec, "scorers": [{**near, "threshold": 0.7}]}, "grey", "gray")).value == 1

    async def test_feedback_names_the_members_that_failed(self, tools: ScorerTools) -> None:
        spec = {"kind": "all_of", "scorers": [SHORT, POLITE]}
        assert (await scored(tools, spec, "now!")).reason == "polite: does not contain please"
        assert (await scored(tools, {**spec, "kind": "any_of"}, "now!")).reason is None

    async def test_they_nest_and_turn_around(self, tools: ScorerTools) -> None:
        either = {"kind": "any_of", "scorers": [SHORT, POLITE]}
        spec = {"kind": "all_of", "scorers": [{**either, "not": True}]}
        assert (await scored(tools, spec, "this is long and rude")).value == 1
        assert (await scored(tools, spec, "now!")).value == 0
        assert (await scored(tools, {**spec, "not": True}, "now!")).value == 1

    async def test_a_member_that_gives_several_scores_is_several_members(self, tools: ScorerTools) -> None:
        detailed = {"kind": "python", "ref": f"{PLUGINS}:detailed"}
        assert (await scored(tools, {"kind": "mean_of", "scorers": [detailed]}, "x")).value == pytest.approx(0.55)


class TestLabels:
    async def test_both_are_kept(self, tools: ScorerTools) -> None:
        given = await grade(tools, {"kind": "classification"}, "Bug ", "Billing")
        assert given.labels == ("bug", "billing")
        assert given.details()["labels"] == ["bug", "billing"]

    async def test_an_answer_that_is_no_label_is_kept_in_part(self, tools: ScorerTools) -> None:
        given = await grade(tools, {"kind": "classification"}, "I think " * 1000 + "\x00\ud800", "bug")
        assert given.labels is not None
        assert given.labels[0] is not None
        assert len(given.labels[0]) <= 200

    def test_a_failed_answer_has_the_one_it_would_have_needed(self) -> None:
        scorers = [
            SCORER.validate_python({"kind": "classification", "name": "label"}),
            SCORER.validate_python({"kind": "exact"}),
        ]
        assert details_of_a_failure(scorers, Sample("s", {}, "Bug")) == {"label": {"labels": [None, "bug"]}}


class TestWhatCannotBeScored:
    @pytest.mark.parametrize("kind", ["starts_with", "classification", "levenshtein", "rouge", "bleu"])
    async def test_a_sample_without_an_expected_value(self, tools: ScorerTools, kind: str) -> None:
        with pytest.raises(ScoringFailed, match=f"sample 's1' has no expected value, which scorer '{kind}' needs"):
            await scored(tools, {"kind": kind}, "x")

    async def test_an_empty_list_of_expected_texts(self, tools: ScorerTools) -> None:
        with pytest.raises(ScoringFailed, match="expects an empty list"):
            await scored(tools, {"kind": "rouge"}, "x", [])

    async def test_a_huge_output_does_not_stop_the_worker(self, tools: ScorerTools) -> None:
        for kind in ("levenshtein", "rouge", "bleu"):
            assert (await scored(tools, {"kind": kind}, "a b " * 200_000, "a c " * 200_000)).value < 1


TEXTS = st.text(max_size=40) | st.sampled_from(["the cat sat", "the cat", "{}", '{"a": [1, 2]}', "1,234.5", "-3e2", "nan"])
SPECS = st.sampled_from(
    [
        {"kind": "exact"},
        {"kind": "exact", "ignore_case": True},
        {"kind": "classification"},
        {"kind": "contains"},
        {"kind": "starts_with"},
        {"kind": "levenshtein"},
        {"kind": "rouge", "variant": "rouge1"},
        {"kind": "rouge", "variant": "rouge2"},
        {"kind": "rouge"},
        {"kind": "bleu"},
        {"kind": "bleu", "tokenize": "char"},
        {"kind": "json"},
        {"kind": "exact", "extract": {"json_path": "$.a"}},
        {"kind": "mean_of", "scorers": [{"kind": "rouge", "weight": 0.3}, {"kind": "levenshtein", "weight": 7}]},
        {"kind": "any_of", "scorers": [{"kind": "rouge", "not": True}, {"kind": "levenshtein"}]},
    ]
)
QUICKLY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICKLY
@given(spec=SPECS, output=TEXTS, expected=TEXTS, negate=st.booleans())
async def test_every_score_is_finite_and_between_0_and_1(
    tools: ScorerTools, spec: dict[str, Any], output: str, expected: str, negate: bool
) -> None:
    given = await scored(tools, {**spec, "not": negate}, output, expected)
    assert math.isfinite(given.value)
    assert 0.0 <= given.value <= 1.0


@QUICKLY
@given(spec=SPECS, output=TEXTS, expected=TEXTS)
async def test_not_turns_around_what_passes(tools: ScorerTools, spec: dict[str, Any], output: str, expected: str) -> None:
    plain = await scored(tools, spec, output, expected)
    turned = await scored(tools, {**spec, "not": True}, output, expected)
    if plain.reason is None or not plain.reason.startswith("the answer "):
        assert turned.value == pytest.approx(1.0 - plain.value)
        assert turned.passed is not plain.passed


@given(st.floats(-1e6, 1e6), st.booleans())
def test_turning_around_twice_changes_nothing(value: float, passed: bool) -> None:
    score = Score("s", value, passed, "because")
    twice = turned_around(turned_around(score))
    assert twice.value == pytest.approx(value, abs=1e-9)
    assert (twice.name, twice.passed) == ("s", passed)


@given(st.lists(st.tuples(st.floats(-1e308, 1e308), st.floats(-1e308, 1e308)), min_size=1, max_size=8))
def test_a_cosine_is_between_0_and_1(pairs: list[tuple[float, float]]) -> None:
    one, other = [a for a, _ in pairs], [b for _, b in pairs]
    assert 0.0 <= cosine(one, other) <= 1.0
    if 1e-300 < math.hypot(*one) < math.inf:
        assert cosine(one, one) == pytest.approx(1.0)


def test_details_name_what_scoring_took_only_where_it_took_something() -> None:
    assert Grade(Score("s", 1.0, True)).details() == {"passed": True, "reason": None}
    assert Grade(Score("s", 1.0, True), tokens=3, cost=0.5).details()["tokens"] == 3
