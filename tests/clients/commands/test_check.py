"""`ratchet check` finds what is wrong before money is spent, and says where."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest

from clients.checks import installation
from clients.checks.costs.estimate import estimate
from clients.checks.findings import check_spec
from clients.checks.installation import lacking_packages
from clients.checks.plan_summary import summary_of
from clients.commands.begin import write_templates
from clients.demo.model_server import simulated_model
from clients.templates.spec_templates import TEMPLATES
from tests.support.checked_specs import ITEMS, checked
from tests.support.spec_texts import SPEC, changed

MINE = """
print("plug-ins may print")
NUMBER = 3
def target(configuration, sample, context): return 1
def two(a): return 1
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "crashing.py").write_text("import os\nprint('about to go', flush=True)\nos._exit(7)\n")
    (tmp_path / "raising.py").write_text("raise ValueError('no luck')\n")
    (tmp_path / "importing.py").write_text("from workflows import mine as target\n")
    (tmp_path / "workflows.py").write_text("def mine(configuration, sample, context): return 1\n")
    (tmp_path / "json.py").write_text("def target(configuration, sample, context): return 1\n")
    (tmp_path / "broken.jsonl").write_text('{"input": {"q": 1}}\n{"input": \n')
    (tmp_path / "other.jsonl").write_text('{"input": {"q": 1}, "expected": 1}\n{"input": {"question": 2}, "expected": 1}\n')
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "program").write_bytes(b"MZ\x00")
    (tmp_path / "moving.gif").write_bytes(b"GIF89a\x01\x00\x01\x00")
    return tmp_path


CHAT = changed('{kind: python, ref: "mine:target"}', '{kind: chat, model: m, messages: [{role: user, content: "{{input.q}}"}]}')

MALFORMED = {
    "syntax": ("name: a: b\n", 1, "is not valid YAML (column 8)"),
    "tab": ("name: t\n\tx: 1\n", 2, "indent with spaces"),
    "list": ("- 1\n", 1, "is a list, not a mapping"),
    "empty": ("", None, "is empty; `ratchet init`"),
    "twice": (SPEC + "name: again\n", 8, "key 'name' is there twice"),
    "circle": ("a: &a [*a]\n", 1, "break the circle"),
    "unknown field": (SPEC + "colour: red\n", 8, "colour: is not a known field"),
    "missing field": (changed("objective: exact\n", ""), None, "objective: is missing; add it"),
    "bad name": (changed("name: t", "name: t t"), 1, "name: is no name"),
    "empty factor": (changed("Answer yes", ""), 3, "configuration.prompt: Factor value cannot be empty"),
    "long factor": (changed("Answer yes", "x" * 101), 3, "configuration.prompt: Factor value exceeds max length 100 (was 101)"),
    "3 MB factor": (changed("Answer yes", "x" * 3_000_000), 3, "exceeds max length 100 (was 3000000)"),
    "huge constant": (
        changed("configuration:", f"configuration:\n  c: {'x' * 300_000}"),
        2,
        "keep larger values behind a reference",
    ),
    "out of range": (
        changed(
            '{value: "Answer yes", change: text, max_length: 100}',
            "{value: 5, change: structured, type: number, min: 6, max: 7}",
        ),
        3,
        "configuration.prompt: value 5.0 is outside min 6.0 … max 7.0",
    ),
    "NaN": (changed("expected: 1", "expected: .nan"), 5, "dataset.items[0].expected: nan is not a finite number"),
    "wrong type": (SPEC + "replicates: many\n", 8, "replicates:"),
    "negative": (SPEC + "stop: {max_rounds: -1}\n", 8, "stop.max_rounds: must be at least 0 (is -1)"),
    "duration": (SPEC + "budget: {wall_time: soon}\n", 8, "budget.wall_time: is not a duration"),
    "unknown kind": (changed("kind: noop", "kind: magic"), 7, "optimizer.proposer: has kind 'magic'; use one of"),
    "unknown metric": (changed("objective: exact", "objective: nope"), 6, "objective.metric: no scorer is named 'nope'"),
    "unknown factor": (changed("Answer yes", "{{factors.nix}}"), 3, "placeholder {{factors.nix}} names no factor"),
    "frozen": (changed("kind: noop", "kind: model, model: m") + "reuse: maybe\n", 8, "reuse:"),
    "unpriced": (CHAT + "budget: {cost: 1}\n", None, "prices: 'm' (target.model) has no price, and budget.cost is 1"),
    "bad price": (CHAT + "prices: {m: {input: -1, output: 1}}\n", 8, "prices.m.input: must be at least 0"),
    "bad regex": (SPEC + "scorers: [{kind: regex, pattern: '('}]\n", 8, "scorers[0].pattern: is not a regular expression"),
    "shares": (
        changed(ITEMS, "{path: other.jsonl, splits: {validation: 0.9, test: 0.2}}"),
        5,
        "dataset.splits: shares add up to 1.1",
    ),
    "no samples": (changed(ITEMS, "[]"), 5, "dataset: items is empty; give at least one sample"),
    "nothing expected": (
        changed(ITEMS, "{items: [{input: {q: a}}], splits: none}"),
        5,
        "dataset.items[0].expected: is missing, which scorers[0] (exact) needs; correct it, or use another scorer",
    ),
    "small budget": (
        changed(ITEMS, "{items: [{input: 1, expected: 1}, {input: 2, expected: 2}], splits: none}") + "budget: {samples: 1}\n",
        8,
        "budget.samples: is 1, and one trial makes 2 target calls; allow more, or lower samples_per_trial",
    ),
    "same id": (changed(ITEMS, "[{id: a, input: 1}, {id: a, input: 2}]"), 5, "dataset.items[1]: id 'a' was used before"),
    "no file": (changed(ITEMS, "{path: nix.jsonl}"), 5, "dataset.path: there is no file"),
    "broken file": (changed(ITEMS, "{path: broken.jsonl}"), 5, "dataset.path: broken.jsonl line 2: is not JSON"),
    "empty file": (changed(ITEMS, "{path: empty.jsonl}"), 5, "dataset.path: empty.jsonl is empty"),
    "sample without what is asked": (
        CHAT.replace(ITEMS, "{path: other.jsonl, splits: none}"),
        5,
        "dataset.path: other.jsonl line 2: input has no 'q', which the target needs",
    ),
    "file that is not there": (
        changed("{q: 1}", "{q: {$file: a.png}}"),
        5,
        "dataset.items[0]: input.q: file 'a.png' is not in the dataset's folder; copy it there or correct the path",
    ),
    "file that no model takes": (
        CHAT.replace("{q: 1}", "{q: {$file: program}}"),
        5,
        "dataset.items[0]: a file is application/octet-stream, which the target cannot be sent; give image/png",
    ),
    "picture that Google does not take": (
        CHAT.replace("model: m,", "model: google/m,").replace("{q: 1}", "{q: {$file: moving.gif}}"),
        5,
        "dataset.items[0]: a file is image/gif, which the target cannot be sent; give image/png",
    ),
    "file of a factor that is not there": (
        CHAT.replace("configuration:\n", "configuration:\n  style: {$file: a.png}\n"),
        3,
        "configuration.style.value: file 'a.png' is not in the spec's folder; copy it there or correct the path",
    ),
    "file of a factor that no model takes": (
        CHAT.replace("configuration:\n", "configuration:\n  style: {$file: program}\n"),
        3,
        "configuration.style: a file is application/octet-stream, which the target cannot be sent; give image/png",
    ),
    "reference": (changed("mine:target", "mine"), 4, "target.ref: is not a plug-in reference"),
    "no module": (changed("mine:target", "nix:target"), 4, "target.ref: plug-in nix:target: there is no module 'nix'"),
    "no attribute": (changed("mine:target", "mine:nix"), 4, "target.ref: plug-in mine:nix: module mine has no 'nix'"),
    "no callable": (changed("mine:target", "mine:NUMBER"), 4, "target.ref: plug-in mine:NUMBER: is a int, not callable"),
    "signature": (changed("mine:target", "mine:two"), 4, "target.ref: plug-in mine:two: is called with 3 positional arguments"),
    "crash": (changed("mine:target", "crashing:target"), 4, "importing it ends the process (exit code 7): about to go"),
    "raises": (changed("mine:target", "raising:target"), 4, "importing it failed: ValueError: no luck"),
    "our own room": (changed("mine:target", "workflows.model:x"), 4, "'workflows' is a module of Ratchet itself"),
    "our own room, indirectly": (changed("mine:target", "importing:target"), 4, "imports 'workflows' and gets Ratchet's own"),
    "standard library": (changed("mine:target", "json:target"), 4, "target.ref: plug-in json:target:"),
}


async def test_a_search_without_its_samplers_is_told_with_what_to_install(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = "  t: {value: 0.5, change: structured, type: number, min: 0, max: 1}\ntarget:"
    spec = changed("{proposer: {kind: noop}}", "{name: search}").replace("target:", number, 1)
    assert (await checked(directory, spec)).findings == []
    monkeypatch.setitem(sys.modules, "optuna", None)
    (directory / "spec.yaml").write_text(spec)
    for own_worker, severity in ((True, "error"), (False, "warning")):
        [found] = (await check_spec(directory / "spec.yaml", own_worker=own_worker, endpoints=False)).findings
        assert found.message == "optimizer.name: search needs optuna; install ratchet-optimizer[search] where the workers run"
        assert (found.severity, found.line) == (severity, 8)


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_malformed_spec_gets_one_message_with_its_field_and_line(directory: Path, name: str) -> None:
    text, line, told = MALFORMED[name]
    [found] = (await checked(directory, text)).findings
    assert told in found.message
    assert found.line == line
    assert "Traceback" not in found.message


async def test_several_mistakes_are_told_at_once(directory: Path) -> None:
    found = await checked(directory, changed("mine:target", "mine") + "colour: red\nreplicates: 0\n")
    assert sorted((finding.line, finding.message.partition(":")[0]) for finding in found.errors if finding.line) == [
        (4, "target.ref"),
        (8, "colour"),
        (9, "replicates"),
    ]


async def test_a_good_spec_has_no_findings_and_knows_its_data(directory: Path) -> None:
    (directory / "data.jsonl").write_text(
        "".join(f'{{"input": {{"q": {number % 20}}}, "expected": 1}}\n' for number in range(25))
    )
    text = changed(ITEMS, "{path: data.jsonl, splits: {train: 0.2, validation: 0.5, test: 0.3}}")
    found = await checked(directory, text + "replicates: 3\nstop: {max_rounds: 4}\n")
    assert found.findings == []
    assert found.dataset is not None
    assert (found.dataset.count, found.dataset.duplicates_dropped) == (20, 5)
    assert found.splits == {"validation": 10, "test": 6, "train": 4}
    costs = estimate(found)
    assert (costs.calls_per_trial, costs.trials, costs.calls, costs.cost) == (30, 5, 5 * 30 + 2 * 6 * 3, None)


async def test_a_module_that_raises_is_told_once_with_the_line_that_did(directory: Path) -> None:
    (directory / "keyless.py").write_text("import os\n\nKEY = os.environ['NO_SUCH_KEY']\n")
    text = changed("mine:target", "keyless:target").replace(
        "objective:", 'scorers: [{kind: python, name: s, ref: "keyless:s"}]\nobjective:'
    )
    [found] = (await checked(directory, text)).findings
    message, _, where = found.message.partition("\n")
    assert message.endswith("importing it failed: KeyError: 'NO_SUCH_KEY'; mend it, or set what it needs")
    assert where.endswith("keyless.py:3 in <module>: KEY = os.environ['NO_SUCH_KEY']")
    assert "importlib" not in where


async def test_the_code_beside_a_spec_is_part_of_what_its_plugins_are(directory: Path) -> None:
    (directory / "helping.py").write_text("X = 1\n")
    (directory / "mine.py").write_text(f"from helping import X\n{MINE}")
    before = (await checked(directory, SPEC)).plugins
    (directory / "helping.py").write_text("X = 2\n")
    after = (await checked(directory, SPEC)).plugins
    assert before.fingerprints == after.fingerprints
    assert set(before.sources) == {"mine", "helping"}
    assert before.code_hash != after.code_hash


@pytest.mark.parametrize("template", TEMPLATES)
async def test_every_template_passes_where_its_models_are(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, _ = write_templates(tmp_path, template)
    assert {"spec.yaml", "spec.schema.json", "tickets.jsonl", ".gitignore"} <= set(written)
    spec = tmp_path / "spec.yaml"
    spec.write_text(spec.read_text().replace("gpt-5-mini", "simulated-triage-small").replace("gpt-5", "simulated-reflector"))
    async with simulated_model() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        found = await check_spec(spec)
    assert found.findings == []
    assert found.splits == {"validation": 9, "test": 6, "train": 5}
    assert 0 < (estimate(found).cost or 0) <= 4.0


async def test_a_run_in_batches_costs_half_and_may_take_a_day_for_each_trial(directory: Path) -> None:
    priced = CHAT + "prices: {m: {input: 1000, output: 1000}}\nbudget: {trials: 3}\n"
    at_once = await checked(directory, priced)
    batched = await checked(directory, priced + "execution: {mode: batch}\n")
    assert batched.findings == at_once.findings
    direct, half = estimate(at_once), estimate(batched)
    assert direct.cost and direct.expected_cost
    assert half.cost == pytest.approx(direct.cost / 2)
    assert half.expected_cost == pytest.approx(direct.expected_cost / 2)
    lines, facts = summary_of(batched)
    told = "samples are answered in batches, for half the price; each trial may take 24 hours, one round after the other"
    assert any(line.endswith(told) for line in lines)
    assert facts["hours_per_trial_at_most"] == 24


async def test_a_judge_in_batches_costs_half_and_takes_another_day(directory: Path) -> None:
    rubric = "scorers: [{kind: rubric, rubric: It is right., model: m}]\nobjective: rubric\n"
    judged = "".join(line for line in CHAT.splitlines(True) if not line.startswith(("scorers:", "objective:"))) + rubric
    priced = judged + "prices: {m: {input: 1000, output: 1000}}\nbudget: {trials: 3}\n"
    at_once = estimate(await checked(directory, priced))
    batched = await checked(directory, priced + "execution: {mode: batch}\n")
    partly = await checked(directory, priced + "execution: {mode: batch, batches: {judges: false}}\n")
    assert at_once.cost and estimate(batched).cost == pytest.approx(at_once.cost / 2)
    assert at_once.cost / 2 < (estimate(partly).cost or 0) < at_once.cost
    assert summary_of(batched)[1]["hours_per_trial_at_most"] == 48
    assert summary_of(partly)[1]["hours_per_trial_at_most"] == 24


JUDGED = """\
name: t
configuration: {prompt: {value: "Answer yes", change: text, max_length: 100}}
target: {kind: chat, model: TARGET, messages: [{role: user, content: "{{factors.prompt}} {{input.q}}"}]}
dataset: {items: [{input: {q: 1}, expected: 1}], splits: none}
scorers: [{kind: rubric, rubric: It is right., model: JUDGE}]
objective: rubric
optimizer: none
prices: {m: {input: 1000, output: 1000}, bedrock/j: {input: 1000, output: 1000}, google/g: {input: 1000, output: 1000}}
execution: {mode: MODE}
"""


def judged(mode: str, target: str, judge: str) -> str:
    return JUDGED.replace("MODE", mode).replace("TARGET", target).replace("JUDGE", judge)


@pytest.mark.parametrize(
    ("target", "judge", "where", "fix"),
    [
        ("bedrock/j", "m", "target.model", "set execution.mode: auto or direct"),
        ("m", "bedrock/j", "scorers[0].model", "set execution.batches.judges: false, or execution.mode: auto or direct"),
    ],
)
async def test_a_model_without_batches_is_refused_by_its_field_in_batch_mode(
    directory: Path, target: str, judge: str, where: str, fix: str
) -> None:
    [found] = (await checked(directory, judged("batch", target, judge))).errors
    assert found.message.startswith(f"{where}: 'bedrock/j' is of a provider that has no batches; {fix}")
    assert found.line in (3, 5)
    unbatched = judged("batch", "m", "bedrock/j").replace("mode: batch", "mode: batch, batches: {judges: false}")
    assert not (await checked(directory, unbatched)).errors


async def test_in_auto_mode_the_plan_tells_what_has_no_batches_and_what_that_costs(directory: Path) -> None:
    direct, mixed, none, all_batched = [
        await checked(directory, judged(*given))
        for given in (("direct", "m", "m"), ("auto", "m", "bedrock/j"), ("auto", "bedrock/j", "m"), ("auto", "m", "m"))
    ]
    assert not any(found.errors for found in (direct, mixed, none, all_batched))
    lines, facts = summary_of(mixed)
    assert any("samples are answered in batches, for half the price; each trial may take 24 hours" in line for line in lines)
    assert any(line.endswith("; bedrock/j (scorers[0].model) is asked at once") for line in lines)
    assert facts["hours_per_trial_at_most"] == 24
    lines, facts = summary_of(none)
    told = (
        "none, as there are none for bedrock/j (target.model), m (scorers[0].model): all is asked at once, for the full price"
    )
    assert any(line.endswith(told) for line in lines) and "hours_per_trial_at_most" not in facts
    expected = [estimate(found).expected_cost or 0 for found in (direct, mixed, none, all_batched)]
    assert expected[2] == pytest.approx(expected[0])
    assert expected[0] > expected[1] > expected[3] == pytest.approx(expected[0] / 2)


async def test_batches_of_google_may_take_two_days(directory: Path) -> None:
    of_both = summary_of(await checked(directory, judged("batch", "google/g", "google/g")))[1]
    of_judge = summary_of(await checked(directory, judged("auto", "m", "google/g")))[1]
    assert (of_both["hours_per_trial_at_most"], of_judge["hours_per_trial_at_most"]) == (96, 72)


class TestEndpoints:
    """What a model endpoint says before it is paid."""

    async def test_an_unknown_model_is_told_with_those_there_are(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with simulated_model() as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
            [found] = (await checked(directory, CHAT, endpoints=True)).errors
        assert found.message.startswith("target.model: ")
        assert "does not list a model 'm'; it has " in found.message
        assert found.line == 4

    async def test_a_refused_key_is_told_without_the_key(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        async with simulated_model(required_key="right") as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
            monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
            [found] = (await checked(directory, CHAT, endpoints=True)).errors
        assert "refuses the key (HTTP 401); check OPENAI_API_KEY" in found.message
        assert "sk-very-secret" not in json.dumps(found.as_json())

    async def test_an_endpoint_that_does_not_answer_is_told(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        [found] = (await checked(directory, CHAT, endpoints=True)).errors
        assert "http://127.0.0.1:9/v1 cannot be reached" in found.message

    async def test_a_missing_key_is_told(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        [found] = (await checked(directory, CHAT, endpoints=True)).errors
        assert found.message == "target.model: https://api.openai.com/v1 needs a key, and OPENAI_API_KEY is not set; set it"

    async def test_a_spec_cannot_send_the_key_anywhere(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
        text = CHAT.replace("kind: chat, model: m", "kind: chat, model: m, base_url: https://elsewhere.example/v1")
        [found] = (await checked(directory, text, endpoints=True)).errors
        assert "https://elsewhere.example/v1 is none of them" in found.message

    async def test_an_http_target_that_workers_would_not_call_is_told(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("RATCHET_HTTP_TOKEN", raising=False)
        target = "{kind: http, url: https://api.example/x, auth: bearer}"
        text = changed('{kind: python, ref: "mine:target"}', target)
        url, auth = (await checked(directory, text, endpoints=True)).errors
        assert "https://api.example/x is none of them; add its origin, https://api.example, to RATCHET_HTTP_URLS" in url.message
        assert auth.message == "target.auth: is bearer, and RATCHET_HTTP_TOKEN is not set; set it"
        with socket.create_server(("127.0.0.1", 0)) as listening:
            here = f"http://127.0.0.1:{listening.getsockname()[1]}"
            monkeypatch.setenv("RATCHET_HTTP_URLS", f"http://other.example, {here}")
            monkeypatch.setenv("RATCHET_HTTP_TOKEN", "secret")
            assert not (await checked(directory, text.replace("https://api.example", here), endpoints=True)).errors

    async def test_an_http_target_where_nobody_listens_is_told(self, directory: Path) -> None:
        text = changed('{kind: python, ref: "mine:target"}', "{kind: http, url: http://127.0.0.1:9/x}")
        [found] = (await checked(directory, text, endpoints=True)).errors
        assert "target.url: the endpoint at 127.0.0.1:9 cannot be reached" in found.message
        assert found.message.endswith("start it, or correct the URL")

    async def test_for_workers_elsewhere_a_missing_key_is_a_warning(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        path = directory / "spec.yaml"
        path.write_text(CHAT)
        found = await check_spec(path, own_worker=False)
        assert not found.errors
        assert len(found.warnings) == 1


@pytest.mark.parametrize(
    ("must_pass", "wrong"),
    [
        ("{samples: [s1], tags: [vip]}", None),
        (
            "[s1, s3, other]",
            "judgement.must_pass.samples: the dataset has no sample with the id 's3' or 'other'; ",
        ),
        ("{tags: [vip, vlp]}", "judgement.must_pass.tags: the dataset has no sample tagged 'vlp'; did you mean 'vip'?"),
    ],
)
async def test_must_pass_samples_have_to_be_there(directory: Path, must_pass: str, wrong: str | None) -> None:
    items = "dataset: {items: [{id: s1, input: {q: 1}, expected: 1}, {id: s2, input: {q: 2}, expected: 1, tags: [vip]}]}"
    spec = (
        changed("dataset: {items: [{input: {q: 1}, expected: 1}], splits: none}", items)
        + f"judgement: {{must_pass: {must_pass}}}\n"
    )
    found = [finding.message for finding in (await checked(directory, spec)).errors]
    assert [message[: len(wrong or "")] for message in found] == ([wrong] if wrong else [])


async def test_an_installation_without_a_part_of_the_engine_is_told(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the one that `make demo` makes: its spec needs less than others."""
    assert lacking_packages() == []
    said = [
        "pydantic>=2",
        "temporalio>=1; extra == 'engine'",
        "no-such-package[x]>=1; extra == 'engine'",
        "nor-this; extra == 's3'",
    ]
    monkeypatch.setattr(installation, "requires", lambda name: said if name == "ratchet-optimizer" else None)
    (directory / "spec.yaml").write_text(SPEC)
    [found] = (await check_spec(directory / "spec.yaml")).findings
    assert found.message == "this installation lacks no-such-package, which runs may need: make engine"
    assert (await check_spec(directory / "spec.yaml", whole_engine=False)).findings == []
