"""The experiment that a shard is part of, as targets and plug-ins are told of it."""

from __future__ import annotations

from ratchet import ExperimentContext
from workflows.model.suite import EvaluationSuite
from workflows.model.trial import ShardInput
from workflows.rules.overlay import Overlay


def context_of(shard: ShardInput, suite: EvaluationSuite, overlay: Overlay, *, replicate: int, seed: int) -> ExperimentContext:
    """Under which experiment the shard's samples are answered."""
    return ExperimentContext(
        id=shard.trial_id,
        name=suite.experiment or shard.run_id,
        overrides_tag=shard.config_hash,
        parent_tag=suite.baseline_hash if suite.baseline_hash != shard.config_hash else None,
        flags=suite.flags,
        prompt=suite.prompt.name if suite.prompt is not None else None,
        overlay_hash=overlay.prompt_hash,
        run_id=shard.run_id,
        candidate_id=shard.candidate_id,
        replicate=replicate,
        seed=seed,
    )
