"""The exported history: what is written is what is read, whatever the text, and no file is ever lost to another run."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from clients.reports.facts import Iteration, RunFacts
from clients.reports.formatting import CAUSES
from clients.reports.headline import headline_of
from clients.reports.history.entries import get_entries, report_json
from clients.reports.history.files import NotAHistory, file_name, history_text, read_history, write_history
from clients.reports.history.write import fingerprint, history_of
from ratchet._formats.yaml_text import yaml_text
from ratchet.optimizer import StopReason
from ratchet.prompts.template import PromptTemplate
from tests.support.report_examples import BETTER, FINISHED, confirmed, facts, request, the_example
from workflows.model.run.candidates import ReasonCode, Rejection
from workflows.model.run.decisions import FrontMember
from workflows.model.spec.judgement import Verdict
from workflows.model.spec.prompt import PromptSnapshot
from workflows.model.trial import Purpose

LOADERS = [yaml.SafeLoader, *([yaml.CSafeLoader] if yaml.__with_libyaml__ else [])]

AWKWARD = [
    "",
    " ",
    "no",
    "null",
    "~",
    "1.0",
    "2026-01-16",
    "key: value",
    "# not a comment",
    "- not a list",
    "--- \n... \n%YAML",
    "  leading\nspaces",
    "trailing \nspaces ",
    "\ttab first\n\ttab\n",
    "ends with two\n\n",
    "\n\n",
    "blank\n\n\nlines\n   \nin it",
    'quotes " and \\ backslashes\\\nand more\\',
    "carriage\r\nreturn\rs",
    "\x1b[31mescape\x00nul\x7f\x85\u2028\u2029\ufeff",
    "emoji 👩‍💻\nand 日本語 é e\u0301",
    "&anchor *alias !tag |pipe >fold @at `tick` {a: [b]}",
    "a" * 3000,
]


def document(value: Any) -> dict[str, Any]:
    """A value in every place where a history has values."""
    return {"top": value, "map": {"inner": value, "deep": {"list": [value, [value], {"x": value}]}}, "list": [value, value]}


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("text", AWKWARD)
def test_awkward_text_is_read_back_as_it_was(text: str, loader: Any) -> None:
    written = yaml_text(document(text), spaced=frozenset({"list"}), comments=dict.fromkeys(document(text), "A comment"))
    assert yaml.load(written, Loader=loader) == document(text)


TEXTS = (
    st.text(st.characters(codec="utf-8"), max_size=80)
    | st.text(st.sampled_from("ab \n\t:#-|>'\"\\&*!%@`{}[],?~\r\x85\u2028\u00a0é👩"), max_size=40)
    | st.sampled_from(AWKWARD)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=250, deadline=None)
@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4), st.sampled_from(LOADERS))
def test_any_value_is_read_back_as_it_was(values: dict[str, Any], loader: Any) -> None:
    names = frozenset(values)
    text = yaml_text(values, bare=names, spaced=names, comments=dict.fromkeys(names, "A comment\nof two lines"))
    read = yaml.load(text, Loader=loader)
    assert json.dumps(read) == json.dumps(values)  # which tells 1, 1.0 and true apart


def test_prompts_are_blocks_that_people_can_read() -> None:
    written = yaml_text({"a": "one\n\ttwo 👩‍💻\n", "b": "one  \n two\n", "c": "one\ntwo"})
    assert written == 'a: |\n  one\n  \ttwo 👩‍💻\nb: "one  \\n\\\n  \\ two\\n"\nc: |-\n  one\n  two\n'


def test_a_large_run_is_written_in_no_time() -> None:
    means = tuple(number / 700 for number in range(2000))
    run = facts([0.5] * 100)
    run = run.model_copy(update={"iterations": tuple(i.model_copy(update={"sample_means": means}) for i in run.iterations)})
    assert len(history_text(run)) > 2_000_000


# -- what is in it


def test_a_history_is_read_back_with_its_types(tmp_path: Path) -> None:
    rejection = Rejection(round=2, proposed_index=0, reason_code=ReasonCode.DUPLICATE, message="tried before")
    run = facts([0.85, None, 0.95], values={2: {"systemPrompt": BETTER}}, confirmation=confirmed(), rejections=(rejection,))
    history, intact = read_history(write_history(run, tmp_path))

    assert intact
    assert history == history_of(run).model_copy(update={"content_fingerprint": history.content_fingerprint})
    failed = history.iterations[1]
    assert (failed.status, failed.score) == ("EXECUTION_FAILED", None)
    assert failed.failure_reason == "the target raised ValueError: no such model"
    assert failed.duration_ms == 20_000 and failed.parents == ("r0",) and failed.sample_means == (1.0, 0.0, None, 0.5)
    assert history.best_iteration is not None and history.best_iteration.factor_suit["systemPrompt"] == BETTER
    assert history.confirmation is not None and history.confirmation.difference is not None
    assert history.confirmation.difference.sample_count == 40
    assert history.rejections[0].reason_code is ReasonCode.DUPLICATE
    assert history.spec == run.request
    assert [record.best_so_far for record in history.rounds] == [0.85, 0.85, 0.95]
    assert history.components.objective["worst"] == 0.0 and history.components.min_coverage == 0.95


def test_the_scores_of_samples_can_be_left_out(tmp_path: Path) -> None:
    path = write_history(the_example(), tmp_path, sample_means=False)
    assert "sampleMeans" not in path.read_text()
    assert read_history(path)[0].iterations[0].sample_means is None


def test_several_treatment_factors_and_every_type_are_named() -> None:
    spec = request(
        configuration={
            "model": "gpt-4",
            "prompt": {"value": "Hi", "change": "text"},
            "heat": {"value": 0.5, "change": "structured", "type": "number", "min": 0, "max": 1},
            "flag": {"value": True, "change": "structured", "type": "flag"},
            "tool": {"value": "a", "change": "structured", "type": "choice", "choices": ["a", "b"]},
        },
        optimizer={"proposer": {"kind": "noop"}},
    )
    history = history_of(facts([0.5], spec=spec))
    assert history.treatment_factor_name == "prompt, heat, flag, tool"
    assert history.treatment_factor_type == "String, Number, Boolean, Choice"
    assert [factor.name for factor in history.treatment_factors] == ["prompt", "heat", "flag", "tool"]
    assert history.mutator_description == "No-op (value unchanged)"


def test_minimizing_keeps_the_sign_of_the_change() -> None:
    spec = request(objective={"kind": "mean", "direction": "minimize"})
    history = history_of(facts([0.5, 0.3], spec=spec))
    assert (history.objective, history.score_improvement, history.score_improvement_percent) == ("MINIMIZE", -0.2, -40.0)
    assert history.components.objective["worst"] == 1.0


def test_a_failed_baseline_leaves_a_history_without_a_best(tmp_path: Path) -> None:
    run = facts([None], reason=StopReason.BASELINE_FAILED, message="The baseline failed", status="failed")
    history, _ = read_history(write_history(run, tmp_path))
    assert history.best_iteration is None and history.score_improvement is None
    assert history.termination_reason is not None and history.termination_reason.cause == "EXECUTION_FAILURE"


def test_a_run_that_goes_on_has_no_reason_to_have_ended() -> None:
    history = history_of(facts([0.5], reason=None, status="running"))
    assert history.termination_reason is None and history.end_time is None and history.total_duration_ms is None


@pytest.mark.parametrize("reason", list(StopReason))
def test_every_stop_reason_has_a_cause_of_the_document(reason: StopReason) -> None:
    known = [
        "MAX_ITERATIONS",
        "NO_IMPROVEMENT",
        "SCORE_THRESHOLD_REACHED",
        "TIME_BUDGET_EXHAUSTED",
        "TOKEN_BUDGET_EXHAUSTED",
        "COST_BUDGET_EXHAUSTED",
        "MUTATION_FAILURE",
        "SCORING_FAILURE",
        "EXECUTION_FAILURE",
        "CANCELLED",
        "STOPPED_EARLY",
        "COMPLETED",
    ]
    history = history_of(facts([0.5], reason=reason))
    assert history.termination_reason is not None
    assert history.termination_reason.cause == CAUSES[reason]
    assert history.termination_reason.cause in known
    assert history.termination_reason.reason is reason


# -- reading


def test_a_changed_file_is_read_but_known_to_be_changed(tmp_path: Path) -> None:
    path = write_history(the_example(), tmp_path)
    path.write_text(path.read_text().replace("score: 0.95", "score: 0.96"))
    assert read_history(path)[1] is False


def test_comments_and_the_order_of_fields_do_not_count_as_a_change(tmp_path: Path) -> None:
    path = write_history(the_example(), tmp_path)
    loaded = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(dict(reversed(loaded.items())), allow_unicode=True))
    assert read_history(path)[1] is True
    assert fingerprint(loaded) == loaded["contentFingerprint"]


def test_factor_values_are_accepted_for_factor_suits(tmp_path: Path) -> None:
    path = write_history(the_example(), tmp_path)
    path.write_text(path.read_text().replace("factorSuit:", "factorValues:"))
    history, _ = read_history(path)
    assert history.best_iteration is not None and history.best_iteration.factor_suit["systemPrompt"] == BETTER


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("useCaseId: x\n", "has no schemaVersion"),
        ("just text", "has no schemaVersion"),
        ("schemaVersion: ratchet-optimize-9\n", "schemaVersion 'ratchet-optimize-9'"),
        ("schemaVersion: ratchet-optimize-1\n", "runId: Field required"),
        ("a: [", "is neither YAML nor JSON"),
        ("schemaVersion: ratchet-optimize-1\na: &a [1]\nb: [*a, *a]\n", "aliases"),
        ("schemaVersion: !!python/object/apply:os.system [true]\n", "is neither YAML nor JSON"),
    ],
)
def test_what_is_no_history_is_refused_with_the_reason(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(content)
    with pytest.raises(NotAHistory, match=message):
        read_history(path)


# -- files


def named(run_id: str, **changes: Any) -> RunFacts:
    return the_example().model_copy(update={"run_id": run_id, **changes})


def test_the_file_is_named_after_the_run_and_its_end(tmp_path: Path) -> None:
    path = write_history(the_example(), tmp_path)
    assert path == tmp_path / "optimizations/shopping-assistant/optimize-system-prompt_20260116_104530.yaml"
    assert list(path.parent.iterdir()) == [path]


def test_writing_again_replaces_the_runs_own_file_and_no_other(tmp_path: Path) -> None:
    first, second = write_history(named("one"), tmp_path), write_history(named("two"), tmp_path)
    assert second.name == "optimize-system-prompt_20260116_104530-2.yaml"
    assert write_history(named("two"), tmp_path, sample_means=False) == second
    assert write_history(named("one"), tmp_path) == first
    assert write_history(named('thr"ee: #'), tmp_path).name.endswith("-3.yaml")
    assert write_history(named('thr"ee: #'), tmp_path).name.endswith("-3.yaml")
    assert read_history(first)[0].run_id == "one" and "sampleMeans" not in second.read_text()
    assert write_history(named("one", finished_at=FINISHED + timedelta(seconds=1)), tmp_path).name.endswith("104531.yaml")


def test_a_file_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    path = write_history(the_example(), tmp_path)
    path.write_text("my notes")
    assert write_history(the_example(), tmp_path).name.endswith("-2.yaml")
    assert path.read_text() == "my notes"


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc", "..", ".hidden", "a/b", "a\\b", "-rf", "\x00", "a\nb", "日" * 200, "~", "…"]
)
def test_no_name_leads_out_of_the_folder(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    path = write_history(named("one", use_case=name, experiment=name), folder)
    assert path.resolve().parent.parent == (folder / "optimizations").resolve()
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [path]


@given(st.text(min_size=1))
def test_any_name_becomes_one_part_of_a_path(name: str) -> None:
    safe = file_name(name)
    assert len(Path(safe).parts) == 1 and safe not in {".", ".."} and len(safe.encode()) < 200


# -- entries and JSON


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.none() | st.floats(-1, 1, allow_nan=False), min_size=1, max_size=12),
    st.sampled_from(["maximize", "minimize"]),
    st.sampled_from([None, *StopReason]),
)
def test_the_invariants_of_the_history_hold(scores: list[float | None], direction: str, reason: StopReason | None) -> None:
    run = facts(scores, spec=request(objective={"kind": "mean", "direction": direction}), reason=reason)
    entries = get_entries(run)

    assert json.loads(json.dumps(entries)) == entries
    assert [entry["round_index"] for entry in entries] == list(range(len(entries)))
    assert [trial["trial_index"] for entry in entries for trial in entry["trials"]] == list(range(len(scores)))
    assert [trial["score"] for entry in entries for trial in entry["trials"]] == scores
    best = [entry["best_so_far"] for entry in entries if entry["best_so_far"] is not None]
    assert best == sorted(best, reverse=direction == "minimize")
    assert [entry["stop_reason"] for entry in entries if entry["stopped"]] == ([reason.value] if reason else [])
    assert all((entry["stop_reason"] is not None) == entry["stopped"] for entry in entries)


def test_trials_of_a_round_that_was_never_decided_are_listed_but_win_nothing() -> None:
    run = facts([0.5, 0.6, 0.9], reason=StopReason.CANCELLED, status="cancelled")
    result = run.result.model_copy(update={"best_candidate_id": run.iterations[1].candidate_id}) if run.result else None
    entries = get_entries(run.model_copy(update={"rounds": run.rounds[:2], "result": result}))
    assert len(entries) == 3 and entries[2]["best_so_far"] == 0.6 and entries[2]["extra"] == {"decided": False}
    assert (entries[2]["stop_reason"], entries[1]["stop_reason"]) == ("cancelled", None)


def test_every_trial_that_was_run_is_in_the_entries_with_its_purpose() -> None:
    run = facts([0.5, 0.6])
    first, second = run.iterations

    def beside(trial: Iteration, purpose: Purpose, **changes: Any) -> Iteration:
        return trial.model_copy(
            update={"number": 0, "purpose": purpose, "trial_id": f"{purpose}/{trial.candidate_id}", **changes}
        )

    entries = get_entries(
        run.model_copy(
            update={
                "iterations": (first, second.model_copy(update={"index": 2})),
                "further": (
                    beside(first, Purpose.CONFIRMATION, split="test"),
                    beside(second, Purpose.CONFIRMATION, split="test"),
                    beside(second, Purpose.EXPLORATION, index=1, samples=3, score=1.0),
                    beside(second, Purpose.EXPLORATION, candidate_id="dropped", score=1.0),
                    beside(first, Purpose.NOISE),
                ),
            }
        )
    )
    trials = [trial for entry in entries for trial in entry["trials"]]
    assert [trial["trial_index"] for trial in trials] == list(range(7))
    assert [[trial["extra"]["purpose"] for trial in entry["trials"]] for entry in entries] == [
        ["noise", "candidate"],
        ["exploration", "exploration", "candidate", "confirmation", "confirmation"],
    ]
    assert [trial["extra"]["iteration"] for trial in trials] == [None, 0, None, None, 1, None, None]
    assert entries[1]["best_score"] == 0.6, "what scored on some samples only is not the best of its round"
    assert [(one["id"], one["score"]) for one in entries[1]["candidates"]] == [(second.candidate_id, 0.6), ("dropped", None)]


def test_the_front_and_tools_have_the_form_of_the_document() -> None:
    template = PromptTemplate.model_validate(
        {
            "name": "shop/assistant",
            "sections": [
                {"kind": "text", "path": "task", "body": "Help."},
                {
                    "kind": "tool",
                    "path": "tools/find",
                    "name": "find",
                    "description": "Finds.",
                    "parameters": {"type": "object"},
                },
            ],
        }
    )
    spec = request(prompt="shop/assistant", target={"kind": "python", "ref": "shop.eval:target"})
    assert spec.prompt is not None
    snapshot = PromptSnapshot(template=template, overlay_hash="0" * 64)
    spec = spec.model_copy(update={"prompt": spec.prompt.model_copy(update={"snapshot": snapshot})})
    sections = {"section:task": "Help {{input.name}}.", "section:tools/find": "Finds goods."}
    run = facts([0.5, 0.6], spec=spec, values={0: sections, 1: sections})
    member = FrontMember(candidate_id=run.iterations[1].candidate_id, gains={"cost": 0.1}, verdicts={"cost": Verdict.BETTER})
    last = run.rounds[1].model_copy(update={"pareto_front": (member,), "extra": {"selection_meta": {"method": "best"}}})
    _, entry = get_entries(run.model_copy(update={"rounds": (run.rounds[0], last)}))
    [told] = entry["extra"]["pareto_front"]
    assert told["id"] == member.candidate_id and told["metrics"]["tokens"] == 9000
    assert (told["gains"], told["verdicts"]) == ({"cost": 0.1}, {"cost": "better"})
    assert entry["extra"]["selection_meta"] == {"method": "best"}
    messages = entry["candidates"][0]["extra"]["chat_prompt"]["messages"]
    assert messages == [{"role": "system", "content": "Help {{input.name}}."}]
    [tool] = entry["candidates"][0]["tools"]
    assert tool["function"] == {"name": "find", "description": "Finds goods.", "parameters": {"type": "object"}}


def test_candidates_carry_their_lineage_and_what_the_optimizer_noted() -> None:
    run = the_example()
    noted = run.iterations[1].model_copy(
        update={"extra": {"origin": "mutation", "operators": ["model"]}, "rationale": "be specific", "split": "validation"}
    )
    entries = get_entries(run.model_copy(update={"iterations": (run.iterations[0], noted)}))
    trial = entries[1]["trials"][0]
    assert trial["candidate"]["extra"].items() >= {"origin": "mutation", "ops": ["model"], "parents": ["r0"]}.items()
    assert trial["candidate"]["notes"] == "be specific" and trial["extra"]["dataset_split"] == "validation"
    assert entries[1]["candidates"] == [trial["candidate"]]


def test_the_json_report_says_what_the_box_says() -> None:
    report = json.loads(json.dumps(report_json(the_example())))
    assert report["headline"] == headline_of(the_example()).model_dump(mode="json")
    assert (report["headline"]["score"], report["headline"]["in_search"]["best_score"], report["best_iteration"]) == (
        0.95,
        0.95,
        7,
    )
    assert (report["stop_reason"], report["cause"]) == ("no_improvement", "NO_IMPROVEMENT")
    assert report["objective"] == "MAXIMIZE success rate" and report["treatment"] == ["systemPrompt"]
    assert report["best"]["candidate"]["systemPrompt"] == BETTER
    assert len(report["rounds"]) == 12

    failed = report_json(facts([None], reason=StopReason.BASELINE_FAILED, status="failed"))
    assert failed["best"] is None and failed["headline"]["score"] is None


def test_scores_too_far_apart_for_a_number_are_reported_all_the_same(tmp_path: Path) -> None:
    run = facts([-1.7e308, 1.7e308])
    assert read_history(write_history(run, tmp_path))[0].score_improvement is None
    assert json.dumps(report_json(run), allow_nan=False)
