"""Parts of a split: which samples a proposal means, and which of them a configuration has answered already."""

from __future__ import annotations

from dataclasses import dataclass

from ratchet.optimizer import Part
from workflows.model.run.candidates import ReasonCode
from workflows.rules.proposals.validation import Refusal


@dataclass(frozen=True, slots=True)
class Extents:
    """How many samples there are to measure."""

    search: int
    train: int
    """0 where none were set apart to learn from."""

    @property
    def whole(self) -> Part:
        """What a candidate is scored on."""
        return Part(split="search", first=0, count=self.search)

    def located(self, part: Part) -> Part | Refusal:
        """The part with its split and its count as they really are."""
        split = part.split if self.train else "search"
        samples = self.train if split == "train" else self.search
        if part.first >= samples:
            told = f"part.first is {part.first}, but there are {samples} samples to measure on the {split} split"
            return Refusal(ReasonCode.OUT_OF_RANGE, told)
        rest = samples - part.first
        return Part(split=split, first=part.first, count=rest if part.count is None else min(part.count, rest))


class Answered:
    """Which samples each configuration has answered once, so that no budget is asked for them again."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], list[range]] = {}

    def note(self, config_hash: str, part: Part) -> None:
        """A configuration was measured on a part."""
        known = self._places.setdefault((config_hash, part.split), [])
        if places(part) not in known:
            known.append(places(part))

    def missing(self, config_hash: str, part: Part) -> int:
        """How many samples of a part it has not answered."""
        known = self._places.get((config_hash, part.split), ())
        return sum(1 for place in places(part) if not any(place in answered for answered in known))


def places(part: Part) -> range:
    """The places of a part's samples in its split."""
    assert part.count is not None
    return range(part.first, part.first + part.count)
