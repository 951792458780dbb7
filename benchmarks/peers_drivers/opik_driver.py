"""`opik_optimizer`: `MetaPromptOptimizer`, which can at most be given its `optimization_id` again, and `GepaOptimizer`, which
is resumed by its `run_dir`.

The agent is a subclass with a callable inside, so that its rate limiter (50 model calls a second) does not count. Its server
is `opik_backend`, which does nothing; a real one takes longer. What would ask a model for proposals asks `task.propose`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import opik  # type: ignore[import-not-found,unused-ignore]
import opik_optimizer  # type: ignore[import-not-found,unused-ignore]
from opik_optimizer.core import llm_calls  # type: ignore[import-not-found,unused-ignore]

from benchmarks.peers_drivers.driving import Job, Outcome, drive
from benchmarks.peers_drivers.task import BASELINE, answer, propose, samples

INSTRUCTION = re.compile(r"Instruction \w+")
SCORE = re.compile(r"\b\d\.\d{6}\b")


class Agent(opik_optimizer.OptimizableAgent):  # type: ignore[misc,unused-ignore]
    """Where a person puts a program of their own."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job

    def invoke_agent(self, prompts: Any, dataset_item: Any, allow_tool_use: bool = False, seed: int | None = None) -> str:
        [prompt] = prompts.values()
        [system] = [message["content"] for message in prompt.get_messages(dataset_item) if message["role"] == "system"]
        return f"{answer(system, dataset_item['sample'], self.job.latency, self.job.log):.6f}"


def metric(dataset_item: Any, llm_output: str) -> float:
    return float(llm_output)


def offline_model(messages: list[dict[str, str]], response_model: Any = None, **_: Any) -> Any:
    """In place of the call of a model: proposals that follow from what it would have been shown."""
    request = " ".join(str(message["content"]) for message in messages)
    shown = INSTRUCTION.findall(request) or [BASELINE]
    if response_model is None:
        seen = [float(score) for score in SCORE.findall(request)]
        return f"```\n{propose(' '.join(shown), seen)}\n```"
    fields = response_model.model_fields
    if "prompts" not in fields:
        return response_model.model_validate({"patterns": []})
    texts = [propose(f"{' '.join(shown)} {number}", []) for number in range(4)]
    messages_of = [[{"role": "system", "content": text}, {"role": "user", "content": "{sample}"}] for text in texts]
    return response_model.model_validate({"prompts": [{"prompt": prompt} for prompt in messages_of]})


def run(job: Job) -> Outcome:
    llm_calls.call_model = offline_model
    client = opik.Opik()
    dataset = client.get_or_create_dataset(f"bench-{job.samples}")
    if not dataset.get_items():
        dataset.insert([{"sample": sample} for sample in samples(job.samples)])
    max_trials = max(1, job.budget // job.samples - 1)
    settings = {"n_threads": job.concurrency, "verbose": 0, "seed": 7}
    mark = Path(job.directory) / "optimization_id"
    resumed: dict[str, Any] = {}
    if job.variant == "meta_prompt":
        optimizer = opik_optimizer.MetaPromptOptimizer(model="openai/offline", **settings)
        if mark.exists():
            resumed = {"optimization_id": mark.read_text()}
    else:
        optimizer = opik_optimizer.GepaOptimizer(model="openai/offline", **settings)
        resumed = {"run_dir": job.directory}
    optimizer.pre_baseline = lambda context: mark.write_text(str(context.optimization_id or ""))
    optimizer.optimize_prompt(
        prompt=opik_optimizer.ChatPrompt(system=BASELINE, user="{sample}"),
        dataset=dataset,
        metric=metric,
        agent=Agent(job),
        max_trials=max_trials,
        **resumed,
    )
    opik.flush_tracker()
    return Outcome((1 + max_trials) * job.samples, None)


if __name__ == "__main__":
    drive("opik-optimizer", run)
