"""Use cases: what their factors are, how they are set, and what is a success."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

import ratchet
from ratchet import Output, Sample, Score
from ratchet._declared.use_cases import UseCase, dashed

SAMPLE = Sample("s", {"q": "2 + 2"}, "4")


@ratchet.use_case
class ShoppingAssistant:
    tries = 2

    def __init__(self, model: str = "small") -> None:
        self.model = model
        self.options = {"top_p": 0.5, "stops": ("a", "b")}
        self.prompt = "Help."
        self.client = object()
        self._secret = "not a factor"

    @ratchet.treatment_source("prompt")
    def initial(self) -> str:
        return self.prompt + " Please."

    @ratchet.factor_setter("prompt")
    def follow(self, prompt: str) -> None:
        self.prompt = prompt.upper()

    @ratchet.criterion
    def right(self, outcome: str, sample: Sample) -> bool:
        """It is the number that is expected."""
        return bool(outcome == sample.expected)

    @ratchet.criterion("short")
    def few_words(self, outcome: str) -> float:
        return 1.0 if len(outcome) < 5 else 0.0


def test_what_init_and_the_class_set_are_the_factors() -> None:
    use_case = UseCase(ShoppingAssistant)
    assert use_case.id == "shopping-assistant"
    assert use_case.values == {
        "tries": 2,
        "model": "small",
        "options": {"top_p": 0.5, "stops": ["a", "b"]},
        "prompt": "Help. Please.",
    }
    assert UseCase(partial(ShoppingAssistant, model="large")).values["model"] == "large"


def test_every_call_has_an_instance_of_its_own_on_which_the_factors_are_set() -> None:
    use_case = UseCase(ShoppingAssistant)
    one = use_case.made_with({**use_case.values, "prompt": "help", "model": "other"})
    assert (one.prompt, one.model, one.options["stops"]) == ("HELP", "other", ("a", "b"))
    assert use_case.made_with(use_case.values) is not one
    assert use_case.specimen.prompt == "Help."


def test_a_success_is_where_every_criterion_holds() -> None:
    score = UseCase(ShoppingAssistant).scorer()
    assert [(one.name, one.value) for one in score(Output("4"), SAMPLE)] == [("success", 1.0), ("right", 1.0), ("short", 1.0)]
    failed = score(Output("fourteen"), SAMPLE)
    assert (failed[0].passed, [one.passed for one in failed]) == (False, [False, False, False])
    assert [one.reason for one in failed] == [None, "does not hold: It is the number that is expected.", "does not hold"]


def test_criteria_may_wait_and_may_give_a_score() -> None:
    @ratchet.use_case("asked")
    class Asked:
        @ratchet.criterion
        async def kind(self, outcome: str) -> Score:
            return Score("whatever", 0.7, reason="could be kinder")

    success, kind = asyncio.run(UseCase(Asked).scorer()(Output("go away"), SAMPLE))
    assert (success.value, kind) == (1.0, Score("kind", 0.7, True, "could be kinder"))


def test_a_dataclass_is_a_use_case_too_and_a_subclass_says_its_own() -> None:
    @ratchet.use_case("plain")
    @dataclass
    class Plain:
        k: int = 3

    class Further(Plain):
        @ratchet.treatment_source("k")
        def where_it_begins(self) -> Any:
            return ratchet.integer(5, min=0, max=9)

    assert UseCase(Plain).values == {"k": 3}
    assert (UseCase(Further).id, UseCase(Further).values, UseCase(Further).initial["k"]["max"]) == ("plain", {"k": 5}, 9)


@pytest.mark.parametrize(
    ("name", "told"), [("HTTPAgent", "http-agent"), ("sort_tickets", "sort-tickets"), ("Shop2Go", "shop2-go")]
)
def test_ids_are_written_with_dashes(name: str, told: str) -> None:
    assert dashed(name) == told


class Undeclared:
    pass


@ratchet.use_case("needy")
class Needy:
    def __init__(self, client: object) -> None:
        self.client = client


@ratchet.use_case("sourceless")
class Sourceless:
    @ratchet.factor_setter("prompt")
    def follow(self, prompt: str) -> None: ...


@ratchet.use_case("odd")
class Odd:
    @ratchet.treatment_source("prompt")
    def initial(self) -> Any:
        return object()


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (Undeclared, "Undeclared is no use case; write @ratchet.use_case above"),
        (Needy, "Needy cannot be made without arguments"),
        (Sourceless, "nothing gives its initial value; write @ratchet.treatment_source('prompt')"),
        (Odd, "factor 'prompt': its source gives a object"),
    ],
)
def test_what_is_wrong_is_told_with_its_cure(made: Any, told: str) -> None:
    with pytest.raises(ratchet.SpecError) as refused:
        UseCase(made).values  # noqa: B018
    assert told in str(refused.value)


def test_a_factor_that_nothing_sets_cannot_be_changed() -> None:
    @ratchet.use_case("fixed")
    class Fixed:
        @ratchet.treatment_source("prompt")
        def initial(self) -> str:
            return "Help."

    use_case = UseCase(Fixed)
    with pytest.raises(ratchet.SpecError, match="fixed has no factor 'promt'; it has prompt"):
        use_case.refuse_unless_set("promt", "treatment_factor")
    with pytest.raises(ratchet.SpecError, match=r"write @ratchet\.factor_setter\('prompt'\)"):
        use_case.refuse_unless_set("prompt", "treatment_factor")
