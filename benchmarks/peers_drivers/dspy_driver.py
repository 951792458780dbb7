"""`dspy.Evaluate` and `dspy.GEPA`, resumed by its `log_dir`.

The target is the engine of a `dspy.LM`, which is how a language model is plugged in. Variants: `evaluate`; `gepa`, with dspy's
cache of model answers off, as any program has it that is more than a model's call; `gepa_cached`, with that cache on disk.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy  # type: ignore[import-not-found,unused-ignore]
from dspy.lm15 import Message, Response, TextPart, Usage  # type: ignore[import-not-found,unused-ignore]

from benchmarks.peers_drivers.driving import Job, Outcome, drive
from benchmarks.peers_drivers.task import BASELINE, answer, propose, samples

INSTRUCTION = re.compile(r"Instruction \w+")
SAMPLE = re.compile(r"s\d{5}")


class Target:
    """A language model, as dspy sees it."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def complete(self, request: Any) -> Any:
        prompt = f"{request.system}\n{request.messages[-1].text}"
        value = answer(_only(INSTRUCTION, prompt), _only(SAMPLE, prompt), self.job.latency, self.job.log)
        text = f"[[ ## answer ## ]]\n{value:.6f}\n\n[[ ## completed ## ]]"
        usage = Usage(input_tokens=0, output_tokens=0, total_tokens=0)
        return Response(
            id=None, model=request.model, message=Message.assistant([TextPart(text)]), finish_reason="stop", usage=usage
        )

    def close(self) -> None:
        """Nothing is held."""


def _only(pattern: re.Pattern[str], prompt: str) -> str:
    [found] = set(pattern.findall(prompt))
    return str(found)


def metric(gold: Any, predicted: Any, *_: Any) -> float:
    return float(predicted.answer)


def feedback_metric(gold: Any, predicted: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> Any:
    return dspy.Prediction(score=float(predicted.answer), feedback=predicted.answer)


def run(job: Job) -> Outcome:
    cached = job.variant == "gepa_cached"
    cache = str(Path(job.directory) / "answers") if cached else None
    dspy.configure_cache(enable_disk_cache=cached, enable_memory_cache=cached, disk_cache_dir=cache)
    dspy.configure(lm=dspy.LM("bench", engine=Target(job), cache=cached))
    program = dspy.Predict(dspy.Signature("question -> answer", BASELINE))
    examples = [dspy.Example(question=sample, answer="").with_inputs("question") for sample in samples(job.samples)]
    return _evaluate(job, program, examples) if job.variant == "evaluate" else _optimize(job, program, examples)


def _evaluate(job: Job, program: Any, examples: list[Any]) -> Outcome:
    """As many evaluations of everything as the budget holds; there is no budget to declare, and nothing is kept."""
    evaluate = dspy.Evaluate(devset=examples, metric=metric, num_threads=job.concurrency, display_progress=False)
    for number in range(job.budget // len(examples)):
        program.signature = program.signature.with_instructions(BASELINE if number == 0 else f"Instruction {number}")
        evaluate(program)
    return Outcome(None, None)


def _optimize(job: Job, program: Any, examples: list[Any]) -> Outcome:
    def proposer(
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        seen = [float(record["Feedback"]) for name in components_to_update for record in reflective_dataset[name]]
        return {name: propose(candidate[name], seen) for name in components_to_update}

    optimizer = dspy.GEPA(
        metric=feedback_metric,
        max_metric_calls=job.budget,
        instruction_proposer=proposer,
        num_threads=job.concurrency,
        log_dir=job.directory,
        track_stats=True,
        seed=7,
    )
    found = optimizer.compile(program, trainset=examples).detailed_results
    return Outcome(job.budget, found.total_metric_calls)


if __name__ == "__main__":
    logging.getLogger("dspy").setLevel(logging.ERROR)
    drive("dspy", run)
