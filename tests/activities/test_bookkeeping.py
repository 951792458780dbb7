"""Bookkeeping: what a run's workflow asks of the store, retried at will, refused clearly."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.bookkeeping import StoreBookkeeping
from activities.datasets import ingest
from activities.preparing.evaluation_plan import scorer_fingerprint, target_fingerprint
from activities.settings import DatasetSettings
from store.connection import Database
from store.errors import store_errors
from store.read import dataset_items
from store.read.reader import StoreReader
from store.write.repositories import Store
from tests.support.pictures import png
from tests.support.spec_building import state as run_state
from tests.support.store_examples import ExampleRun
from workflows.model.failures import INVALID_REQUEST
from workflows.model.run.contract import CandidateKey, CommitRounds, HistoryPage, Prepared, PrepareInput
from workflows.model.spec.dataset import Dataset
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import Split

Run = Callable[..., Awaitable[Any]]


@pytest.fixture
def bookkeeping(database: Database, tmp_path: Path) -> StoreBookkeeping:
    return StoreBookkeeping(
        database, search_attributes=True, versions={"ratchet": "0.1.0"}, datasets_from=DatasetSettings(data_dir=tmp_path)
    )


@pytest.fixture
def environment() -> ActivityEnvironment:
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(
        environment.info, workflow_run_id="execution-1", task_queue="optimization", heartbeat_timeout=timedelta(seconds=0.03)
    )
    return environment


@pytest.fixture
def prepare(
    bookkeeping: StoreBookkeeping, environment: ActivityEnvironment, example: ExampleRun
) -> Callable[..., Awaitable[Prepared]]:
    async def prepare(run_id: str = "triage-1", **changes: Any) -> Prepared:
        request = PrepareInput(run_id=run_id, request=example.spec(**changes), evaluators={"my_pkg.eval:target": "source-1"})
        return await environment.run(bookkeeping.prepare, request)

    return prepare


class TestPrepare:
    """Everything is checked before anything is stored, and stored once."""

    async def test_it_answers_what_the_workflow_needs_to_know(self, prepare: Run, reader: StoreReader) -> None:
        prepared = await prepare(
            dataset=[{"input": 1, "expected": 1}, {"input": 2, "expected": 2}, {"input": 1, "expected": 1}]
        )
        run = await reader.runs.load("triage-1")
        assert run is not None
        assert (prepared.search_split, prepared.search_samples, prepared.test_samples) == (Split.ALL, 2, 0)
        assert (prepared.duplicates_dropped, prepared.search_attributes, prepared.versions) == (1, True, {"ratchet": "0.1.0"})
        assert (run.dataset_id, run.evaluation_suite_id) == (prepared.dataset_id, prepared.evaluation_suite_id)
        assert (run.status, run.task_queue) == ("initialized", "optimization")
        assert [event.type for event in await reader.events.after("triage-1")] == ["run_status_changed"]

    async def test_preparing_again_changes_nothing(self, prepare: Run, reader: StoreReader, store: Store) -> None:
        first = await prepare()
        await store.served_times.mark(["optimization", "optimization-evaluation"])  # until then, time passes unserved
        before = await reader.runs.report("triage-1")
        assert await prepare() == first
        assert await reader.runs.report("triage-1") == before

    async def test_files_that_factors_name_are_taken_in_and_named_by_content_from_here_on(
        self, prepare: Run, reader: StoreReader, tmp_path: Path
    ) -> None:
        (tmp_path / "style.png").write_bytes(png(41))
        prepared = await prepare(configuration={"style": {"$file": "style.png"}})
        named = prepared.read.configuration["style"].value
        kept = await reader.files.load(named["$file"].removeprefix("sha256:"))
        assert kept is not None and kept.content == png(41)
        state = run_state(configuration={"style": {"$file": "style.png"}})
        state.open(prepared)
        assert state.request.baseline == {"style": named}
        with pytest.raises(
            ApplicationError, match=r"configuration\.style\.value: a file that it names is not in RATCHET_DATA_DIR"
        ):
            await prepare(configuration={"style": {"$file": "gone.png"}})

    async def test_it_heartbeats_while_it_works(self, prepare: Run, environment: ActivityEnvironment) -> None:
        beats: list[Any] = []
        environment.on_heartbeat = lambda *details: beats.append(details)
        await prepare()
        assert beats and set(beats) == {()}

    @pytest.mark.parametrize(
        ("shares", "split", "search", "test"),
        [
            ({"train": 0.4, "validation": 0.4, "test": 0.2}, Split.VALIDATION, 4, 2),
            ({"train": 0.5, "test": 0.5}, Split.TRAIN, 5, 5),
            ({"validation": 1.0}, Split.VALIDATION, 10, 0),
        ],
    )
    async def test_candidates_are_searched_on_validation_else_on_train(
        self, prepare: Run, example: ExampleRun, shares: dict[str, float], split: Split, search: int, test: int
    ) -> None:
        items = [{"input": n, "expected": n} for n in range(10)]
        prepared = await prepare(dataset={"items": items, "splits": shares})
        assert (prepared.search_split, prepared.search_samples, prepared.test_samples) == (split, search, test)
        searched = await example.store.suites.load("triage-1", split)
        assert (searched.samples, searched.split, searched.metric) == (search, split, "exact")
        if test:
            held_back = await example.store.suites.load("triage-1", Split.TEST)
            assert (held_back.samples, held_back.target_fingerprint) == (test, searched.target_fingerprint)
            assert held_back.suite_id != searched.suite_id == prepared.evaluation_suite_id

    async def test_a_trial_uses_the_first_samples_of_the_split_when_told_how_many(
        self, prepare: Run, example: ExampleRun
    ) -> None:
        items = [{"input": n, "expected": n} for n in range(10)]
        whole = await prepare("whole", dataset=items)
        some = await prepare("some", dataset=items, samples_per_trial=3)
        assert (whole.search_samples, some.search_samples) == (10, 3)
        async with example.database.connection() as connection:
            drawn = {
                run_id: [
                    row["item_hash"]
                    for row in await connection.fetch(
                        "SELECT item_hash FROM suite_samples WHERE run_id = $1 ORDER BY position", run_id
                    )
                ]
                for run_id in ("whole", "some")
            }
        assert drawn["some"] == drawn["whole"][:3]

    async def test_a_file_is_read_inside_the_data_directory(self, prepare: Run, tmp_path: Path) -> None:
        (tmp_path / "tickets.jsonl").write_text('{"input": 1, "expected": 1}\n{"input": 2, "expected": 2}\n')
        assert (await prepare(dataset={"path": "tickets.jsonl"})).search_samples == 2

    async def test_a_dataset_ingested_before_is_found_by_its_id(self, prepare: Run, database: Database, tmp_path: Path) -> None:
        (tmp_path / "tickets.jsonl").write_text('{"input": 1, "expected": 1}\n{"input": 2, "expected": 2}\n')
        stored = await ingest(database, tmp_path / "tickets.jsonl")
        assert (await prepare(dataset={"id": stored.dataset_id})).dataset_id == stored.dataset_id

    async def test_what_samples_lack_is_told_wherever_they_lie(
        self, prepare: Run, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The last of several pages lacks what the target sends, and what the scorer compares with."""
        monkeypatch.setattr(dataset_items, "SAMPLES_AT_ONCE", 2)
        items = [{"id": f"s{n}", "input": {"ticket": n}, "expected": n} for n in range(4)]
        stored = await ingest(
            database, Dataset.model_validate({"items": [*items, {"id": "s4", "input": {"Ticket": 4}}]}).items or []
        )
        chat = {"kind": "chat", "model": "m", "messages": [{"role": "user", "content": "{{input.ticket}}"}]}
        with pytest.raises(ApplicationError) as caught:
            await prepare(target=chat, dataset={"id": stored.dataset_id})
        lacking = "dataset.id: sample 's4': input has no 'ticket', which the target needs"
        unusable = (
            "dataset.id: sample 's4': expected: is missing, which scorers[0] (exact) needs; correct it, or use another scorer"
        )
        assert caught.value.message.splitlines() == [lacking, unusable]
        whole = await ingest(database, Dataset.model_validate({"items": items}).items or [])
        assert (await prepare(target=chat, dataset={"id": whole.dataset_id})).search_samples == 4

    async def test_splits_that_are_given_are_taken_and_what_leaks_is_told(self, prepare: Run, database: Database) -> None:
        drawn = {"train": [1, 2, 3], "validation": [3, 4], "test": [5, 6, 1]}
        given = {"items": {split: [{"input": n, "expected": n} for n in inputs] for split, inputs in drawn.items()}}
        stored = await ingest(database, Dataset.model_validate(given).items or [])
        for run_id, dataset in (("inline", given), ("stored", {"id": stored.dataset_id})):
            prepared = await prepare(run_id, dataset=dataset)
            assert (prepared.search_samples, prepared.test_samples, prepared.train_samples) == (1, 2, 3)
            assert {split: left_out.count for split, left_out in prepared.left_out.items()} == {"validation": 1, "test": 1}
            assert await prepare(run_id, dataset=dataset) == prepared  # a worker that died after it did so

    @pytest.mark.parametrize(
        ("asked", "told"),
        [
            (
                {"release": {"prompt": "a/b", "mode": "automatic"}},
                "release.mode: automatic needs samples that the search never",
            ),
            ({"optimizer": {"name": "few_shot", "factor": "shown"}}, "dataset.splits: few_shot shows train samples"),
            (
                {"optimizer": {"name": "refine", "proposer": {"kind": "noop"}, "examples_from": "train"}},
                "optimizer.examples_from: is train, but there are no training samples",
            ),
        ],
    )
    async def test_splits_that_are_needed_are_missed_once_the_samples_are_read(
        self, prepare: Run, example: ExampleRun, tmp_path: Path, asked: dict[str, Any], told: str
    ) -> None:
        factors = example.spec().model_dump(mode="json", by_alias=True)["configuration"]
        if "optimizer" in asked:
            factors["shown"] = {"value": [], "change": "structured", "type": "json", "schema": {"type": "array"}}
        spec = {"configuration": factors, "dataset": {"path": "some.jsonl"}, **asked}
        items = [
            {"input": n, "expected": n, "split": "train" if n < 3 else "validation" if n < 6 else "test"} for n in range(9)
        ]
        (tmp_path / "some.jsonl").write_text("\n".join(map(json.dumps, items)))
        if "release" not in asked:
            assert (await prepare(**spec)).train_samples == 3
        (tmp_path / "some.jsonl").write_text("\n".join(json.dumps({**item, "split": "validation"}) for item in items))
        with pytest.raises(ApplicationError) as caught:
            await prepare("other", **spec)
        assert caught.value.message.startswith(told)

    @pytest.mark.parametrize(
        ("dataset", "message"),
        [
            ({"paths": {"train": "broken.jsonl"}}, "dataset.paths.train: broken.jsonl line 2: input: is missing; add it"),
            ({"paths": {"train": "missing.jsonl"}}, "dataset.paths.train: there is no file 'missing.jsonl'"),
            ({"items": {"train": [1], "test": [1]}}, "dataset.items: test has no sample of its own"),
            ({"path": "../etc/passwd"}, "leads outside RATCHET_DATA_DIR"),
            ({"path": "missing.jsonl"}, "there is no file 'missing.jsonl'"),
            ({"path": "broken.jsonl"}, "broken.jsonl line 2: input: is missing; add it"),
            ({"id": "0" * 64}, "is not in the store; ingest it first"),
            ([{"id": "a", "input": 1}, {"id": "a", "input": 2}], "id 'a' was used before"),
        ],
    )
    async def test_a_bad_dataset_is_the_requests_fault(
        self, prepare: Run, reader: StoreReader, tmp_path: Path, dataset: Any, message: str
    ) -> None:
        (tmp_path / "broken.jsonl").write_text('{"input": 1}\n{"expected": 2}\n')
        with pytest.raises(ApplicationError) as caught:
            await prepare(dataset=dataset)
        assert (caught.value.type, caught.value.non_retryable) == (INVALID_REQUEST, True)
        assert message in caught.value.message
        assert await reader.runs.page() == []

    async def test_all_that_is_wrong_with_a_spec_comes_in_one_message(self, prepare: Run, reader: StoreReader) -> None:
        with pytest.raises(ApplicationError) as caught:
            await prepare(
                target={"kind": "chat", "messages": [{"role": "user", "content": "{{factors.missing}} {{outside}}"}]},
                objective={"metric": "unknown"},
            )
        assert (caught.value.type, caught.value.non_retryable) == (INVALID_REQUEST, True)
        assert len(caught.value.message.splitlines()) >= 3
        assert await reader.datasets.all() == []


class TestFingerprints:
    """Answers and scores are the same as long as all that each depends on is the same."""

    def fingerprints(self, example: ExampleRun, plugins: dict[str, str] | None = None, **changes: Any) -> tuple[str, str]:
        made, plugins = example.spec(**changes), plugins or {"my_pkg.eval:target": "1"}
        return target_fingerprint(made, plugins), scorer_fingerprint(made, plugins)

    def test_prices_objective_and_budget_do_not_matter(self, example: ExampleRun) -> None:
        prices = {"m": {"input": 1, "output": 2}}
        assert self.fingerprints(example) == self.fingerprints(
            example, prices=prices, objective={"kind": "success_rate"}, budget={"tokens": 5}, name="other"
        )

    @pytest.mark.parametrize(
        ("change", "other"),
        [
            ({"plugins": {"my_pkg.eval:target": "2"}}, "target"),
            ({"scorers": [{"kind": "exact", "ignore_case": True}]}, "scorers"),
            ({"scorers": [{"kind": "exact", "threshold": 0.9}]}, "scorers"),
            ({"target": {"kind": "python", "ref": "my_pkg.eval:other"}}, "target"),
            ({"target": {"kind": "chat", "messages": [{"role": "user", "content": "Hi"}]}}, "target"),
        ],
    )
    def test_target_scorers_and_sources_do(self, example: ExampleRun, change: dict[str, Any], other: str) -> None:
        (target, scorers), (changed, rescored) = self.fingerprints(example), self.fingerprints(example, **change)
        assert (target != changed, scorers != rescored) == (other == "target", other == "scorers")

    def test_a_plugin_that_neither_answers_nor_scores_does_not(self, example: ExampleRun) -> None:
        plugins = {"my_pkg.eval:target": "1", "my_pkg.propose:proposer": "changed"}
        assert self.fingerprints(example) == self.fingerprints(example, plugins)


async def test_a_run_is_booked_from_its_first_trial_to_its_end(
    bookkeeping: StoreBookkeeping, environment: ActivityEnvironment, example: ExampleRun, reader: StoreReader
) -> None:
    run = await example.open()
    better = run.trial(run.candidate("better", parent_candidate_ids=("baseline",)), records=(run.round(0),))
    for trial, score in ((run.trial(), 0.5), (better, 0.75)):
        await environment.run(bookkeeping.begin_trial, trial)
        await run.record(trial, score)
    await environment.run(bookkeeping.commit_rounds, CommitRounds(run_id=run.run_id, records=(run.round(1),)))

    history = await environment.run(bookkeeping.load_history, HistoryPage(run_id=run.run_id))
    candidate = await environment.run(bookkeeping.load_candidate, CandidateKey(run_id=run.run_id, candidate_id="better"))
    await environment.run(bookkeeping.finish_run, run.finish())

    assert [(row.facts.candidate_id, row.facts.score) for row in history.rows] == [("baseline", 0.5), ("better", 0.75)]
    assert candidate == better.candidate
    report = await reader.runs.report(run.run_id)
    assert report is not None and (report.run.status, len(report.rounds)) == ("completed", 2)


class TestErrors:
    """What passes by itself is retried; what does not, never."""

    @pytest.mark.parametrize(
        "error", [asyncpg.CheckViolationError("no"), asyncpg.DataError("bad argument"), asyncpg.UndefinedColumnError("no such")]
    )
    def test_what_the_store_refuses_for_good_is_not_retried(self, error: Exception) -> None:
        with pytest.raises(ApplicationError, match="the store refuses this for good") as caught, store_errors():
            raise error
        assert caught.value.non_retryable

    @pytest.mark.parametrize(
        "error", [ConnectionRefusedError(), asyncpg.AdminShutdownError("going"), asyncpg.InterfaceError("connection is closed")]
    )
    def test_a_store_that_is_away_is_asked_again(self, error: Exception) -> None:
        with pytest.raises(type(error)), store_errors():
            raise error

    async def test_a_run_that_was_deleted_ends_its_workflow(
        self, bookkeeping: StoreBookkeeping, environment: ActivityEnvironment, example: ExampleRun, reader: StoreReader
    ) -> None:
        run = await example.open()
        await run.store.runs.delete(run.run_id)
        with pytest.raises(ApplicationError, match="is not in the store") as caught:
            await environment.run(bookkeeping.begin_trial, run.trial())
        assert caught.value.non_retryable

    async def test_an_unknown_candidate_is_named(
        self, bookkeeping: StoreBookkeeping, environment: ActivityEnvironment, example: ExampleRun
    ) -> None:
        await example.open()
        with pytest.raises(ApplicationError, match="has no candidate 'nobody'"):
            await environment.run(bookkeeping.load_candidate, CandidateKey(run_id="triage-1", candidate_id="nobody"))


def test_a_spec_survives_the_store_unchanged(example: ExampleRun) -> None:
    spec = example.spec(objective={"metric": "exact", "direction": "minimize"}, stop={"score": 0.1})
    assert OptimizationRequest.model_validate(json.loads(spec.model_dump_json(by_alias=True))) == spec
