"""What lines are believed to be worth: learned from every candidate that carries them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.reflection_worlds import trial
from workflows.model.activities.computation import StoredTrial
from workflows.model.trial import Purpose, Split
from workflows.rules.reflection.line_effects import Prior, fit
from workflows.rules.reflection.measured_answers import evidence_of
from workflows.rules.reflection.recombination import composed

BASE = {"prompt": "Do it."}
PRIOR = Prior(line_mean=0.05, line_strength=20.0, widest=1.0)
"""Not the one in use, so that tuning it leaves these tests alone."""


def _with(*rules: str) -> dict[str, Any]:
    return {"prompt": "\n".join(["Do it.", *rules])}


def _means(share: float, size: int = 40) -> list[float]:
    return [float(place < share * size) for place in range(size)]


def _known_world() -> list[StoredTrial]:
    """`good` is worth 0.3, `bad` costs 0.2; no candidate has `good` alone."""
    return [
        trial("base", BASE, _means(0.4)),
        trial("a", _with("good", "bad"), _means(0.5), parents=["base"]),
        trial("b", _with("bad"), _means(0.2), parents=["base"]),
        trial("c", _with("good", "bad", "so-so"), _means(0.5), parents=["a"]),
        trial("d", _with("bad", "so-so"), _means(0.2), parents=["b"]),
    ]


def test_effects_of_a_known_world_are_found_and_put_together() -> None:
    model = fit(evidence_of(_known_world(), 1.0), PRIOR)
    effects = {key[2]: model.mean[place] for key, place in model.columns.items()}
    assert effects["good"] > 0.15
    assert effects["bad"] < -0.05
    assert abs(effects["so-so"]) < 0.1
    made = composed(model, 1, model.mean, ["prompt"])
    assert made.values["prompt"].split("\n")[:2] == ["Do it.", "good"]
    assert "bad" not in made.values["prompt"]


def test_a_line_that_is_not_worth_its_length_is_left_out() -> None:
    model = fit(evidence_of(_known_world(), 1.0), PRIOR)
    assert "so-so" in str(model.candidates[3].configuration["prompt"])
    texts = [composed(model, 3, abs(model.mean), ["prompt"], least).values.get("prompt", "as it is") for least in (0.0, 0.1)]
    assert texts[0] == "as it is"
    assert "good" in texts[1]
    assert "so-so" not in texts[1]


def test_where_less_is_better_the_same_world_is_turned_round() -> None:
    model = fit(evidence_of(_known_world(), -1.0), PRIOR)
    effects = {key[2]: model.mean[place] for key, place in model.columns.items()}
    assert effects["bad"] > 0 > effects["good"]


@pytest.mark.parametrize("factor", [1.0, 250.0, 1e-6])
def test_the_unit_of_the_score_makes_no_difference(factor: float) -> None:
    scaled = [
        trial(t.candidate_id, t.configuration, [factor * (m or 0) for m in t.sample_means], parents=t.parent_candidate_ids)
        for t in _known_world()
    ]
    plain, other = fit(evidence_of(_known_world(), 1.0), PRIOR), fit(evidence_of(scaled, 1.0), PRIOR)
    assert np.allclose(other.mean, factor * plain.mean, rtol=1e-6)


def test_a_replaced_text_is_worth_what_it_replaced_until_it_is_measured_well() -> None:
    trials = [
        trial("base", BASE, _means(0.4)),
        trial("new", {"prompt": "Something else.\nAltogether."}, [1.0], parents=["base"], replaced=["prompt"]),
        trial("newer", {"prompt": "Once more.\nAnew."}, _means(0.9), parents=["new"], replaced=["prompt"]),
    ]
    model = fit(evidence_of(trials, 1.0), PRIOR)
    base, new, newer = model.values()
    assert base < new < newer
    assert {key[0] for key in model.columns} == {"text"}
    assert composed(model, 2, model.mean, ["prompt"]).values == {}


def test_lines_are_not_carried_over_between_texts_that_have_nothing_in_common() -> None:
    trials = [
        trial("base", BASE, _means(0.4)),
        trial("rewritten", {"prompt": "Other.\nWords."}, _means(0.4), parents=["base"], replaced=["prompt"]),
        trial("changed", _with("good"), _means(0.9), parents=["base"], replaced=[]),
    ]
    model = fit(evidence_of(trials, 1.0), PRIOR)
    assert composed(model, 1, model.mean, ["prompt"]).values == {}
    assert "good" in composed(model, 0, model.mean, ["prompt"]).values["prompt"]


def test_lines_that_carry_placeholders_stay_whatever_they_seem_to_be_worth() -> None:
    base = {"prompt": "Answer {{input.q}}\nbad"}
    trials = [
        trial("base", base, _means(0.2)),
        trial("a", {"prompt": "Answer {{input.q}}"}, _means(0.8), parents=["base"]),
        trial("b", {"prompt": "bad"}, _means(0.9), parents=["base"]),
    ]
    model = fit(evidence_of(trials, 1.0), PRIOR)
    effects = np.full_like(model.mean, -1.0)
    assert composed(model, 0, effects, ["prompt"]).values == {"prompt": "Answer {{input.q}}"}


def test_what_many_rewritings_ask_for_is_believed_in_sooner() -> None:
    def trials(asked: list[str]) -> list[StoredTrial]:
        from workflows.rules.reflection.lines import mark

        names = [trial("base", BASE, _means(0.4))]
        for place, line in enumerate(asked):
            added = {"prompt": [mark(line)]}
            names.append(trial(f"c{place}", _with(line), [0.0, 1.0], parents=["base"], added=added))
        return names

    model = fit(evidence_of(trials(["often", "often", "often", "once"]), 1.0), PRIOR)
    effects = {key[2]: model.mean[place] for key, place in model.columns.items()}
    assert effects["often"] > effects["once"] > 0


def test_where_every_added_line_does_harm_a_new_one_is_expected_to() -> None:
    names = [str(number) for number in range(8)]
    trials = [trial("base", BASE, _means(0.8))]
    trials += [
        trial(f"c{many}", _with(*names[:many]), _means(0.8 - 0.1 * many), parents=["base"], replaced=[])
        for many in (2, 4, 6, 8)
    ]
    trials.append(trial("new", _with("hardly known"), [1.0, 1.0, 1.0, 1.0, 0.0], parents=["base"], replaced=[]))
    model = fit(evidence_of(trials, 1.0), replace(PRIOR, line_mean_sd=0.5))
    original = model.readings[0]["prompt"].native
    assert model.worth(model.mean, "prompt", original)["hardly known"] < 0
    assert model.worth(model.mean, "prompt", original | {"hardly known"})["hardly known"] > 0
    assert "hardly known" not in composed(model, 5, model.mean, ["prompt"]).values["prompt"]


def test_luck_beside_a_nearly_perfect_baseline_is_not_taken_for_a_lead() -> None:
    def lead(share: float, widest: float) -> float:
        lucky = trial("lucky", _with("x", "y"), [1.0] * 10, parents=["base"], replaced=[])
        evidence = evidence_of([trial("base", BASE, _means(share, 100)), lucky], 1.0)
        return fit(evidence, Prior(line_mean=0.0, line_mean_sd=0.001, widest=widest, residual=0.01)).lead(1, 0)

    assert lead(0.9, widest=0.1) < 0.25 < lead(0.9, widest=10.0)
    assert lead(0.3, widest=0.1) > 1.0


def test_values_that_are_no_text_have_effects_of_their_own() -> None:
    base = {"prompt": "Do it.", "temperature": 0.5}
    trials = [
        trial("base", base, _means(0.4)),
        trial("hot", {**base, "temperature": 1.0}, _means(0.2), parents=["base"]),
        trial("cold", {**base, "temperature": 0.0}, _means(0.8), parents=["base"]),
        trial("both", {"prompt": "Do it.\nWell.", "temperature": 0.0}, _means(0.8), parents=["cold"]),
    ]
    model = fit(evidence_of(trials, 1.0), PRIOR)
    effects = {key[2]: model.mean[place] for key, place in model.columns.items()}
    assert effects["1"] < 0 < effects["0"]


def test_answers_of_parts_and_of_whole_trials_are_counted_once() -> None:
    trials = [
        trial("base", BASE, _means(0.5, 10)),
        trial("a", _with("x"), [1.0, 0.0, *[None] * 8], parents=["base"]),
        trial("a", _with("x"), [1.0, 0.0, *[1.0] * 8], parents=["base"], full=True),
        trial("a", _with("x"), [0.0], split=Split.TRAIN),
    ]
    [_, known] = evidence_of(trials, 1.0).candidates
    assert (known.answers, known.full, known.answered(Split.VALIDATION)) == (11, True, 10)


def test_without_answers_of_the_baseline_nothing_can_be_learned() -> None:
    with pytest.raises(ValueError, match="the baseline has no answers"):
        evidence_of([], 1.0)
    with pytest.raises(ValueError, match="the baseline has no answers"):
        evidence_of([trial("base", BASE, [None, None])], 1.0)


def test_a_world_without_any_noise_or_difference_has_a_model_too() -> None:
    model = fit(evidence_of([trial("base", BASE, [1.0] * 5), trial("a", _with("x"), [1.0], parents=["base"])], 1.0), PRIOR)
    assert np.isfinite(model.values()).all()


def test_candidates_that_nobody_answered_are_left_out() -> None:
    evidence = evidence_of([trial("base", BASE, [1.0]), trial("a", _with("x"), [None])], 1.0)
    assert [known.candidate_id for known in evidence.candidates] == ["base"]
    assert trial("base", BASE, [1.0]).purpose is Purpose.BASELINE
