"""One file per algorithm, with all that is known of it; one line per algorithm in the registry below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ratchet.optimizer import Optimizer
from workflows.model.spec.extensions.optimizer_options import OptimizerSpec
from workflows.optimizers.compress import Compress, CompressOptimizer
from workflows.optimizers.custom import ByReference, PythonOptimizer
from workflows.optimizers.evolve import Evolve, EvolveOptimizer
from workflows.optimizers.few_shot import FewShot, FewShotOptimizer
from workflows.optimizers.frame import Frame
from workflows.optimizers.gepa import Gepa, GepaOptimizer
from workflows.optimizers.measure import Measure, MeasureOptimizer
from workflows.optimizers.meta_prompt import MetaPrompt, MetaPromptOptimizer
from workflows.optimizers.refine import Refine, RefineOptimizer
from workflows.optimizers.reflect import Reflect, ReflectOptimizer
from workflows.optimizers.rescore import Rescore, RescoreOptimizer
from workflows.optimizers.search import Search, SearchOptimizer


class OptimizerKind(NamedTuple):
    """An optimizer: what a spec says of it, and its algorithm."""

    options: type[OptimizerSpec]
    algorithm: Callable[[Any, Frame], Optimizer]


OPTIMIZERS: Final[dict[str, OptimizerKind]] = {
    "refine": OptimizerKind(RefineOptimizer, Refine),
    "reflect": OptimizerKind(ReflectOptimizer, Reflect),
    "gepa": OptimizerKind(GepaOptimizer, Gepa),
    "meta_prompt": OptimizerKind(MetaPromptOptimizer, MetaPrompt),
    "compress": OptimizerKind(CompressOptimizer, Compress),
    "evolve": OptimizerKind(EvolveOptimizer, Evolve),
    "search": OptimizerKind(SearchOptimizer, Search),
    "few_shot": OptimizerKind(FewShotOptimizer, FewShot),
    "none": OptimizerKind(MeasureOptimizer, Measure),
    "python": OptimizerKind(PythonOptimizer, ByReference),
    "rescore": OptimizerKind(RescoreOptimizer, Rescore),
}
"""By the word in a spec, in the order in which they are described."""


def build_optimizer(spec: OptimizerSpec, frame: Frame) -> Optimizer:
    """Make the algorithm that a spec names."""
    return OPTIMIZERS[spec.name].algorithm(spec, frame)
