"""Declared experiments, checked and run: what they depend on, what identifies them, and where their files go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import ratchet
from clients.commands.context import ExitCode
from clients.python.declared_runs import baseline_path, checked, exit_code_of, folder_of, run
from clients.python.fingerprint import fingerprint_of
from ratchet import Sample, experiment
from ratchet._declared.declarations import Declaration, declaration_of

ROWS = [{"id": f"s{n}", "input": {"n": n}} for n in range(80)]


@ratchet.use_case("shop")
class Shop:
    def __init__(self) -> None:
        self.model = "a"
        self.prompt = "Help."

    @ratchet.criterion
    def helps(self, outcome: str) -> bool:
        return "help" in outcome.lower()


def of(function: Any) -> Declaration:
    found = declaration_of(function)
    assert found is not None
    return found


def optimizing(**given: Any) -> Declaration:
    said: dict[str, Any] = {"use_case": Shop, "treatment_factor": "prompt", "mutator": "noop", "data": ROWS} | given

    @experiment.optimize(**said)
    def optimize_prompt(use_case: Shop, sample: Sample) -> str:
        return use_case.prompt + use_case.model

    return of(optimize_prompt)


def measuring(**given: Any) -> Declaration:
    said: dict[str, Any] = {"use_case": Shop, "data": ROWS} | given

    @experiment.measure(**said)
    def measure_shop(use_case: Shop, sample: Sample) -> str:
        return use_case.prompt + use_case.model

    return of(measure_shop)


def test_files_go_beside_the_declaration_or_where_a_setting_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declaration = measuring()
    assert folder_of(declaration) == Path(__file__).parent / "experiments"
    monkeypatch.setenv("RATCHET_EXPERIMENTS", str(tmp_path))
    assert folder_of(declaration) == tmp_path
    assert folder_of(declaration, tmp_path / "given") == tmp_path / "given"
    assert baseline_path(declaration, tmp_path) == tmp_path / "specs/shop.yaml"
    assert baseline_path(measuring(baseline="mine"), tmp_path) == tmp_path / "specs/mine.yaml"


def test_fixed_factors_are_those_of_the_measurement_that_was_chosen(tmp_path: Path) -> None:
    def stored(**changes: Any) -> None:
        document = {"useCaseId": "shop", "factorSuit": {"model": "b", "prompt": "Other."}} | changes
        (tmp_path / "chosen.yaml").write_text(yaml.safe_dump(document))

    declaration = optimizing(baseline="chosen.yaml")
    [missing] = checked(declaration, output=tmp_path, home=tmp_path).errors
    assert "chosen.yaml: there is no stored baseline; measure shop first" in missing
    stored(useCaseId="other")
    [others] = checked(declaration, output=tmp_path, home=tmp_path).errors
    assert "is of the use case 'other', not of 'shop'" in others
    stored(factorSuit={"model": "b"})
    [unlike] = checked(declaration, output=tmp_path, home=tmp_path).errors
    assert "of another configuration: it and shop do not have the same factors (prompt); measure shop again" in unlike
    stored()
    assert checked(declaration, output=tmp_path, home=tmp_path).errors == ()


def test_what_could_show_nothing_or_cannot_be_compared_is_told_for_free(tmp_path: Path) -> None:
    [few] = checked(measuring(data=ROWS[:20]), output=tmp_path, home=tmp_path).errors
    assert few.startswith("margin: 20 samples cannot show that less than 0.05 was lost")
    assert checked(measuring(data=ROWS[:20], margin=None), output=tmp_path, home=tmp_path).errors == ()
    found = checked(measuring(), output=tmp_path, home=tmp_path)
    assert found.errors == () and "there is no stored baseline yet" in found.warnings[-1]
    with pytest.raises(ValueError, match="there is no stored baseline; pytest --ratchet=measure --ratchet-renew"):
        run(measuring(), output=tmp_path, home=tmp_path / "home")
    stored = {
        "useCaseId": "shop",
        "scorerDescription": "Mean x (higher is better)",
        "samples": {"s1": {"score": 1, "passed": True}},
    }
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/shop.yaml").write_text(yaml.safe_dump(stored))
    with pytest.raises(ValueError, match=r"was scored by 'Mean x .*', and now it is 'Success rate"):
        run(measuring(), output=tmp_path, home=tmp_path / "home")
    stored |= {"scorerDescription": "Success rate (higher is better)", "experimentId": "another"}
    (tmp_path / "specs/shop.yaml").write_text(yaml.safe_dump(stored))
    with pytest.raises(ValueError, match="was measured by 'another', and this is 'measure-shop'; renew it"):
        run(measuring(), output=tmp_path, home=tmp_path / "home")
    stored |= {"experimentId": "measure-shop", "samples": {f"s{n}": {"score": 1, "passed": True} for n in range(80)}}
    (tmp_path / "specs/shop.yaml").write_text(yaml.safe_dump(stored))
    with pytest.raises(ratchet.SpecError, match="margin: 8 samples cannot show"):
        run(measuring(samples=8), output=tmp_path, home=tmp_path / "home")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("value", [None, 0.1])
def test_a_misspelt_attribute_is_told_whatever_it_says(tmp_path: Path, value: float | None) -> None:
    assert "margn: is not a known field" in checked(measuring(margn=value), output=tmp_path).errors[0]


def test_how_it_is_measured_does_not_change_what_a_function_is() -> None:
    one, other = measuring(margin=0.1, seed=3), measuring()
    assert fingerprint_of(one.function, Shop) == fingerprint_of(other.function, Shop)
    assert fingerprint_of(one.function, Shop) != fingerprint_of(optimizing().function, Shop)


def test_a_measurement_is_stored_once_and_compared_with_ever_after(tmp_path: Path, home: Path) -> None:
    options: dict[str, Any] = {"output": tmp_path, "home": home}
    first = run(measuring(), stores_first=True, **options)
    assert (first.is_stored, list(first.files)) == (True, [tmp_path / "specs/shop.yaml"])
    again = run(measuring(), **options)
    assert again.comparison is not None
    assert (again.result.id, again.failure, again.comparison.outcome) == (first.result.id, None, "not_worse")

    @ratchet.use_case("shop")
    class Broken(Shop):
        def __init__(self) -> None:
            super().__init__()
            self.prompt = "Go."

    worse = run(measuring(use_case=Broken), **options)
    assert worse.comparison is not None
    assert (len(worse.comparison.worse), worse.comparison.changed_factors) == (80, ("prompt",))
    assert "s0 1.00 → 0.00, broken: helps: does not hold" in (worse.failure or "")
    renewed = run(measuring(use_case=Broken), renew=True, **options)
    assert (renewed.result.id, renewed.is_stored) == (worse.result.id, True)
    assert yaml.safe_load((tmp_path / "specs/shop.yaml").read_text())["score"] == 0.0


def test_each_way_to_fail_has_its_exit_code() -> None:
    assert exit_code_of(ratchet.SpecError("x")) is ExitCode.BAD_INPUT
    assert exit_code_of(ratchet.RunError("x")) is ExitCode.FAILED
