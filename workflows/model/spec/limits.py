"""How fast models and endpoints may be called, and whose calls go first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from ratchet._frozen import Payload, SpecPart
from ratchet._values import ShortText

MOST_LIMITS = 100
DEFAULT_PRIORITY = 3

Priority = Annotated[int, Field(ge=1, le=5)]
LimitName = Annotated[ShortText, Field(min_length=1)]


class RateLimit(SpecPart):
    """How fast one model or endpoint may be called; what is left out is not limited."""

    requests_per_minute: Annotated[float, Field(gt=0, le=1e7)] | None = None
    """Calls that may start in a minute, over all workers; calls that are tried again count each time."""
    tokens_per_minute: Annotated[float, Field(gt=0, le=1e10)] | None = None
    """Tokens in a minute, in and out, over all workers. A call starts on what calls before it took on average, and what it
    really took is settled with the calls after it."""
    concurrent_requests: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Calls in flight at once, on each worker."""

    @model_validator(mode="after")
    def _limits_something(self) -> RateLimit:
        if self.requests_per_minute is None and self.tokens_per_minute is None and self.concurrent_requests is None:
            raise ValueError("limits nothing; give requests_per_minute, tokens_per_minute or concurrent_requests")
        return self


RateLimits = Annotated[dict[LimitName, RateLimit], Field(max_length=MOST_LIMITS)]
"""By the name of a model, or by the URL of an endpoint."""

_RATE_LIMITS: TypeAdapter[dict[str, RateLimit]] = TypeAdapter(RateLimits)


def changed_limits(limits: Mapping[str, RateLimit], changes: Mapping[str, RateLimit]) -> dict[str, RateLimit]:
    """Limits after some were changed; what a change leaves out stays."""
    changed = dict(limits)
    for name, change in changes.items():
        given = change.model_dump(exclude_none=True)
        changed[name] = limits[name].model_copy(update=given) if name in limits else change
    return changed


class AdjustedLimits(Payload):
    """What the adjust update changed of a run's limits; what it left alone is None."""

    concurrent_samples: int | None = None
    priority: int | None = None
    rate_limits: dict[str, RateLimit] | None = None
    budgeted: bool = False
    """Samples, tokens or cost are limited by now."""


def parse_rate_limits(text: str, where: str) -> dict[str, RateLimit]:
    """Limits as an operator writes them: JSON, model or URL to limit. Raises ValueError that says what to write."""
    if not text.strip():
        return {}
    example = '{"gpt-5-mini": {"requests_per_minute": 500, "tokens_per_minute": 200000}}'
    try:
        return _RATE_LIMITS.validate_python(json.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{where}: {place or 'the value'}: {first['msg']}; write for example {example}") from None
    except ValueError as error:
        raise ValueError(f"{where} is not JSON ({error}); write for example {example}") from None
