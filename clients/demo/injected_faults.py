"""What a test can tell the simulated server to do to its callers: throttle, fail, stall, disconnect, lie, be slow."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from clients.demo.deterministic_text import draw

Lie = Literal[
    "malformed_json", "empty_choices", "truncated_stream", "wrong_model", "nan_usage", "no_usage", "null_content", "prose"
]
Positive = Annotated[int, Field(ge=1)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Latency(_Form):
    """Every answer takes `mean_ms`, give or take the fraction `jitter` of it."""

    mean_ms: Annotated[float, Field(ge=0)]
    jitter: Annotated[float, Field(ge=0, le=1)] = 0.0


class RateLimit(_Form):
    """At most `per_second` answers in the long run and `burst` at once; 429 beyond."""

    per_second: Annotated[float, Field(gt=0)]
    burst: Positive | None = None
    retry_after: str | None = None
    """The Retry-After header to send; by default the true waiting time, in whole seconds and in `retry-after-ms`."""


class Rule(_Form):
    """One thing to do and when to do it.

    What: exactly one of `status`, `stall`, `disconnect`, `lie`, `latency`, `rate_limit`.
    When: the fields from `after` on; without any, always.
    `{"fail": {"status": 500, "first": 3}}` and `{"fail": 500}` are other ways to write a `status` rule.
    """

    status: Annotated[int, Field(ge=400, le=599)] | None = None
    message: str = "The simulated server was told to fail."
    retry_after: str | None = None
    """Retry-After header of a `status` answer: seconds or an HTTP date."""
    stall: Literal[True] | Annotated[float, Field(gt=0)] | None = None
    """Seconds of silence before the answer goes on; true = for ever."""
    disconnect: Literal[True] | None = None
    after_chunks: Positive | None = None
    """For `stall` and `disconnect`: not at once, but in the middle of a stream."""
    lie: Lie | None = None
    latency: Latency | None = None
    rate_limit: RateLimit | None = None

    after: Annotated[int, Field(ge=0)] = 0
    """Leave the first so many requests alone."""
    first: Positive | None = None
    """Only these many requests, from then on."""
    every: Positive | None = None
    """Only every so manieth request."""
    times: Positive | None = None
    """At most so many occurrences."""
    probability: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: int = 0
    """Seed of the probability and of the jitter."""
    model: str | None = None
    """Only requests for this model."""
    contains: str | None = None
    """Only requests whose messages contain this text."""

    @model_validator(mode="before")
    @classmethod
    def _unfold_fail(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or "fail" not in data:
            return data
        fail = data["fail"]
        rest = {key: value for key, value in data.items() if key != "fail"}
        return {"status": 500, **fail, **rest} if isinstance(fail, Mapping) else {"status": fail, **rest}

    @model_validator(mode="after")
    def _does_one_thing(self) -> Self:
        kinds = ("status", "stall", "disconnect", "lie", "latency", "rate_limit")
        if sum(getattr(self, kind) is not None for kind in kinds) != 1:
            raise ValueError(f"a rule does exactly one of: {', '.join(kinds)}")
        return self


RuleLike = Rule | Mapping[str, Any]
_RULES: TypeAdapter[list[Rule]] = TypeAdapter(list[Rule])


def parse_rules(given: Any) -> list[Rule]:
    """Rules from JSON: one object, or a list of them. Raises pydantic's ValidationError."""
    return _RULES.validate_python(given if isinstance(given, list | tuple) else [given])


def parse_rules_json(text: str | bytes) -> list[Rule]:
    """Rules from JSON text."""
    is_list = text.strip()[:1] in ("[", b"[")
    return _RULES.validate_json(text) if is_list else [Rule.model_validate_json(text)]


@dataclass
class _Active:
    """A rule at work: how many requests it has seen, and to how many it did something."""

    rule: Rule
    seen: int = 0
    fired: int = 0
    tokens: float = field(default=-1.0)
    filled_at: float = 0.0

    def applies(self, model: str, text: Callable[[], str]) -> bool:
        rule = self.rule
        if rule.model is not None and rule.model != model:
            return False
        if rule.contains is not None and rule.contains not in text():
            return False
        self.seen += 1
        place = self.seen - rule.after
        if (
            place < 1
            or (rule.first is not None and place > rule.first)
            or (rule.every is not None and place % rule.every != 0)
            or (rule.times is not None and self.fired >= rule.times)
            or (rule.probability is not None and draw(rule.seed, "probability", self.seen) >= rule.probability)
        ):
            return False
        self.fired += 1
        return True

    def delay(self, latency: Latency) -> float:
        swing = 2.0 * draw(self.rule.seed, "jitter", self.fired) - 1.0 if latency.jitter else 0.0
        return latency.mean_ms * (1.0 + latency.jitter * swing) / 1000.0

    def wait_for(self, limit: RateLimit, now: float) -> float:
        """0 if the request is within the limit, else the seconds until the next one will be."""
        burst = float(limit.burst or max(1.0, limit.per_second))
        if self.tokens < 0:
            self.tokens, self.filled_at = burst, now
        self.tokens = min(burst, self.tokens + (now - self.filled_at) * limit.per_second)
        self.filled_at = now
        if self.tokens >= 1.0:
            self.tokens -= 1.0
            return 0.0
        return (1.0 - self.tokens) / limit.per_second


@dataclass(frozen=True)
class Treatment:
    """What happens to one request."""

    fault: Rule | None = None
    delay: float = 0.0
    throttled: tuple[RateLimit, float] | None = None
    """The limit that the request exceeds, and the seconds to wait."""


class RuleBook:
    """The rules in force. Of several faults that apply to a request the first wins; of several latencies likewise."""

    def __init__(self) -> None:
        self._standing: list[_Active] = []
        self._by_header: dict[str, list[_Active]] = {}

    def add(self, rules: Iterable[Rule]) -> None:
        """Put rules behind those in force."""
        self._standing.extend(_Active(rule) for rule in rules)

    def clear(self) -> None:
        """Forget all rules, and what header rules have counted."""
        self._standing.clear()
        self._by_header.clear()

    def treat(self, header: str | None, model: str, text: Callable[[], str], now: float) -> Treatment:
        """Decide about one request. Requests with the same header text share the counts of its rules."""
        active = self._standing
        if header is not None:
            if header not in self._by_header:
                self._by_header[header] = [_Active(rule) for rule in parse_rules_json(header)]
            active = [*self._by_header[header], *active]
        fault: Rule | None = None
        delay: float | None = None
        for one in active:
            rule = one.rule
            if (fault is not None and rule.latency is None) or not one.applies(model, text):
                continue
            if rule.rate_limit is not None:
                wait = one.wait_for(rule.rate_limit, now)
                if wait > 0:
                    return Treatment(throttled=(rule.rate_limit, wait))
            elif rule.latency is not None:
                delay = one.delay(rule.latency) if delay is None else delay
            else:
                fault = rule
        return Treatment(fault, delay or 0.0)

    def as_json(self) -> list[dict[str, Any]]:
        """The standing rules with their counts."""
        return [{**one.rule.model_dump(exclude_defaults=True), "seen": one.seen, "fired": one.fired} for one in self._standing]
