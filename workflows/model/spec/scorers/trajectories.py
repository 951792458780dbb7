"""Scorers of how an agent came to its answer: the tools that it called, those that it must not call, and its steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from ratchet._frozen import SpecPart
from ratchet._values import CanonicalMapping, ShortText
from workflows.model.spec.extensions.scorer_options import Scorer
from workflows.model.spec.scorers.measurements import MeasurementScorer


class ExpectedCall(SpecPart):
    """A call of a tool."""

    tool: ShortText
    """The tool's name."""
    arguments: CanonicalMapping | None = None
    """Arguments that it is called with; others may be there beside them. Default: any."""


class ToolsCalledScorer(Scorer):
    """How many of the calls that are wanted an agent made, from 0 to 1; with `order: exact` 1 or 0."""

    graded_by = ".trajectories:tools_called"

    kind: Literal["tools_called"]
    calls: Annotated[list[ShortText | ExpectedCall], Field(min_length=1)] | None = None
    """The calls: names of tools, or `{tool: …, arguments: {…}}`. Default: the sample's `expected`, or its `tools`."""
    order: Literal["any", "same", "exact"] = "any"
    """`same`: in this order, with others in between. `exact`: these calls in this order, and no others."""

    @property
    def needs_expected(self) -> bool:
        return self.calls is None

    def unusable(self, expected: Any) -> str | None:
        wanted = expected.get("tools") if isinstance(expected, Mapping) else expected
        is_list = isinstance(wanted, list) and all(isinstance(one, str) or _is_call(one) for one in wanted)
        return None if is_list else "is no list of calls, and has none as tools, which"


def _is_call(value: Any) -> bool:
    given = value.get("arguments") if isinstance(value, Mapping) else 0
    return isinstance(value, Mapping) and isinstance(value.get("tool"), str) and isinstance(given, Mapping | None)


class ToolsAvoidedScorer(Scorer):
    """1 when an agent called none of these tools, else 0. A call counts that its limits or its end kept from being made."""

    graded_by = ".trajectories:tools_avoided"

    kind: Literal["tools_avoided"]
    calls: Annotated[list[ShortText | ExpectedCall], Field(min_length=1)]
    """The calls that are forbidden: names of tools, or `{tool: …, arguments: {…}}`."""


class StepsScorer(MeasurementScorer):
    """How many steps an agent took."""

    graded_by = ".trajectories:steps"

    kind: Literal["steps"]
    count: Literal["turns", "tool_calls"] = "turns"
    """Turns of the model, or calls of tools."""
