"""A Temporal program that has a prompt improved: its workflow starts the run as a child, steers it, and reads its result.

What is measured, what measures and what proposes are activities of this very program.
"""

import asyncio
import contextlib
import gc
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.worker import Worker
from temporalio.workflow import ParentClosePolicy

from ratchet.temporal import TASK_QUEUE, Adjustment, Optimization, Pending, RatchetPlugin, ask_run, steer_run

QUEUE = "triage"
TICKETS = [
    {"id": "s1", "input": {"ticket": "My invoice is wrong"}, "expected": "billing"},
    {"id": "s2", "input": {"ticket": "Where is the invoice for May?"}, "expected": "billing"},
    {"id": "s3", "input": {"ticket": "Please refund what I was charged"}, "expected": "billing"},
    {"id": "s4", "input": {"ticket": "I want a refund"}, "expected": "billing"},
    {"id": "s5", "input": {"ticket": "The page is slow"}, "expected": "other"},
    {"id": "s6", "input": {"ticket": "Do you have an office in Rome?"}, "expected": "other"},
]
SPEC = {
    "name": "triage-program",
    "configuration": {"system_prompt": {"value": "Sort the ticket.", "change": "text", "max_length": 2000}},
    "target": {"kind": "activity", "activity": "answer_ticket", "task_queue": QUEUE},
    "dataset": {"items": TICKETS, "splits": "none"},
    "scorers": [{"kind": "activity", "name": "label", "activity": "grade_label", "task_queue": QUEUE}],
    "objective": {"metric": "label"},
    "optimizer": {"name": "refine", "proposer": {"kind": "activity", "activity": "rewrite_prompt", "task_queue": QUEUE}},
    "stop": {"max_rounds": 300, "no_improvement": 0},
    "budget": {"samples": 3000},
    "seed": 7,
}


@activity.defn
async def answer_ticket(call: dict) -> dict:
    """The target. It stands for your model: a ticket is about billing if the prompt knows one of its words."""
    prompt = call["configuration"]["system_prompt"].lower()
    words = [word.strip("?").lower() for word in call["sample"]["input"]["ticket"].split()]
    known = any(word in prompt for word in words if len(word) > 5)
    return {"value": "billing" if known else "other", "tokens": len(words)}


@activity.defn
async def grade_label(call: dict) -> dict:
    """The scorer. It is given one answer with its sample."""
    given, expected = call["output"]["value"], call["sample"]["expected"]
    return {"value": 1.0 if given == expected else 0.0, "reason": None if given == expected else f"expected {expected}"}


@activity.defn
async def rewrite_prompt(call: dict) -> dict:
    """The proposer. It reads what went wrong, and returns new values of factors."""
    missed = [
        record["inputs"]["ticket"] for record in call["records"] if record["score"] == 0 and record["expected"] == "billing"
    ]
    prompt = call["configuration"]["system_prompt"]
    if not missed:
        other = f"{prompt} Take {call['context']['round']} more seconds."
        return {"values": {"system_prompt": other}, "rationale": "nothing went wrong", "tokens": 30}
    longest = max(missed[0].split(), key=len).strip("?")
    better = f"{prompt} Tickets about {longest} are billing."
    return {"values": {"system_prompt": better}, "rationale": f"it did not know {longest}", "tokens": 30}


@workflow.defn
class PromptImprovement:
    """Improves the prompt, and says what came of it."""

    @workflow.run
    async def run(self, spec: dict) -> dict:
        run_id = f"{workflow.info().workflow_id}-run"
        child = await workflow.start_child_workflow(
            Optimization.run, spec, id=run_id, task_queue=TASK_QUEUE, parent_close_policy=ParentClosePolicy.REQUEST_CANCEL
        )
        await steer_run(run_id, Optimization.adjust, Adjustment(concurrent_samples=8))
        idea = {"system_prompt": "Sort the ticket. A refund is billing."}
        await steer_run(run_id, Optimization.propose, Pending(configuration=idea, rationale="what support told us"))
        while not child.done():
            progress = await ask_run(run_id, Optimization.progress)
            if progress.best_score == 1.0:
                await child.signal(Optimization.stop_early, "every ticket is sorted right")
                break
            await _done_within(child, timedelta(seconds=1))
        result = await child
        return {"run": run_id, "why": result.message, "best": result.best_score, "spent": result.spend.samples}


async def _done_within(child: asyncio.Task, pause: timedelta) -> None:
    with contextlib.suppress(TimeoutError):
        await workflow.wait_condition(child.done, timeout=pause)


async def main() -> None:
    """Serve the workflow and the activities, and run the workflow once."""
    connection = {"target_host": "localhost:7233", **ClientConfig.load_client_connect_config()}
    client = await Client.connect(**connection, plugins=[RatchetPlugin()])
    activities = [answer_ticket, grade_label, rewrite_prompt]
    async with Worker(client, task_queue=QUEUE, workflows=[PromptImprovement], activities=activities):
        print(await client.execute_workflow(PromptImprovement.run, SPEC, id="improve-triage", task_queue=QUEUE))


if __name__ == "__main__":
    asyncio.run(main())
    gc.collect()  # the SDK's native futures must be gone before the interpreter is
