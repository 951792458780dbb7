"""The round loop: baseline, then rounds of propose, measure, observe, until a rule ends the run.

It is written once. The workflow, the test kit and the replay of decisions run this very code, each in surroundings of its own.
It knows neither Temporal nor a store, and has no clock but theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NoReturn, Protocol

from ratchet._formats.canonical import content_hash
from ratchet.optimizer import StopReason, TrialFacts
from workflows.model.run.candidates import Candidate, Rejection
from workflows.model.run.rounds import RoundRecord
from workflows.model.trial import Purpose, TrialResult
from workflows.run.end.ended import RunEnded
from workflows.run.end.ending import ended_by_rules, refused_at_first_look, scoring_broke, unmeasured
from workflows.run.round_records import round_record, step_record
from workflows.run.state import RunState


class Surroundings(Protocol):
    """What a run goes round in: everything that it asks of others, and tells them.

    What returns something here is optional: it stays as it is where no time passes, nothing is stored, or nobody is asked.
    """

    def now(self) -> datetime:
        """The time by which the run decides."""
        ...

    async def check_clock(self) -> None:
        """Find out how long nobody served the run, where the time budget would end it now."""
        return

    def show(self, phase: str) -> None:
        """Tell people that the run goes on, and what it does now."""
        ...

    async def flush(self) -> None:
        """Write down what is decided, before anything that may take long."""
        return

    async def measure(self, candidates: Sequence[Candidate], purpose: Purpose) -> list[TrialResult]:
        """Run a trial of every candidate; the results are in the order of the candidates."""
        ...

    async def complete(self, candidate: Candidate, raced: TrialResult) -> TrialResult:
        """Measure in full a candidate that won its race."""
        ...

    async def propose(self) -> tuple[list[Candidate], list[Rejection]]:
        """What the next step tries, and what was kept out of it."""
        ...

    def initialize(self) -> None:
        """Tell the optimizer of the baseline."""
        return

    async def stopped_by_policy(self) -> RunEnded | None:
        """The end of the run, where the spec's own rule calls for it."""
        return None

    def stopped_by_optimizer(self) -> RunEnded | None:
        """The end of the run, where the optimizer calls for it."""
        return None

    def observe(self, facts: Sequence[TrialFacts]) -> None:
        """Tell the optimizer what a step has measured."""
        return

    def record(self, record: RoundRecord) -> None:
        """Take what is to be kept of a round, or of a step that leaves its round open."""
        ...

    async def rest(self) -> bool:
        """Rest between two steps, where people asked for it; whether it did."""
        return False

    async def continue_as_new(self) -> None:
        """Go on in another execution, where this one is long enough. No trial is in flight here."""
        return

    def ended(self, end: RunEnded) -> None:
        """The run ends here. Whoever returns instead of raising wants to see it go on."""
        ...


class RoundLoop:
    """Takes the steps of a run in their order."""

    def __init__(self, state: RunState, surroundings: Surroundings) -> None:
        self._state = state
        self._surroundings = surroundings

    async def measure_baseline(self) -> None:
        """Measure round 0, and the noise before it where the spec asks for that."""
        state, surroundings = self._state, self._surroundings
        baseline = state.baseline_candidate(content_hash(state.request.baseline))
        await self._measure_noise(baseline)
        surroundings.show("measuring the baseline")
        await surroundings.flush()
        [result] = await surroundings.measure([baseline], Purpose.BASELINE)
        state.time.opened_in = state.time.elapsed(surroundings.now())
        facts = state.record_baseline(baseline, result)
        surroundings.record(round_record(state, [baseline], [], [facts], surroundings.now()))
        self._end(unmeasured(state, result))
        self._end(refused_at_first_look(state))
        state.paused = state.paused or state.waits_after_first_look
        surroundings.initialize()

    async def _measure_noise(self, baseline: Candidate) -> None:
        """Answer some samples several times: it says what the run can find out."""
        if self._state.request.noise_first is None:
            return
        self._surroundings.show("measuring how much scores vary")
        await self._surroundings.flush()
        [result] = await self._surroundings.measure([baseline], Purpose.NOISE)
        self._state.record_noise(result)
        self._end(unmeasured(self._state, result))

    async def rounds(self) -> NoReturn:
        """Take step after step. Only an end leaves this."""
        while True:
            await self._end_if_decided()
            if await self._surroundings.rest():  # meanwhile people may have asked for an end
                await self._end_if_decided()
            await self._surroundings.continue_as_new()
            await self.step()

    async def _end_if_decided(self) -> None:
        """People come first, then the rules, the spec's own last, then the optimizer."""
        state, surroundings = self._state, self._surroundings
        if state.stop_requested is not None:
            self._end(RunEnded(StopReason.STOPPED_EARLY, state.stop_requested))
        await surroundings.check_clock()
        self._end(ended_by_rules(state, surroundings.now()))
        self._end(await surroundings.stopped_by_policy())
        self._end(surroundings.stopped_by_optimizer())

    async def step(self) -> None:
        """Propose, measure, observe. A step that only measures some samples leaves its round open."""
        self._surroundings.show(f"round {self._state.round + 1}: proposing")
        candidates, rejections = await self._surroundings.propose()
        results = await self._measure(candidates)
        self._observe(candidates, rejections, results)
        self._end(scoring_broke(results))

    async def _measure(self, candidates: Sequence[Candidate]) -> list[TrialResult]:
        """Run a step's trials. A candidate that won its race and will be the best is measured in full."""
        state, surroundings = self._state, self._surroundings
        number = state.round + 1
        parts = sum(1 for candidate in candidates if candidate.part is not None)
        doing = [f"{len(candidates) - parts} trials"] if parts < len(candidates) or not parts else []
        doing += [f"{parts} trials of some samples"] if parts else []
        surroundings.show(f"round {number}: {', '.join(doing)}")
        results = await surroundings.measure(candidates, Purpose.CANDIDATE)
        finished: list[int] = []
        while (place := state.unfinished_winner(candidates, results, finished)) is not None:
            surroundings.show(f"round {number}: measuring {candidates[place].candidate_id} in full")
            results[place] = await surroundings.complete(candidates[place], results[place])
            finished.append(place)
        return results

    def _observe(
        self, candidates: Sequence[Candidate], rejections: Sequence[Rejection], results: Sequence[TrialResult]
    ) -> None:
        """The round is over, unless all that was done was to learn from some samples: then it goes on."""
        state, surroundings = self._state, self._surroundings
        ends_round = state.ends_round(candidates)
        learned = state.record_parts(candidates, results)
        facts = state.record_round(candidates, results) if ends_round else []
        if candidates or state.lost_why is None:
            surroundings.observe([*learned, *facts])
        if ends_round:
            surroundings.record(round_record(state, candidates, rejections, facts, surroundings.now()))
        elif rejections:
            surroundings.record(step_record(state, rejections, surroundings.now()))

    def _end(self, end: RunEnded | None) -> None:
        if end is not None:
            self._surroundings.ended(end)
