"""The files of results that come back, read line by line: whoever wrote them may have written anything.

They are read twice. First what each line comes to is noted, and where it is: that is all that memory holds. Then each answer
is read when its sample's turn comes, in the order of the samples, which no provider keeps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from activities.batches.protocols import BatchProtocol, NotRun
from activities.endpoints.chat_protocol import understood
from activities.endpoints.endpoint_policy import ModelPlace
from activities.endpoints.model_faults import ModelRefusal, fault_of_refusal
from activities.endpoints.response_bodies import LARGEST_ANSWER_BYTES, refuse_too_large
from activities.targets.chat import output_of_answer
from activities.targets.faults import BROKEN_ANSWER, CandidateFault, Fault, Refused, Unreachable
from ratchet import Output
from store.write.answers.judge_replies import JudgeReply
from workflows.model.failures import described, shorten
from workflows.model.run.amounts import Amount
from workflows.model.spec.prices import Price

AROUND_AN_ANSWER_BYTES: Final = 64 * 1024
"""Of a line, beside what the model answered."""

_NAMED: Final = re.compile(rb'"custom_id"\s*:\s*"([0-9a-f-]{1,64})"')
_BEGINNING_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Line:
    """What one line comes to, and where it is."""

    file: int
    offset: int
    length: int
    verdict: Literal["answer", "again", "refused"]
    """`again` where it has no answer, and nobody is to blame; `refused` where the endpoint refuses for good."""
    error_class: str = ""
    tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelAsked:
    """Which model gave the results, in whose protocol, and for how much."""

    model: str
    place: ModelPlace
    protocol: BatchProtocol
    price: Price | None


class ResultFiles:
    """The results of one batch, by the custom ids of its requests."""

    def __init__(self, files: list[Path], asked: ModelAsked) -> None:
        self._files = files
        self._asked = asked
        self.lines: dict[str, Line] = {}

    def note(self, known: Collection[str]) -> None:
        """Read all lines once. What names no request of the batch is nobody's, and of two that name one the first counts."""
        for number, path in enumerate(self._files):
            for offset, length, beginning, text in _lines(path):
                name, line = self._noted(number, offset, length, beginning, text)
                if name is not None and name in known:
                    self.lines.setdefault(name, line)

    def output(self, name: str) -> Output:
        """The answer of a request. Raises the fault that it is."""
        line = self.lines[name]
        with self._files[line.file].open("rb") as file:
            file.seek(line.offset)
            text = file.read(line.length) if line.length <= _LONGEST_LINE else b""
        return self._output(text, line.length)

    def replies(self) -> dict[str, JudgeReply]:
        """What judges said, by the custom ids of the requests that got an answer."""
        found: dict[str, JudgeReply] = {}
        for name, line in self.lines.items():
            if line.verdict != "answer":
                continue
            try:
                found[name] = JudgeReply(line.tokens, line.cost, value=self.output(name).value)
            except CandidateFault as fault:
                found[name] = JudgeReply(fault.tokens, fault.cost, fault=str(fault), kind=fault.kind, billed=fault.billed)
        return found

    @property
    def taken(self) -> Amount:
        """What all answers took."""
        answers = [line for line in self.lines.values() if line.verdict == "answer"]
        return Amount(len(answers), sum(line.tokens for line in answers), sum(line.cost for line in answers))

    @property
    def dearest(self) -> Amount:
        """The most that one took."""
        answers = [line for line in self.lines.values() if line.verdict == "answer"]
        return Amount(0, max((line.tokens for line in answers), default=0), max((line.cost for line in answers), default=0.0))

    def bill(self, name: str) -> Amount:
        """What one answer took."""
        line = self.lines[name]
        return Amount(1, line.tokens, line.cost)

    def _noted(self, file: int, offset: int, length: int, beginning: bytes, text: bytes) -> tuple[str | None, Line]:
        at = (file, offset, length)
        try:
            output = self._output(text, length)
        except CandidateFault as fault:
            noted = Line(*at, "answer", fault.kind, fault.tokens, fault.cost)
        except Refused as fault:
            noted = Line(*at, "refused", fault.kind)
        except Fault as fault:
            noted = Line(*at, "again", fault.kind)
        else:
            noted = Line(*at, "answer", "", output.tokens, output.cost)
        return self._name_in(beginning, text), noted

    def _output(self, text: bytes, length: int) -> Output:
        """The answer of a line. Raises the fault that it is."""
        refuse_too_large(length if length > _LONGEST_LINE else 0)
        line = _parsed(text)
        try:
            answer = self._asked.protocol.answer_in(line)
        except Fault:
            raise
        except Exception as error:  # nobody can list what strangers may send
            raise _broken(f"the answer cannot be understood: reading it raised {described(error)}") from None
        match answer:
            case NotRun(kind):
                raise Unreachable(f"the batch has no response to a request: {kind}", kind=kind, billed="no")
            case ModelRefusal():
                raise fault_of_refusal(answer, self._asked.model, self._asked.place, "")
            case Mapping():
                try:
                    return replace(output_of_answer(understood(answer, self._asked.price, 0.0)), latency_ms=None)
                except CandidateFault as fault:
                    fault.latency_ms = None
                    raise
        raise _broken("the endpoint answered something that is not a JSON object")

    def _name_in(self, beginning: bytes, text: bytes) -> str | None:
        """Which request a line is of. Of one that cannot be read, its beginning may tell."""
        try:
            name = self._asked.protocol.name_in(_parsed(text))
        except Unreachable:
            found = _NAMED.search(beginning)
            name = found[1].decode() if found else None
        # Where a batch carries nothing else of ours, its key is behind the name.
        return name.partition("-")[0] if isinstance(name, str) else None


def _broken(told: str) -> CandidateFault:
    return CandidateFault(shorten(told), kind=BROKEN_ANSWER, billed="yes")


_LONGEST_LINE: Final = LARGEST_ANSWER_BYTES + AROUND_AN_ANSWER_BYTES


def _lines(path: Path) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Where each line is, how long it is, its beginning, and all of it unless it is too long."""
    offset = 0
    with path.open("rb") as file:
        while piece := file.readline(_LONGEST_LINE + 1):
            beginning, length, text = piece[:_BEGINNING_BYTES], len(piece), piece
            while not piece.endswith(b"\n") and (piece := file.readline(_LONGEST_LINE + 1)):
                length, text = length + len(piece), b""
            if beginning.strip():
                yield offset, length, beginning, text
            offset += length


def _parsed(text: bytes) -> Mapping[str, Any]:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        line = None
    if not isinstance(line, Mapping):
        raise Unreachable("a result of the batch is not a JSON object", kind=BROKEN_ANSWER)
    return line
