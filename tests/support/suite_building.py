"""Suites, samples, shards and trials of the run that the tests of activities evaluate."""

from __future__ import annotations

from typing import Any

from ratchet import Sample
from ratchet._formats.canonical import content_hash
from workflows.model.run.candidates import Candidate
from workflows.model.spec.extensions.scorer_options import Scorer
from workflows.model.spec.extensions.target_options import Target
from workflows.model.spec.objective import Objective
from workflows.model.spec.scorers.matches import ExactScorer
from workflows.model.spec.scorers.python import PythonScorer
from workflows.model.spec.targets.python import PythonTarget
from workflows.model.suite import EvaluationSuite
from workflows.model.trial import Purpose, ShardInput, Split, TrialInput

PLUGINS = "tests.support.evaluation_plugins"
RUN_ID = "run"
CONFIGURATION = {"a": 1}
CONFIG_HASH = content_hash(CONFIGURATION)


def plugin(name: str) -> str:
    return f"{PLUGINS}:{name}"


def samples(count: int, **more: Any) -> list[Sample]:
    """Samples whose right answer is in their input."""
    return [Sample(f"s{n}", {"word": f"w{n}", **more}, f"w{n}") for n in range(count)]


def misbehaviours(*how: str) -> list[Sample]:
    return [Sample(f"s{n}", {"how": one}, one) for n, one in enumerate(how)]


def suite(target: Target | str, **more: Any) -> EvaluationSuite:
    """A suite for a target, or for a plug-in of this name, scored by exact equality unless told otherwise."""
    if isinstance(target, str):
        target = PythonTarget(kind="python", ref=plugin(target))
    given: dict[str, Any] = {
        "run_id": RUN_ID,
        "split": Split.ALL,
        "suite_id": "suite",
        "dataset_id": "dataset",
        "samples": 1,
        "target_fingerprint": "target",
        "scorer_fingerprint": "scorer",
        "target": target,
        "scorers": [ExactScorer(kind="exact")],
        "objective": Objective(),
    }
    given |= more
    given.setdefault("metric", given["scorers"][0].score_name)
    return EvaluationSuite(**given)


def scored_by(name: str, **more: Any) -> list[Scorer]:
    return [PythonScorer(kind="python", ref=plugin(name), **more)]


def shard(last: int, **more: Any) -> ShardInput:
    given: dict[str, Any] = {
        "run_id": RUN_ID,
        "trial_id": "run/r0/abc",
        "candidate_id": "c0",
        "config_hash": CONFIG_HASH,
        "split": Split.ALL,
        "first": 0,
        "last": last,
        "replicates": 1,
    }
    return ShardInput(**{**given, **more})


def trial(count: int, **more: Any) -> TrialInput:
    candidate = Candidate(candidate_id="c0", config_hash=CONFIG_HASH, configuration=CONFIGURATION, round=0, index=0)
    given: dict[str, Any] = {
        "run_id": RUN_ID,
        "trial_id": "run/r0/abc",
        "candidate": candidate,
        "purpose": Purpose.CANDIDATE,
        "split": Split.ALL,
        "samples": count,
        "evaluation_task_queue": "queue",
    }
    return TrialInput(**{**given, **more})
