"""What the tests of the store are made of: a PostgreSQL server that can be killed, and a small run."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import socket
import subprocess
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
from pydantic import JsonValue

from activities.datasets import ingest
from activities.preparing.evaluation_plan import plan_evaluation
from clients.embedded.postgres import postgres_binaries
from ratchet._formats.canonical import content_hash
from store.connection import Database, is_away
from store.write.datasets import Datasets
from store.write.repositories import Store
from store.write.runs import NewRun
from workflows.model.run.candidates import Candidate
from workflows.model.run.contract import FinishInput, PrepareInput
from workflows.model.run.rounds import RoundRecord
from workflows.model.run.run_result import OptimizationResult
from workflows.model.run.test_split import OpenTestSplit
from workflows.model.spec.request import OptimizationRequest
from workflows.model.suite import EvaluationSuite, Outcome
from workflows.model.trial import Conclusion, Purpose, ShardInput, TrialInput, TrialResult

TEMPLATE = "migrated"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
_numbers = count()


@dataclass
class PostgresServer:
    """A throw-away server that can be killed and started again."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    databases: list[str] = field(default_factory=list)

    def make_data(self) -> None:
        self._run("initdb", "-U", "ratchet", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D", "data")

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": os.environ.get("RATCHET_TEST_FSYNC", "off"),
            "jit": "off",
            "shared_buffers": "64MB",
            "max_connections": "60",
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(postgres_binaries() / "postgres"), "-D", "data", "-p", str(self.port), *options],
                **self._as_user(),
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """The postmaster alone, as the kernel would; its children notice and end."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()

    def url(self, database: str) -> str:
        return f"postgresql://ratchet@127.0.0.1:{self.port}/{database}?sslmode=disable"

    async def until_it_answers(self) -> None:
        async with asyncio.timeout(20):
            while True:
                try:
                    connection = await asyncpg.connect(self.url("postgres"))
                except Exception as error:
                    if not is_away(error):
                        raise
                    await asyncio.sleep(0.01)
                else:
                    await connection.close()
                    return

    async def execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    async def new_database(self, template: str = TEMPLATE) -> str:
        name = f"test{next(_numbers)}"
        await self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return name

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(postgres_binaries() / program), *arguments],
            **self._as_user(),
            cwd=self.folder,
            check=True,
            capture_output=True,
        )

    def _as_user(self) -> dict[str, Any]:
        """PostgreSQL refuses to run as root."""
        if os.geteuid() != 0:
            return {"stdin": subprocess.DEVNULL}
        nobody = pwd.getpwnam("nobody")
        return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": [], "stdin": subprocess.DEVNULL}


def started_server() -> PostgresServer:
    folder = Path(tempfile.mkdtemp(prefix="ratchet-pg-"))
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = PostgresServer(folder, port)
    server.make_data()
    server.start()
    return server


@dataclass
class ExampleRun:
    """A small run in the store, and the pieces that activities hand to it."""

    store: Store
    database: Database
    run_id: str = "triage-1"
    replicates: int = 2
    samples: int = 5
    configuration: dict[str, JsonValue] = field(default_factory=lambda: {"prompt": "Sort it.", "temperature": 0.5})
    suite: EvaluationSuite = field(init=False)
    item_hashes: list[str] = field(init=False)

    @property
    def config_hash(self) -> str:
        return content_hash(self.configuration)

    def spec(self, **changes: Any) -> OptimizationRequest:
        return OptimizationRequest.model_validate(
            {
                "name": "triage",
                "configuration": {
                    "prompt": {"value": self.configuration["prompt"], "change": "text"},
                    "temperature": self.configuration["temperature"],
                },
                "target": {"kind": "python", "ref": "my_pkg.eval:target"},
                "dataset": {"items": [{"input": {"n": n}, "expected": n} for n in range(self.samples)]},
                "objective": {"metric": "exact"},
                "optimizer": {"name": "refine", "proposer": {"kind": "noop"}},
                "replicates": self.replicates,
                **changes,
            }
        )

    async def open(self, *, execution_id: str = "execution-1", **changes: Any) -> ExampleRun:
        spec = self.spec(**changes)
        assert spec.dataset.items is not None
        dataset = await ingest(self.database, spec.dataset.items)
        hashes = await Datasets(self.database).item_hashes(dataset.dataset_id)
        prepare = PrepareInput(run_id=self.run_id, request=spec, evaluators={"my_pkg.eval:target": "source-1"})
        plan = plan_evaluation(prepare, dataset.dataset_id, hashes)
        self.suite, self.item_hashes = plan.search.suite, list(plan.search.item_hashes)
        await self.store.runs.open(
            NewRun(
                run_id=self.run_id,
                execution_id=execution_id,
                request=spec,
                task_queue="optimization",
                versions={"ratchet": "0.1.0"},
                baseline_hash=self.config_hash,
                baseline=self.configuration,
                suites=list(plan.suites),
            )
        )
        return self

    async def confirming(self, candidate: Candidate | None = None) -> TrialInput:
        """A trial on the held-back samples, which are opened for it."""
        trial = self.trial(candidate, purpose=Purpose.CONFIRMATION, split="test", trial_id=f"{self.run_id}/test/baseline")
        asked = OpenTestSplit(run_id=self.run_id, config_hashes=(trial.candidate.config_hash,))
        await self.store.held_back_splits.open(asked)
        return trial

    def candidate(self, name: str = "baseline", **changes: Any) -> Candidate:
        configuration = {**self.configuration, **({} if name == "baseline" else {"prompt": f"Sort it, {name}."})}
        return Candidate(
            **{
                "candidate_id": name,
                "config_hash": content_hash(configuration),
                "configuration": configuration,
                "round": 0 if name == "baseline" else 1,
                "index": 0,
                **changes,
            }
        )

    def trial(self, candidate: Candidate | None = None, **changes: Any) -> TrialInput:
        candidate = candidate or self.candidate()
        return TrialInput(
            **{
                "run_id": self.run_id,
                "trial_id": f"{self.run_id}/r{candidate.round}/{candidate.config_hash[:8]}",
                "candidate": candidate,
                "purpose": Purpose.BASELINE if candidate.candidate_id == "baseline" else Purpose.CANDIDATE,
                "split": self.suite.split,
                "samples": self.suite.samples,
                "replicates": self.replicates,
                "evaluation_task_queue": "optimization-evaluation",
                **changes,
            }
        )

    def shard(self, trial: TrialInput | None = None, first: int = 0, last: int | None = None) -> ShardInput:
        trial = trial or self.trial()
        return ShardInput(
            run_id=self.run_id,
            trial_id=trial.trial_id,
            candidate_id=trial.candidate.candidate_id,
            config_hash=trial.candidate.config_hash,
            split=trial.split,
            first=first,
            last=trial.samples * trial.replicates if last is None else last,
            replicates=trial.replicates,
            first_replicate=trial.candidate.first_replicate,
        )

    def outcome(self, position: int = 0, replicate: int = 0, score: float = 1.0, **changes: Any) -> Outcome:
        return Outcome(
            **{
                "item_hash": self.item_hashes[position],
                "replicate": replicate,
                "status": "answered",
                "scores": {"exact": score},
                "passed": score >= 0.5,
                "output": f"answer {position}",
                "tokens": 10,
                "cost": 0.001,
                "latency_ms": 12.5,
                "per_score": {"exact": {"passed": score >= 0.5, "reason": None}},
                **changes,
            }
        )

    async def execute(self, statement: str) -> None:
        async with self.database.connection() as connection:
            await connection.execute(statement)

    async def values(self, query: str) -> list[Any]:
        """The only column of what is found."""
        async with self.database.connection() as connection:
            return [row[0] for row in await connection.fetch(query)]

    async def answer_everything(self, trial: TrialInput | None = None, score: float = 1.0) -> list[Outcome]:
        shard = self.shard(trial)
        work = await self.store.outcomes.missing(shard)
        outcomes = [self.outcome(pair.position, pair.replicate, score) for pair in work.pairs]
        await self.store.outcomes.commit(shard, self.suite, outcomes)
        return outcomes

    def result(self, trial: TrialInput, score: float | None = 0.5, **changes: Any) -> TrialResult:
        return TrialResult(
            **{
                "optimization_id": self.run_id,
                "candidate_id": trial.candidate.candidate_id,
                "mask_id": trial.candidate.config_hash,
                "experiment_id": trial.trial_id,
                "status": "completed",
                "objective_score": score,
                "coverage": 1.0,
                "paid_samples": 10,
                "paid_tokens": 100,
                "paid_cost": 0.01,
                "duration_ms": 1200,
                **changes,
            }
        )

    async def record(self, trial: TrialInput, score: float | None = 0.5, **changes: Any) -> TrialResult:
        result = self.result(trial, score, **changes)
        await self.store.trials.record(result, Conclusion(trial=trial), [score] * trial.samples)
        return result

    def round(self, number: int, **changes: Any) -> RoundRecord:
        return RoundRecord(**{"run_id": self.run_id, "round": number, "decided_at": NOON, **changes})

    def finish(self, status: str = "completed", **changes: Any) -> FinishInput:
        result = {
            "optimization_id": self.run_id,
            "status": status,
            "stop_reason": "max_rounds" if status == "completed" else "cancelled",
            "message": "Reached 1 rounds",
            "rounds": 1,
            **changes,
        }
        return FinishInput(run_id=self.run_id, result=OptimizationResult(**result))
