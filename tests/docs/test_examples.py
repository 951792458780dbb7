"""What the documents show is run: specs by the rules of real runs against a simulated target, Python with stand-ins for what
is the reader's own."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import pytest
from temporalio.client import Client

import ratchet
from activities.preparing.prompt_snapshot import with_file
from clients.embedded.stack import StackAddresses
from clients.python.spec_arguments import spec_of
from clients.testing import World, simulate
from ratchet import ExperimentContext, Output, Sample, in_experiment
from ratchet._declared.declarations import Declaration, declaration_of
from ratchet._formats.canonical import canonical_json
from ratchet.prompts import PromptTemplate, open_store, renderer
from tests.support.documents import AROUND, ROOT, blocks, documents, files_of, name_of, specs_of
from tests.support.mutation_examples import POLICY
from workflows.model.spec.request import OptimizationRequest

TEXTS = {path: path.read_text(encoding="utf-8") for path in documents()}
TEMPLATE = ROOT / "examples" / "prompt" / "triage.yaml"
TUTORIAL = ROOT / "docs" / "tutorials" / "write-an-optimizer.md"

RUN_BY = ("configuration", "optimizer", "judgement", "replicates", "prompt", "seed")
"""What of a spec is run; target, data and scorers are the world's, and how long is said here."""
NOT_SIMULATED = ("racing", "noise", "must_pass")

CHANGES = {"change": "structured"}
FACTORS: dict[str, dict[str, Any]] = {
    "evolve": POLICY,
    "search": {
        **AROUND["configuration"],
        "top_k": {"value": 5, "change": "structured", "type": "integer", "min": 1, "max": 50},
    },
    "none": {**AROUND["configuration"], "model": "gpt-5-nano"},
    "python": {name: {"value": 0.9, **CHANGES, "type": "number", "min": 0, "max": 1} for name in ("x", "y")},
}
"""What an optimizer that is shown alone is tried on."""

SPECS = [
    pytest.param(spec, id=f"{name_of(path)}:{line}")
    for path, text in TEXTS.items()
    for line, spec in specs_of(text)
    if spec.keys() & {"configuration", "optimizer", "judgement"}
]


def _sample(number: int) -> Sample:
    return Sample(f"s{number}", {"ticket": f"Ticket {number}", "text": f"Ticket {number}"}, expected=f"label {number % 3}")


def _score(configuration: Mapping[str, Any], sample: Sample, replicate: int) -> tuple[float, str]:
    return Random(f"{canonical_json(dict(configuration))} {sample.id} {replicate}").random(), "injury"


def _rewrite(current: Mapping[str, Any], records: Any, factors: list[str], seed: int) -> Mapping[str, Any]:
    return {name: f"{current[name]} Be {seed}." for name in factors if isinstance(current[name], str)}


WORLD = World(
    target=_score,
    samples=[_sample(number) for number in range(20)],
    train=[_sample(number) for number in range(20, 32)],
    propose=_rewrite,
    plugins={"my_agent:failures": lambda records: {"injury": len(records)}},
)


@pytest.mark.parametrize("spec", SPECS)
def test_a_spec_that_is_shown_runs(spec: dict[str, Any], shown_plugins: None) -> None:
    named = spec.get("optimizer")
    name = named.get("name") if isinstance(named, dict) else named
    about = {} if "configuration" in spec else {**AROUND, "configuration": FACTORS.get(str(name), AROUND["configuration"])}
    kept = {part: value for part, value in {**about, **spec}.items() if part in RUN_BY}
    kept["judgement"] = {rule: value for rule, value in kept.get("judgement", {}).items() if rule not in NOT_SIMULATED}
    run = simulate(_with_its_prompt({**kept, "stop": {"max_rounds": 2}, "budget": {"samples": 400}}), WORLD)
    assert run.status == "completed", run.message
    assert len(run.trials) > 1 or name in (None, "none", "compress")


def _with_its_prompt(spec: dict[str, Any]) -> Any:
    if "prompt" not in spec:
        return spec
    about = {name: AROUND[name] for name in ("target", "dataset", "objective")}
    return with_file(OptimizationRequest.model_validate({**about, **spec}), lambda: TEMPLATE)


@pytest.fixture
def shown_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plug-ins that documents write or name, where they can be imported."""
    for name, content in files_of(TEXTS[TUTORIAL]).items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    for folder in (tmp_path, ROOT / "examples" / "optimizer"):
        monkeypatch.syspath_prepend(str(folder))


TEMPLATES = [
    pytest.param(block.text, id=f"{name_of(path)}:{block.line}")
    for path, text in TEXTS.items()
    for block in blocks(text)
    if block.language == "yaml" and "\nsections:" in block.text
]


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_prompt_that_is_shown_renders(template: str) -> None:
    read = PromptTemplate.from_yaml(template)
    assert read.render(read.configuration(), _sample(1).input).text


CONTEXT = ExperimentContext(id="e", name="e", run_id="r", candidate_id="c", overrides_tag="t", overlay_hash="h")
CALLS: dict[str, Callable[[Any], Any]] = {
    "answer": lambda shown: shown({"system_prompt": "Sort."}, _asked(), CONTEXT),
    "quality": lambda shown: shown(Output("label 1"), _sample(1)),
    "triage": lambda shown: shown("I was charged twice."),
}
"""How what an example defines is used."""


def _asked() -> Sample:
    return Sample("s", {"ticket": "I was charged twice.", "question": "Why?"}, expected="billing")


async def _model(*_: Any) -> Any:
    return _Reply("billing")


class _Reply(str):
    """What the reader's own agent or model may answer."""

    tokens, cost = 12, 0.001

    @property
    def text(self) -> str:
        return str(self)


class _Shop:
    """The reader's own endpoint."""

    status, text = 200, "billing"

    def ask(self, _: str) -> _Shop:
        return self


class _App:
    """The reader's web framework."""

    def post(self, _: str) -> Callable[[Any], Any]:
        return lambda handler: handler


def _stand_ins(code: str) -> dict[str, Any]:
    """What an example takes for granted."""
    is_awaited = "await my_agent" in code
    own: dict[str, Any] = {
        "my_agent": _model if is_awaited else lambda _: _Reply("billing"),
        "my_model": _model,
        "app": _App(),
        "shop": _Shop(),
        "report": {"modifications": []},
    }
    return own | {"text": TEMPLATE.read_text(encoding="utf-8"), "spec": AROUND}


STARTS_A_RUN = re.compile(r"ratchet\.(a?optimize|start|measure|explore|compress)\(")

PYTHON = [
    pytest.param(block.text, id=f"{name_of(path)}:{block.line}")
    for path, text in TEXTS.items()
    for block in blocks(text)
    if block.language == "python" and path.parent.name != "tutorials"  # those are run as their readers run them
]


@pytest.mark.parametrize("code", PYTHON)
def test_python_that_is_shown_runs(code: str, shown_plugins: None, stored_prompt: None, request: pytest.FixtureRequest) -> None:
    started = request.getfixturevalue("runs_of_a_program" if STARTS_A_RUN.search(code) else "a_run_that_ends")
    names: dict[str, Any] = {"__name__": "shown", **_stand_ins(code)}
    compiled = compile(code, "shown", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    given = names.keys() | {"__builtins__"}
    with in_experiment(CONTEXT) if "current_experiment()" in code else nullcontext():
        done = eval(compiled, names)  # the documents are ours
        if inspect.iscoroutine(done):
            asyncio.run(done)
    assert not started or names["result"] == {"status": "completed"}
    if STARTS_A_RUN.search(code):  # which called what it defines
        assert "result" not in names or (names["result"].status, names["result"].score) == ("completed", 1.0)
        return
    for shown in filter(None, map(declaration_of, names.values())):
        answered = _answered_by(shown)
        assert (asyncio.run(answered) if inspect.iscoroutine(answered) else answered).value is not None
    for name in (name for name in CALLS if name in names.keys() - given):
        called = CALLS[name](names[name])
        assert (asyncio.run(called) if inspect.iscoroutine(called) else called) is not None


def _answered_by(shown: Declaration) -> Any:
    """What a declared experiment answers on a sample, after its spec was read."""
    call = shown.call()
    with spec_of(None, call.fields) as told:
        OptimizationRequest.model_validate(told.content)
    sample = call.fields["data"][0] if isinstance(shown.data, list) else {"input": {"query": "Any shoes?"}}
    return call.fields["target"]["ref"](shown.use_case.values, Sample("s", sample["input"]), CONTEXT)


async def _seed(url: str) -> None:
    async with await open_store(url) as prompts:
        await prompts.seed(PromptTemplate.from_yaml(TEMPLATE.read_text(encoding="utf-8")))


@pytest.fixture
def stored_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The prompt of the examples, where `resolve` finds it."""
    url = f"file:{tmp_path / 'prompts'}"
    monkeypatch.setenv("RATCHET_OVERRIDES", url)
    asyncio.run(_seed(url))
    renderers: list[renderer.Renderer] = []
    monkeypatch.setattr(renderer, "_of_the_process", renderers)
    yield
    for one in renderers:
        one.close()


@pytest.fixture(scope="module")
def runs_of_a_program(unserved_stack: StackAddresses) -> Iterator[None]:
    """The real servers, for what starts runs by itself."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RATCHET_HOME", str(unserved_stack.home))
        yield
    ratchet.close()


@pytest.fixture
def a_run_that_ends(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A Temporal server whose runs are over at once; what was started."""
    started: list[Any] = []

    class Connected:
        async def start_workflow(self, *arguments: Any, **options: Any) -> Any:
            started.append((arguments, options))
            return self

        async def result(self) -> dict[str, str]:
            return {"status": "completed"}

    async def connect(_: str, **__: Any) -> Connected:
        return Connected()

    monkeypatch.setattr(Client, "connect", connect)
    return started
