"""pytest's plug-in: experiments are tests, and nothing is run or loaded that was not asked for."""

from __future__ import annotations

import pytest

from ratchet import testing

USE_CASE = """
    import pytest
    import ratchet
    from ratchet import experiment

    @ratchet.use_case("shop")
    class Shop:
        def __init__(self):
            self.prompt = "Help."

        @ratchet.criterion
        def helps(self, outcome):
            return "help" in outcome
"""
EXPERIMENTS = (
    USE_CASE
    + """
    @experiment.measure(use_case=Shop, samples=80)
    def measure_shop(use_case):
        return use_case.prompt

    class TestShop:
        @experiment.optimize(use_case=Shop, treatment_factor="prompt", mutator="noop")
        def optimize_prompt(self, use_case):
            return use_case.prompt

        def test_an_ordinary_test(self):
            assert True

    @pytest.mark.ratchet(samples=5)
    @experiment.explore(use_case=Shop, configurations=[{"prompt": "Do not."}])
    def explore_shop(use_case):
        return use_case.prompt
"""
)


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_inprocess("-p", "no:cacheprovider", *arguments)


def test_without_the_option_experiments_are_skipped_and_say_which_option_runs_them(project: pytest.Pytester) -> None:
    project.makepyfile(EXPERIMENTS)
    done = run(project, "-rs")
    done.assert_outcomes(passed=1, skipped=3)
    done.stdout.fnmatch_lines(["SKIPPED*: an experiment: --ratchet=measure runs it, --ratchet=check checks it for free"])
    done.stdout.fnmatch_lines(["SKIPPED*: an experiment: --ratchet=optimize runs it, --ratchet=check checks it for free"])
    assert done.ret == pytest.ExitCode.OK


def test_experiments_are_checked_for_free(project: pytest.Pytester) -> None:
    project.makepyfile(EXPERIMENTS)
    done = run(project, "--ratchet=check", "-v", "-rP")
    done.assert_outcomes(passed=4)
    done.stdout.fnmatch_lines(
        ["*::measure_shop PASSED*", "*::TestShop::test_an_ordinary_test PASSED*", "*optimize_prompt PASSED*"]
    )
    done.stdout.fnmatch_lines(
        ["warning: */experiments/specs/shop.yaml: there is no stored baseline yet; *--ratchet-renew stores it"]
    )
    assert not list(project.path.rglob("*.yaml")) and not (project.path / ".ratchet").exists()


def test_what_is_wrong_is_told_without_a_traceback_of_ours(project: pytest.Pytester) -> None:
    project.makepyfile(
        USE_CASE
        + """
    @experiment.optimize(use_case=Shop, treatment_factor="promt", mutator="noop")
    def optimize_prompt(use_case):
        return use_case.prompt

    @experiment.measure(use_case=Shop, budjet={"cost": 1})
    def measure_shop(use_case):
        return use_case.prompt

    @experiment.measure(use_case=Shop, samples=20)
    def measure_few(use_case):
        return use_case.prompt

    @experiment.optimize(use_case=Shop, treatment_factor="prompt", mutator="noop", baseline="shop")
    def optimize_measured(use_case):
        return use_case.prompt

    @pytest.mark.ratchet(sample=5)
    @experiment.explore(use_case=Shop, configurations=[{"prompt": "Do not."}])
    def explore_shop(use_case):
        return use_case.prompt
"""
    )
    done = run(project, "--ratchet=check")
    done.assert_outcomes(failed=5)
    for told in (
        "optimize optimize_prompt: treatment_factor: shop has no factor 'promt'; it has prompt",
        "measure measure_shop: budjet: *did you mean budget*",
        "measure measure_few: margin: 20 samples cannot show that less than 0.05 was lost*",
        "optimize optimize_measured: baseline: */specs/shop.yaml: there is no stored baseline; measure shop first*",
        "explore explore_shop: @pytest.mark.ratchet(samples=…, budget=…): sample is unknown; write samples=30*",
    ):
        done.stdout.fnmatch_lines([told])
    done.stdout.no_fnmatch_line("*Traceback*")
    done.stdout.no_fnmatch_line("*clients/*")
    assert done.ret == pytest.ExitCode.TESTS_FAILED


def test_experiments_are_chosen_like_tests(project: pytest.Pytester) -> None:
    project.makepyfile(EXPERIMENTS)
    run(project, "--ratchet=check", "-k", "optimize_prompt or measure").assert_outcomes(passed=2, deselected=2)
    run(project, "--ratchet=check", "-m", "ratchet").assert_outcomes(passed=1, deselected=3)
    run(project, "--ratchet=check", "test_experiments_are_chosen_like_tests.py::TestShop::optimize_prompt").assert_outcomes(
        passed=1
    )


def test_a_mistake_in_the_code_of_the_user_shows_where_it_is(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
    import ratchet
    from ratchet import experiment

    @ratchet.use_case
    class Shop:
        def __init__(self):
            self.prompt = open("nowhere").read()

    @experiment.measure(use_case=Shop)
    def measure_shop(use_case):
        return use_case.prompt
"""
    )
    done = run(project, "--ratchet=check")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*FileNotFoundError*nowhere*"])


def test_parameters_of_pytest_are_not_for_experiments(project: pytest.Pytester) -> None:
    project.makepyfile(
        USE_CASE
        + """
    @pytest.mark.parametrize("k", [1, 2])
    @experiment.measure(use_case=Shop)
    def measure_shop(use_case):
        return use_case.prompt
"""
    )
    done = run(project, "--ratchet=check")
    assert done.ret == pytest.ExitCode.INTERRUPTED
    done.stdout.fnmatch_lines(["*measure_shop: an experiment takes no parameters of pytest*"])


def test_fixtures_are_given_to_experiments(project: pytest.Pytester) -> None:
    project.makepyfile(
        USE_CASE
        + """
    @pytest.fixture
    def client():
        return {"kind": "client"}

    class TestShop:
        @experiment.measure(use_case=Shop, samples=80)
        def measure_with(self, client, use_case):
            return use_case.prompt

    @experiment.explore(use_case=Shop, configurations=[{"prompt": "Do not."}])
    async def explore_with(use_case, missing):
        return use_case.prompt
"""
    )
    done = run(project, "--ratchet=check")
    done.assert_outcomes(passed=1, errors=1)
    done.stdout.fnmatch_lines(["*fixture 'missing' not found*"])


def test_a_session_without_experiments_loads_nothing_of_the_engine(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makepyfile(
        """
    import sys

    def test_what_is_loaded():
        tops = {name.partition(".")[0] for name in sys.modules}
        assert "ratchet" in tops
        assert not tops & {"temporalio", "numpy", "scipy", "asyncpg", "pydantic", "clients", "workflows"}
        assert "ratchet._declared.declarations" not in sys.modules
"""
    )
    # What other plug-ins of this environment load is theirs.
    arguments = ("-p", "no:cacheprovider", "-p", "ratchet.pytest_plugin")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    done = project.runpytest_subprocess(*arguments)
    done.assert_outcomes(passed=1)


def test_ordinary_tests_know_that_baselines_are_renewed(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
    from ratchet.testing import not_worse

    def test_the_agent():
        rows = [{"input": n, "expected": "yes"} for n in range(60)]
        assert not_worse(lambda sample: "yes", rows, baseline="agent")
"""
    )
    missing = run(project)
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["*NoStoredBaseline: */experiments/specs/agent.yaml: there is no stored baseline*"])
    run(project, "--ratchet-renew").assert_outcomes(passed=1)
    run(project).assert_outcomes(passed=1)
    assert testing._renews is False


def test_a_failed_assertion_names_samples_in_full_and_shows_none_of_our_code(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
    from ratchet.testing import not_worse, passes

    ROWS = [{"id": f"sample-{n}", "input": n, "expected": "yes " * 20} for n in range(60)]

    def wrong(sample):
        return "no " * 20

    def test_rate():
        assert passes(wrong, ROWS, at_least=0.9)

    def test_comparison(tmp_path):
        kept = tmp_path / "agent.yaml"
        not_worse(lambda sample: sample.expected, ROWS, baseline=kept, renew=True)
        shown = not_worse(wrong, ROWS, baseline=kept)
        assert shown

    def test_few():
        assert passes(lambda sample: sample.expected, ROWS[:20], at_least=0.9)

    def test_undecided():
        assert passes(lambda sample: sample.expected if sample.input % 10 else "no", ROWS, at_least=0.9)
"""
    )
    done = run(project, "--junitxml=told.xml")
    done.assert_outcomes(failed=4)
    for place in range(5):
        done.stdout.fnmatch_lines([f"  sample-{place}: answered 'no no *', expected 'yes yes *"])
        done.stdout.fnmatch_lines([f"    sample-{place} 1.00 * 0.00, broken: answered 'no no *"])
    done.stdout.fnmatch_lines(["E *.Undecided: 20 samples cannot show *", "E *.Undecided: * samples passed*"])
    told = done.stdout.str() + (project.path / "told.xml").read_text()
    assert "sample-4: answered" in (project.path / "told.xml").read_text()
    for ours in ("ratchet/testing.py", "asyncio/runners.py", "def passes", "def not_worse"):
        assert ours not in told
