"""`ratchet experiments`: what files declare is found without importing what declares nothing, checked, run, and told."""

from __future__ import annotations

from tests.support.command_bench import Bench

DECLARING = """
import ratchet
from ratchet import experiment
from kept_beside import WORD


@ratchet.use_case("shop")
class Shop:
    def __init__(self):
        self.prompt = WORD

    @ratchet.criterion
    def helps(self, outcome):
        return WORD in outcome


class Experiments:
    @experiment.optimize(use_case=Shop, treatment_factor="prompt", mutator="noop", max_iterations=2)
    def optimize_prompt(self, use_case):
        return use_case.prompt


@experiment.measure(use_case=Shop, samples=4, margin=None)
def measure_shop(use_case):
    return use_case.prompt
"""
ENDING = "import os\nprint('ratchet experiment.measure')\nos._exit(9)\n"


def written(bench: Bench) -> None:
    folder = bench.directory / "shop" / "tests"
    folder.mkdir(parents=True)
    (folder / "kept_beside.py").write_text("WORD = 'help'\n")
    (folder / "shop_experiments.py").write_text(DECLARING)
    (bench.directory / "setup.py").write_text(ENDING)
    (bench.directory / ".hidden").mkdir()
    (bench.directory / ".hidden" / "more.py").write_text(DECLARING)


def test_experiments_are_listed_and_nothing_else_is_imported(bench: Bench) -> None:
    written(bench)
    listed = bench.facts("experiments")["experiments"]
    assert [(one["name"], one["kind"], one["use_case"], one["treatment"]) for one in listed] == [
        ("optimize-prompt", "optimize", "shop", ["prompt"]),
        ("measure-shop", "measure", "shop", []),
    ]
    told = bench.ratchet("experiments", "shop").stdout
    assert "optimize-prompt  optimize shop (prompt)  shop/tests/shop_experiments.py:18" in told


def test_experiments_are_checked_and_what_is_wrong_is_bad_input(bench: Bench) -> None:
    written(bench)
    done = bench.ratchet("experiments", "--check")
    assert (done.returncode, done.stdout.count("nothing is wrong")) == (0, 2), done.stdout + done.stderr
    (bench.directory / "bad.py").write_text(DECLARING.replace("kept_beside", "nowhere"))
    for arguments in ([], ["--check"]):
        partly = bench.ratchet("experiments", *arguments)
        assert (partly.returncode, "measure-shop" in partly.stdout) == (1, True), partly.stdout + partly.stderr
        assert "bad.py: cannot be imported: ModuleNotFoundError: No module named 'nowhere'" in partly.stderr
    assert bench.ratchet("experiments", "bad.py").returncode == 2
    (bench.directory / "bad.py").write_text(
        DECLARING.replace("from kept_beside import WORD", "WORD = 'help'").replace(
            "(use_case):\n    return use_case.prompt", "(use_case, client):\n    return use_case.prompt"
        )
    )
    fixture = bench.ratchet("experiments", "bad.py", "--check")
    assert fixture.returncode == 2
    assert (
        "measure_shop: nothing here gives its parameter 'client'" in fixture.stdout
        and "pytest --ratchet=measure" in fixture.stdout
    )
    (bench.directory / "bad.py").write_text(
        DECLARING.replace("from kept_beside import WORD", "WORD = 'help'").replace("samples=4", "samples=4, budjet=1")
    )
    wrong = bench.ratchet("experiments", "bad.py", "--check")
    assert (wrong.returncode, "measure-shop: budjet: " in wrong.stdout) == (2, True), wrong.stdout
    unknown = bench.ratchet("experiments", "--run", "measure_shop")
    assert (unknown.returncode, "there is no experiment 'measure_shop'" in unknown.stderr) == (2, True)
    assert bench.ratchet("experiments", "nowhere").returncode == 2


def test_experiments_are_run_and_write_their_files(bench: Bench) -> None:
    written(bench)
    done = bench.facts("experiments", "shop", "--run", "*")
    measured, optimized = done["experiments"]
    assert (measured["name"], measured["exit_code"], optimized["exit_code"]) == ("measure-shop", 0, 0)
    folder = bench.directory / "shop" / "tests" / "experiments"
    assert measured["files"] == [str(folder / "specs" / "shop.yaml")]
    assert optimized["files"][0].startswith(str(folder / "optimizations" / "shop" / "optimize-prompt_"))
    again = bench.ratchet("experiments", "shop", "--run", "measure-*", "--output", str(bench.directory / "out"))
    assert (again.returncode, (bench.directory / "out" / "specs" / "shop.yaml").exists()) == (0, True), again.stderr
    assert "MEASURE: shop / measure-shop" in again.stdout
    assert "it is shown, and not paid again (--new would run it anew)" in again.stdout
