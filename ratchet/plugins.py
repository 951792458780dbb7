"""The types that plug-ins exchange with Ratchet: what a target is given and returns, what a scorer and a proposer see.

Plain frozen dataclasses: they are made once per sample, and a plug-in's own code needs nothing else to be tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ratchet._files import File


@dataclass(frozen=True, slots=True)
class Sample:
    """One item of the dataset."""

    id: str
    input: Any
    """What the target gets. A mapping, when placeholders such as `{{input.ticket}}` name its keys."""
    expected: Any = None
    """What a good answer is; scorers decide what it means."""
    weight: float = 1.0
    tags: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """For targets: what the files in `input` and in factors hold, in base64, by their sha256. `file` reads those of `input`."""

    def file(self, path: str = "") -> File:
        """Return the file at a place in the input, such as `picture` or `pages.0`: `sample.file("picture").read()`."""
        from ratchet._files import file_at

        return file_at(path, self.input, self.files)


@dataclass(frozen=True, slots=True)
class Output:
    """What a target returned for one sample. A bare text, number, list or mapping is read as `Output(value=…)`."""

    value: Any
    tokens: int = 0
    """Tokens used by this answer, in and out."""
    cost: float = 0.0
    """What this answer cost, in the currency of the budget."""
    latency_ms: float | None = None
    """Measured by Ratchet when the target does not say."""
    ttft_ms: float | None = None
    """Time to the first token, for targets that stream."""
    trace: Any = None
    """Anything worth keeping beside the answer: tool calls, intermediate steps, a link."""
    overlay_hash: str | None = None
    """The hash of the configuration really used, echoed by targets that resolve it themselves; a mismatch never scores."""
    scores: Mapping[str, Any] | None = None
    """Scores that the target gives itself, by name, for scorers of kind `reported`: numbers, or mappings with `value`, `passed`
    and `reason`."""
    cached_tokens: int = 0
    """Of the tokens, those that came from a provider's cache. They are shown; what they cost is part of `cost`."""


class TryAgain(Exception):
    """What a target raises where an endpoint that it calls is busy or away: no answer, and nobody's fault.

    The target is called again for the sample, with growing pauses, up to eight times and for two minutes: as long as Ratchet
    tries a model that it calls itself. Where all that was in vain the sample has no answer, which is not a failed one.
    """

    def __init__(
        self,
        why: str = "",
        *,
        after: float | None = None,
        billed: Literal["no", "unknown", "yes"] = "unknown",
        tokens: int = 0,
        cost: float = 0.0,
    ) -> None:
        """`after` are the seconds that the endpoint asks to wait, such as its Retry-After: then no sample calls the target
        until they are over, and the number of attempts is not limited. `tokens` and `cost` are what the call took, where that
        is known; `billed="no"` says that it took nothing. What may have been billed counts against the budget."""
        super().__init__(why)
        self.after = after
        self.billed = billed
        self.tokens = tokens
        self.cost = cost


@dataclass(frozen=True, slots=True)
class Score:
    """One named score. Higher is better unless the objective says `direction: minimize`."""

    name: str
    value: float
    passed: bool | None = None
    """Whether this counts as a success; decided by the scorer's threshold when left out."""
    reason: str | None = None
    """Feedback in words. Proposers read it."""


@dataclass(frozen=True, slots=True)
class Record:
    """One evaluated sample as a proposer sees it."""

    inputs: Any
    output: Any
    score: float
    feedback: str = ""
    expected: Any = None


@dataclass(frozen=True, slots=True)
class ExperimentContext:
    """Under which experiment a target is being called. `current_experiment()` gives it to whatever the target calls."""

    id: str
    """The trial, e.g. `triage-1a2b3c4d/r3/9f8e7d6c`."""
    name: str
    """What the spec calls it (`experiment`); the run's id where it says nothing."""
    overrides_tag: str
    """The hash of the overlay this trial runs against: every factor of the candidate."""
    parent_tag: str | None = None
    """The hash of the baseline's overlay, which this one is compared with; None in the baseline's own trials."""
    flags: Mapping[str, Any] = field(default_factory=dict)
    """The spec's `flags`, the same for every trial of the run."""
    prompt: str | None = None
    """The prompt under test, `namespace/key`; None where the run is about no prompt."""
    overlay_hash: str = ""
    """The hash of the prompt in the overlay, as `resolve` gives it; `overrides_tag` in a run without `prompt`. A target that
    says what it really used answers with this hash or with `overrides_tag`."""
    run_id: str = ""
    candidate_id: str = ""
    replicate: int = 0
    seed: int = 0
    """Derived from the run's seed, the sample and the replicate: pass it on to make a target reproducible."""


Records = Sequence[Record]
