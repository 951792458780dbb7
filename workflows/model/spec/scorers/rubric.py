"""A model as the judge of an output."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from ratchet._values import CanonicalMapping, ShortText, Text
from workflows.model.spec.extensions.scorer_options import AskedModel, OutputScorer

MOST_GRADES = 100
"""How many steps a rubric's scale may have: the judge is shown every one of them."""

FILES_SHOWN = 4
"""By default. It is left out where a spec is written, so that scores of before keep their fingerprint."""


class RubricScorer(OutputScorer):
    """A model grades the output by your rubric and says why. Its score is the grade's place on the scale, from 0 to 1.

    Its calls count into tokens and cost of the answer. A judge that cannot be reached is no score of 0: the answer is missing.
    """

    graded_by = ".rubric:rubric"
    is_judged = True
    asks_somebody = True

    kind: Literal["rubric"]
    rubric: Annotated[Text, Field(min_length=1)]
    """What makes an answer good, and what the grades mean."""
    model: ShortText
    """The judge."""
    base_url: ShortText | None = None
    """Where the judge answers. Default: OPENAI_BASE_URL of the worker."""
    scale: tuple[int, int] = (1, 5)
    """The worst grade and the best."""
    parameters: CanonicalMapping = Field(default_factory=dict)
    """Request parameters for the judge, passed through."""
    response_format: Literal["json_schema", "json_object", "none"] = "json_schema"
    """How the judge is held to its form; for endpoints that know no JSON Schema, or no response format at all."""
    show: tuple[Literal["input", "expected", "trajectory"], ...] = ("input", "expected")
    """What the judge sees beside the output. `trajectory` are the turns of an agent with its calls of tools, so that a rubric
    can ask whether it reached its goal."""
    files: Annotated[int, Field(ge=0, le=50, exclude_if=lambda files: files == FILES_SHOWN)] = FILES_SHOWN
    """How many images, PDFs and text files of the sample it is sent at most, where it sees the input; 0 for a model that takes
    none."""

    @field_validator("scale")
    @classmethod
    def _has_steps(cls, value: tuple[int, int]) -> tuple[int, int]:
        worst, best = value
        if not 1 <= best - worst <= MOST_GRADES:
            raise ValueError(
                f"is [{worst}, {best}]; go from the worst grade up to the best, "
                f"over at most {MOST_GRADES} steps, such as [1, 5]"
            )
        return value

    @property
    def asked_model(self) -> AskedModel:
        return AskedModel(self.model, self.base_url, self.rubric, self.parameters, self.response_format)
