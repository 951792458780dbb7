"""pytest's plug-in: what `@experiment.measure`, `explore` and `optimize` declare is a test.

Nothing of an experiment is run, and no money is spent, without `--ratchet`. The engine is loaded by the first experiment that
is run, and never by a session that has none.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from ratchet._declared.declarations import Declaration

DECLARED: Final = "__ratchet_declaration__"
"""What hangs on a declared function; the same as in `ratchet._declared.declarations`, which is not loaded for it."""

MARKER: Final = "ratchet(samples=…, budget=…)"
SHARED: Final = "ratchet_shared"
"""The folder that the processes of one session share, in what xdist tells each of them."""

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
    """Forget that baselines are renewed, and what processes shared."""
    if SHARED in vars(config):
        getattr(config, SHARED).cleanup()
    if config.getoption("ratchet_renew"):
        _renew_in_tests(False)


def _renew_in_tests(renews: bool) -> None:
    importlib.import_module("ratchet.testing")._renews = renews  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: Any, name: str, obj: object) -> Any:
    """Make a test of a declared function, whatever its name is."""
    if not isinstance(obj, types.FunctionType) or DECLARED not in vars(obj):
        return None
    if any(mark.name == "parametrize" for mark in getattr(obj, "pytestmark", ())):
        raise collector.CollectError(
            f"{name}: an experiment takes no parameters of pytest; declare one for each, in a loop or by hand"
        )
    return ExperimentItem.from_parent(collector, name=name, callobj=_takes_fixtures(obj, collector), function=obj)


def _takes_fixtures(function: types.FunctionType, collector: pytest.Collector) -> Callable[..., None]:
    """Return what pytest may look at to find out which fixtures an experiment takes."""
    from ratchet._declared.declared_bodies import Body

    owner = getattr(collector.getparent(pytest.Class), "obj", None)
    names = (*(() if owner is None else ("self",)), *Body.fixtures_of(function, owner))

    def experiment() -> None:
        """Stand for the experiment, which `ExperimentItem` runs."""

    vars(experiment).update(vars(function))
    experiment.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    return experiment


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Let the processes of xdist know of the folder that they share."""
    if SHARED not in vars(node.config):
        setattr(node.config, SHARED, tempfile.TemporaryDirectory(prefix="ratchet-session-"))
    node.workerinput[SHARED] = getattr(node.config, SHARED).name


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


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Tell in full what `passes` and `not_worse` found wrong: an assertion's own line is cut, and names hardly a sample."""
    made: Any = yield
    report = made.get_result()
    if call.excinfo is None or not report.failed or not hasattr(report.longrepr, "addsection"):
        return
    for told in _found_wrong(call.excinfo.tb):
        report.longrepr.addsection("ratchet", told)


def _found_wrong(traceback: types.TracebackType | None) -> list[str]:
    """What assertions looked at, which pytest keeps beside a test's own variables."""
    testing = sys.modules.get("ratchet.testing")
    if testing is None:
        return []
    found: dict[int, Any] = {}
    while traceback is not None:
        seen = traceback.tb_frame.f_locals.values()
        found |= {id(one): one for one in seen if isinstance(one, testing.PassRate | testing.NotWorse) and not one}
        traceback = traceback.tb_next
    return [repr(one) for one in found.values()]


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


class ExperimentItem(pytest.Function):
    """A declared experiment as a test."""

    def __init__(self, *, function: Any, **given: Any) -> None:
        self.declared = function
        super().__init__(**given)
        self.keywords.update({"ratchet_experiment": True, self.kind: True})

    @property
    def kind(self) -> str:
        """`measure`, `explore` or `optimize`."""
        return str(vars(self.declared)[DECLARED].kind)

    @property
    def fixtures(self) -> tuple[str, ...]:
        """The fixtures that it has parameters for."""
        return tuple(name for name in inspect.signature(self.obj).parameters if name != "self")

    def runtest(self) -> None:
        """Check it, or run it."""
        from ratchet._engine import declared_runs

        try:
            declaration = self.declaration().given({name: self.funcargs[name] for name in self.fixtures})
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

    def declaration(self) -> Declaration:
        """What was declared, as the markers around it override it."""
        owner = getattr(self.getparent(pytest.Class), "obj", None)
        declaration: Declaration = vars(self.declared)[DECLARED].within(owner)
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
        for item in self._needed(runs, declaration):
            item.ended_first(runs, self)
        outcome = self._once(runs, declaration)
        self.add_report_section("call", "ratchet", str(outcome.result))
        for line in self._told(outcome):
            self.user_properties.append((_TOLD, line))
        self.user_properties += [("ratchet_run", outcome.result.id), ("ratchet_score", outcome.result.score)]
        if outcome.failure is not None:
            raise ExperimentFailed(outcome.failure)

    def _needed(self, runs: Any, declaration: Declaration) -> list[ExperimentItem]:
        """What is run in this session, too, and writes what this one reads."""
        renew = self.config.getoption("ratchet_renew")
        others = [one for one in self.session.items if isinstance(one, ExperimentItem) and one is not self and not _skips(one)]
        return [one for one in others if runs.writes_what_is_read(one.declaration(), declaration, self._output, renew=renew)]

    def ended_first(self, runs: Any, needing: ExperimentItem) -> None:
        """See to it that this one was run, whichever process of the session does that; else run it for another one."""
        with self._place() as place:
            if not place.exists():
                try:
                    given = {name: needing._request.getfixturevalue(name) for name in self.fixtures}
                except pytest.FixtureLookupError as error:
                    told = f"{self.nodeid} comes before it, and its fixture {error.argname!r} is not to be had here"
                    raise ExperimentFailed(f"{told}; run both in one process, or move them into one file") from None
                self._run_at(place, runs, self.declaration().given(given))
            ended = place.read_text(encoding="utf-8")
        if ended:
            raise ExperimentFailed(f"{self.nodeid}, on which it depends, failed: {ended}")

    def _once(self, runs: Any, declaration: Declaration) -> Any:
        """Run it; what this session ran already is only looked up."""
        with self._place() as place:
            return self._run_at(place, runs, declaration)

    def _run_at(self, place: Path, runs: Any, declaration: Declaration) -> Any:
        renew, new = self.config.getoption("ratchet_renew"), self.config.getoption("ratchet_new")
        options = {"progress": False} | ({"new": True} if new and not place.exists() else {})
        try:
            outcome = runs.run(declaration, output=self._output, renew=renew, **options)
        except Exception as error:
            place.write_text(str(error) or type(error).__name__, encoding="utf-8")
            raise
        place.write_text("", encoding="utf-8")
        return outcome

    @contextmanager
    def _place(self) -> Iterator[Path]:
        """Where it is noted that this session ran it, and how that ended; held alone by one process of the session."""
        import fcntl

        told = getattr(self.config, "workerinput", {}).get(SHARED)
        if told is None and SHARED not in vars(self.config):
            setattr(self.config, SHARED, tempfile.TemporaryDirectory(prefix="ratchet-session-"))
        folder = Path(told or getattr(self.config, SHARED).name)
        name = hashlib.sha256(self.nodeid.encode()).hexdigest()[:32]
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder / name

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
        return (
            self.path,
            self.declared.__code__.co_firstlineno - 1,
            self.name if inside is None else f"{inside.name}.{self.name}",
        )


def _skips(item: pytest.Item) -> bool:
    """Whether a test is skipped, as far as its markers say so without being run."""
    conditions = [condition for mark in item.iter_markers("skipif") for condition in mark.args]
    return item.get_closest_marker("skip") is not None or any(one for one in conditions if not isinstance(one, str))


def _says_itself(error: Exception) -> bool:
    """Whether an error's message is for people: what is wrong, and what to do."""
    from ratchet.errors import RunError, SpecError

    return isinstance(error, RunError | SpecError | ImportError) or type(error).__name__ == "NoBaseline"


def _near(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
