"""pytest's plug-in: what `@experiment.measure`, `explore` and `optimize` declare is a test.

Nothing of an experiment is run, and no money is spent, without `--ratchet`. The engine is loaded by the first experiment that
is run, and never by a session that has none.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from ratchet._declared.declarations import Declaration

DECLARED: Final = "__ratchet_declaration__"
"""What hangs on a declared function; the same as in `ratchet._declared.declarations`, which is not loaded for it."""

MARKER: Final = "ratchet(samples=…, budget=…)"
NOT_FOR_EXPERIMENTS: Final = ("parametrize", "usefixtures")
OVERRIDES: Final = ("samples", "budget")
ORDER: Final = ("measure", "explore", "optimize")
"""What comes first may be what the others depend on."""

RUNS: Final = {"measure": ("measure",), "optimize": ORDER}
"""Which kinds of experiments each mode runs."""

_TOLD: Final = "ratchet"
"""The property of a report that holds what is told at the end of a session."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("ratchet", "experiments of Ratchet")
    group.addoption(
        "--ratchet",
        choices=["check", "measure", "optimize"],
        help="check: check declared experiments, which costs nothing. measure: also measure those declared by "
        "@experiment.measure, and compare each with its stored baseline. optimize: run them all.",
    )
    group.addoption(
        "--ratchet-renew", action="store_true", help="Store what is measured as the baseline, in place of the one there is."
    )
    group.addoption(
        "--ratchet-new", action="store_true", help="Run experiments again that ran before as they are, and pay again."
    )
    parser.addini(
        "ratchet_experiments", help="Folder for the files of experiments. [default: experiments, beside each test file]"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and let ordinary tests know that baselines are renewed."""
    config.addinivalue_line("markers", f"{MARKER}: overrides what an experiment declares, for the tests below it")
    if config.getoption("ratchet_renew"):
        _renew_in_tests(True)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Forget that baselines are renewed."""
    if config.getoption("ratchet_renew"):
        _renew_in_tests(False)


def _renew_in_tests(renews: bool) -> None:
    importlib.import_module("ratchet.testing")._renews = renews  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: Any, name: str, obj: object) -> Any:
    """Make a test of a declared function, whatever its name is."""
    if not isinstance(obj, types.FunctionType) or DECLARED not in vars(obj):
        return None
    if any(mark.name in NOT_FOR_EXPERIMENTS for mark in getattr(obj, "pytestmark", ())):
        raise collector.CollectError(
            f"{name}: an experiment takes no fixtures and no parameters of pytest; declare one for each, in a loop or by hand"
        )
    return ExperimentItem.from_parent(collector, name=name, function=obj)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what was not asked for. What others depend on comes first; every other test stays where it is."""
    mode = config.getoption("ratchet")
    for item in (item for item in items if isinstance(item, ExperimentItem)):
        if mode is None or (mode != "check" and item.kind not in RUNS[mode]):
            least = next(name for name, kinds in RUNS.items() if item.kind in kinds)
            told = f"an experiment: --ratchet={least} runs it, --ratchet=check checks it for free"
            item.add_marker(pytest.mark.skip(reason=told))
    places = [place for place, item in enumerate(items) if isinstance(item, ExperimentItem)]
    experiments = sorted((item for item in items if isinstance(item, ExperimentItem)), key=lambda item: ORDER.index(item.kind))
    for place, item in zip(places, experiments, strict=True):
        items[place] = item


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let go of servers that experiments have used."""
    if session.config.stash.get(_ENGINE_USED, False):
        import ratchet

        ratchet.close()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tell what came of every experiment that was run, in a line or two."""
    told = [
        line
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, line in (getattr(report, "user_properties", ()) if getattr(report, "when", "") == "call" else ())
        if name == _TOLD
    ]
    if told:
        terminalreporter.section("ratchet")
        for line in told:
            terminalreporter.write_line(line)


_ENGINE_USED: Final = pytest.StashKey[bool]()


class ExperimentFailed(Exception):
    """An experiment found what a test shall fail for; its message says it all."""


class ExperimentItem(pytest.Item):
    """A declared experiment as a test."""

    def __init__(self, *, function: Any, **given: Any) -> None:
        super().__init__(**given)
        self.obj = function
        marks = getattr(function, "pytestmark", [])
        self.own_markers.extend(marks)
        self.keywords.update({mark.name: mark for mark in marks})
        self.keywords.update({"ratchet_experiment": True, self.kind: True})

    @property
    def kind(self) -> str:
        """`measure`, `explore` or `optimize`."""
        return str(vars(self.obj)[DECLARED].kind)

    def runtest(self) -> None:
        """Check it, or run it."""
        from ratchet._engine import declared_runs

        try:
            declaration = self._declaration()
            if self.config.getoption("ratchet") == "check":
                self._check(declared_runs(f"experiment.{self.kind}"), declaration)
            else:
                self._run(declared_runs(f"experiment.{self.kind}"), declaration)
        except ExperimentFailed:
            raise
        except Exception as error:
            if not _says_itself(error):
                raise
            raise ExperimentFailed(str(error)) from None

    def _declaration(self) -> Declaration:
        """What was declared, as the markers around it override it."""
        owner = getattr(self.getparent(pytest.Class), "obj", None)
        declaration: Declaration = vars(self.obj)[DECLARED].within(owner)
        overrides: dict[str, Any] = {}
        for mark in self.iter_markers("ratchet"):  # the nearest comes first
            unknown = [name for name in mark.kwargs if name not in OVERRIDES]
            if mark.args or unknown:
                told = ", ".join([*map(repr, mark.args), *unknown])
                raise ExperimentFailed(
                    f"@pytest.mark.{MARKER}: {told} is unknown; write samples=30, or budget=2.5 or a mapping"
                )
            overrides = {**mark.kwargs, **overrides}
        return declaration.overridden(**overrides)

    @property
    def _output(self) -> Path | None:
        given = self.config.getini("ratchet_experiments")
        return self.config.rootpath / given if given else None

    def _check(self, runs: Any, declaration: Declaration) -> None:
        found = runs.checked(declaration, output=self._output)
        if found.warnings:
            self.add_report_section("call", "ratchet", "\n".join(f"warning: {warning}" for warning in found.warnings))
        if found.errors:
            raise ExperimentFailed("\n".join(found.errors))

    def _run(self, runs: Any, declaration: Declaration) -> None:
        self.config.stash[_ENGINE_USED] = True
        renew, new = self.config.getoption("ratchet_renew"), self.config.getoption("ratchet_new")
        options = {"progress": False} | ({"new": True} if new else {})
        outcome = runs.run(declaration, output=self._output, renew=renew, **options)
        self.add_report_section("call", "ratchet", str(outcome.result))
        for line in self._told(outcome):
            self.user_properties.append((_TOLD, line))
        self.user_properties += [("ratchet_run", outcome.result.id), ("ratchet_score", outcome.result.score)]
        if outcome.failure is not None:
            raise ExperimentFailed(outcome.failure)

    def _told(self, outcome: Any) -> Iterator[str]:
        compared, stored = outcome.comparison, " (stored as the baseline)" if outcome.is_stored else ""
        yield f"{self.nodeid}: {outcome.result.headline.words if compared is None else compared.headline}{stored}"
        yield from (f"  {_near(path, self.config.rootpath)}" for path in outcome.files)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *given: Any, **named: Any) -> Any:
        """Show the message alone, where that says it all."""
        if isinstance(excinfo.value, ExperimentFailed):
            return f"{self.kind} {self.name}: {excinfo.value}"
        return super().repr_failure(excinfo, *given, **named)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Say where it is declared."""
        inside = self.getparent(pytest.Class)
        return self.path, self.obj.__code__.co_firstlineno - 1, self.name if inside is None else f"{inside.name}.{self.name}"


def _says_itself(error: Exception) -> bool:
    """Whether an error's message is for people: what is wrong, and what to do."""
    from ratchet.errors import RunError, SpecError

    return isinstance(error, RunError | SpecError | ImportError) or type(error).__name__ == "NoBaseline"


def _near(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
