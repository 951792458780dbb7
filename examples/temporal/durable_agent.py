"""A run over an agent that is durable itself: for each sample the target starts the agent's own workflow, and waits for it.

Kill any worker at any time. The run finds the call again, the call finds the agent's workflow, and that goes on where it was.
"""

import asyncio
import gc
from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.worker import Worker

from ratchet.temporal import TASK_QUEUE, Optimization, RatchetPlugin

QUEUE = "agents"
STOCK = {"lamp": 3, "chair": 0, "table": 7, "shelf": 0}
SPEC = {
    "name": "durable-agent",
    "configuration": {"tool": {"value": "guess", "change": "structured", "type": "choice", "choices": ["guess", "stock"]}},
    "target": {"kind": "activity", "activity": "answer_with_agent", "task_queue": QUEUE, "timeout": "60s"},
    "dataset": {
        "items": [{"id": item, "input": {"item": item}, "expected": "yes" if left else "no"} for item, left in STOCK.items()],
        "splits": "none",
    },
    "scorers": [{"kind": "exact", "name": "right"}],
    "objective": {"metric": "right"},
    "optimizer": {"name": "refine", "proposer": {"kind": "step"}},
    "stop": {"max_rounds": 1},
    "budget": {"samples": 40},
    "seed": 7,
}


@dataclass
class Question:
    """What the agent is asked, and the tool it may use."""

    item: str
    tool: str


@activity.defn
async def look_into_stock(item: str) -> int:
    """A tool of the agent."""
    return STOCK[item]


@activity.defn
async def guess(item: str) -> int:
    """Another one."""
    return len(item)


@workflow.defn
class StockAgent:
    """Each step of the agent is an activity, and happens once."""

    @workflow.run
    async def run(self, question: Question) -> str:
        tool = look_into_stock if question.tool == "stock" else guess
        left = await workflow.execute_activity(tool, question.item, start_to_close_timeout=timedelta(seconds=10))
        return "yes" if left else "no"


@activity.defn
async def answer_with_agent(call: dict) -> dict:
    """The target. The workflow's id says which call it is for, so that a call which is made again finds the same agent."""
    trial, sample = call["context"]["id"], call["sample"]
    question = Question(sample["input"]["item"], call["configuration"]["tool"])
    agent_id = f"agent/{trial}/{sample['id']}/{sample['replicate']}"
    client = activity.client()
    try:
        agent = await client.start_workflow(
            StockAgent.run,
            question,
            id=agent_id,
            task_queue=QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
        )
    except WorkflowAlreadyStartedError:
        agent = client.get_workflow_handle_for(StockAgent.run, agent_id)
    return {"value": await agent.result(), "trace": {"agent": agent_id}}


async def main() -> None:
    """Serve the agent, and run the optimization once."""
    connection = {"target_host": "localhost:7233", **ClientConfig.load_client_connect_config()}
    client = await Client.connect(**connection, plugins=[RatchetPlugin()])
    activities = [answer_with_agent, look_into_stock, guess]
    async with Worker(client, task_queue=QUEUE, workflows=[StockAgent], activities=activities):
        run = await client.start_workflow(Optimization.run, SPEC, id="durable-agent", task_queue=TASK_QUEUE)
        result = await run.result()
        print(result.status, result.best_configuration, result.best_score)


if __name__ == "__main__":
    asyncio.run(main())
    gc.collect()  # the SDK's native futures must be gone before the interpreter is
