"""`line`, a target that Ratchet does not have: what a spec says of it, and what answers for it, in one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

from activities.endpoints.call_context import CallContext
from activities.targets import TargetTools
from activities.targets.answers import output_from
from ratchet import ExperimentContext, Output, Sample
from ratchet._text.placeholders import Filling
from workflows.model.spec.extensions.target_options import PlacedText, Target, texts_within
from workflows.model.suite import EvaluationSuite


class LineTarget(Target):
    """A straight line through the samples."""

    answered_by = f"{__name__}:LineAnswers"

    kind: Literal["line"]
    slope: str
    """A number, or a placeholder that stands for one."""

    def placed_texts(self) -> Iterator[PlacedText]:
        yield from texts_within("target.slope", self.slope)


class LineAnswers:
    """Computes the line."""

    def __init__(self, target: LineTarget) -> None:
        self._target = target

    @classmethod
    def of(cls, suite: EvaluationSuite, tools: TargetTools, *, isolate: bool) -> Self:
        assert isinstance(suite.target, LineTarget)
        return cls(suite.target)

    async def answer(
        self, configuration: Mapping[str, Any], sample: Sample, experiment: ExperimentContext, context: CallContext
    ) -> Output:
        slope = float(Filling(configuration, sample.input).text(self._target.slope))
        return output_from(Output(value=slope * sample.input["n"], tokens=1))
