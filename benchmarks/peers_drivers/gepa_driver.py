"""`gepa.optimize`, resumed by its `run_dir`.

Variants: `default`, the adapter that comes with it, around a callable (it calls one after another); `threads`, an adapter
of our own that evaluates a batch in a thread pool; `parallel`, the same with its parallel proposals (2 parents x 3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gepa  # type: ignore[import-not-found,unused-ignore]
from gepa.adapters.default_adapter.default_adapter import (  # type: ignore[import-not-found,unused-ignore]
    DefaultAdapter,
    EvaluationResult,
)
from gepa.core.adapter import EvaluationBatch  # type: ignore[import-not-found,unused-ignore]
from gepa.strategies.proposal_sampling import PxNSampling  # type: ignore[import-not-found,unused-ignore]

from benchmarks.peers_drivers.driving import Job, Outcome, drive
from benchmarks.peers_drivers.task import BASELINE, answer, propose, samples

COMPONENT = "instruction"


class ThreadedAdapter:
    """A batch at a time in a pool of as many threads as calls are allowed at once."""

    propose_new_texts = None

    def __init__(self, job: Job) -> None:
        self.job = job
        self.pool = ThreadPoolExecutor(job.concurrency)

    def evaluate(self, batch: list[Any], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        return self.batch_evaluate([(candidate, batch)])[0]

    def batch_evaluate(self, items: list[tuple[dict[str, str], list[Any]]], **_: Any) -> list[Any]:
        asked = [(candidate[COMPONENT], item["input"]) for candidate, batch in items for item in batch]
        scores = iter(list(self.pool.map(self._answer, asked)))
        return [self._batch([next(scores) for _ in batch]) for _, batch in items]

    def _answer(self, asked: tuple[str, str]) -> float:
        return answer(*asked, self.job.latency, self.job.log)

    @staticmethod
    def _batch(scores: list[float]) -> Any:
        return EvaluationBatch(outputs=scores, scores=scores, trajectories=[{"score": value} for value in scores])

    def make_reflective_dataset(self, candidate: dict[str, str], evaluated: Any, components: list[str]) -> dict[str, Any]:
        return {name: [{"Feedback": f"{value:.6f}"} for value in evaluated.scores] for name in components}


def default_adapter(job: Job) -> Any:
    def model(messages: Sequence[Mapping[str, str]]) -> str:
        return f"{answer(messages[0]['content'], messages[1]['content'], job.latency, job.log):.6f}"

    def evaluator(data: Any, response: str) -> Any:
        return EvaluationResult(score=float(response), feedback=response)

    return DefaultAdapter(model=model, evaluator=evaluator)


def run(job: Job) -> Outcome:
    def proposer(candidate: dict[str, str], records: Mapping[str, Sequence[Mapping[str, Any]]], components: list[str]) -> Any:
        seen = [float(number) for name in components for record in records[name] for number in _feedback(record)]
        return {name: propose(candidate[name], seen) for name in components}

    result = gepa.optimize(
        seed_candidate={COMPONENT: BASELINE},
        trainset=[{"input": sample, "additional_context": {}, "answer": ""} for sample in samples(job.samples)],
        adapter=default_adapter(job) if job.variant == "default" else ThreadedAdapter(job),
        custom_candidate_proposer=proposer,
        sampling_strategy=PxNSampling(2, 3) if job.variant == "parallel" else None,
        max_metric_calls=job.budget,
        run_dir=job.directory,
        logger=Silent(),
        seed=7,
    )
    return Outcome(job.budget, result.total_metric_calls)


def _feedback(record: Mapping[str, Any]) -> list[str]:
    return re.findall(r"\d\.\d+", str(record["Feedback"]))


class Silent:
    def log(self, message: str) -> None:
        """Its default logger prints every iteration; that is not what is measured."""


if __name__ == "__main__":
    drive("gepa", run)
