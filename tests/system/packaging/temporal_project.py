"""A Temporal project that has all the names that Ratchet's rooms have in a checkout, used as plug-ins in one spec."""

FILES = {
    "workflows.py": """\
'''What the project decides: a workflow of its own, as every Temporal project has one.'''

from datetime import timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities import triaged


@workflow.defn
class TriageWorkflow:
    '''Sort one ticket.'''

    @workflow.run
    async def run(self, ticket: str) -> str:
        '''Ask for the ticket's label.'''
        return await workflow.execute_activity(triaged, ticket, start_to_close_timeout=timedelta(seconds=10))


def right(output, sample):
    '''Score an answer: the scorer of the spec, beside the workflow.'''
    return output.value == sample.expected and TriageWorkflow.__name__ == "TriageWorkflow"
""",
    "activities.py": """\
'''What the project does.'''

from temporalio import activity

from clients import Model


@activity.defn
async def triaged(ticket: str) -> str:
    '''Label a ticket.'''
    return Model(2).label(ticket)


def target(configuration, sample, context):
    '''Answer a sample: the target of the spec. It imports what it needs when it is called, too.'''
    from worker import WORKFLOWS

    assert [kind.__name__ for kind in WORKFLOWS] == ["TriageWorkflow"]
    return Model(configuration["rules"]).label(sample.input["ticket"])
""",
    "clients.py": """\
'''Whom the project asks.'''


class Model:
    '''A model that knows as many labels as it has rules.'''

    def __init__(self, rules: int) -> None:
        self.labels = ("other", "billing", "bug", "outage")[: int(rules) + 1]

    def label(self, ticket: str) -> str:
        '''Find a label.'''
        return next((label for label in self.labels if label in ticket), "other")


def improved(current, records, factors):
    '''Propose new values: the proposer of the spec.'''
    return {"rules": min(int(current["rules"]) + 1, 3)}
""",
    "store.py": """\
'''What the project keeps.'''

LABELS = ("other", "billing", "bug", "outage")


def tickets():
    '''Give the samples: the dataset of the spec.'''
    return [
        {"id": f"{label}-{number}", "input": {"ticket": f"a {label} number {number}"}, "expected": label}
        for number in range(10)
        for label in LABELS
    ]
""",
    "worker.py": """\
'''What the project serves.'''

from activities import triaged
from workflows import TriageWorkflow

WORKFLOWS = [TriageWorkflow]
ACTIVITIES = [triaged]


def share(statistics):
    '''Reduce a trial to its score: the objective of the spec.'''
    return statistics["metrics"]["right"]["mean"]
""",
    "spec.yaml": """\
name: temporal-project
configuration:
  rules: {value: 0, change: structured, type: integer, min: 0, max: 3}
target: {kind: python, ref: "activities:target"}
dataset: {ref: "store:tickets"}
scorers: [{kind: python, name: right, ref: "workflows:right"}]
objective: {kind: python, metric: right, ref: "worker:share"}
optimizer: {name: refine, proposer: {kind: python, ref: "clients:improved"}}
stop: {max_rounds: 3}
seed: 7
""",
}
