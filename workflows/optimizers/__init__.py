"""One file per algorithm, one line per algorithm in the registry below."""

from __future__ import annotations

from ratchet.optimizer import Optimizer
from workflows.model.spec.execution import OptimizerSpec
from workflows.optimizers.compress import Compress
from workflows.optimizers.custom import ByReference
from workflows.optimizers.evolve import Evolve
from workflows.optimizers.few_shot import FewShot
from workflows.optimizers.frame import Frame
from workflows.optimizers.gepa import Gepa
from workflows.optimizers.measure import Measure
from workflows.optimizers.meta_prompt import MetaPrompt
from workflows.optimizers.refine import Refine
from workflows.optimizers.reflect import Reflect
from workflows.optimizers.search import Search


def build_optimizer(spec: OptimizerSpec, frame: Frame) -> Optimizer:
    """The algorithm a spec names."""
    match spec.name:
        case "refine":
            return Refine(spec, frame)
        case "meta_prompt":
            return MetaPrompt(spec, frame)
        case "reflect":
            return Reflect(spec, frame)
        case "gepa":
            return Gepa(spec, frame)
        case "compress":
            return Compress(spec, frame)
        case "evolve":
            return Evolve(spec, frame)
        case "python":
            return ByReference(spec, frame)
        case "few_shot":
            return FewShot(spec, frame)
        case "search":
            return Search(spec, frame)
        case "none":
            return Measure(spec, frame)
