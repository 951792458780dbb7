"""The answers of a batch as a target that has them: what follows is the same as for an answer that came at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from activities.batches.request_file import custom_id
from activities.batches.result_file import ResultFiles
from activities.endpoints.call_context import CallContext
from activities.targets.already_answered import GivenAnswers, ToAnswer
from activities.targets.faults import NotSent
from ratchet import ExperimentContext, Output, Sample
from workflows.model.run.amounts import NOTHING, Amount
from workflows.model.suite import EvaluationSuite


class BatchAnswers(GivenAnswers):
    """Those pairs of a batch that have an answer, be it one that fails them. The others are left alone, and go again."""

    def __init__(self, results: ResultFiles, suite: EvaluationSuite, config_hash: str, *, scores_later: bool) -> None:
        super().__init__((), complete=False)
        self.scores_later = scores_later
        self._results = results
        self._suite = suite
        self._config_hash = config_hash
        self._names: dict[tuple[str, int], str] = {}

    def concern(self, pair: ToAnswer) -> bool:
        if pair.kept is not None:
            return False
        name = custom_id(self._config_hash, self._suite, pair.item_hash, pair.replicate)
        line = self._results.lines.get(name)
        if line is None or line.verdict != "answer":
            return False
        self._names[pair.sample.id, pair.replicate] = name
        return True

    def paid(self, sample: Sample, replicate: int) -> Amount:
        return self._results.bill(self._names[sample.id, replicate])

    async def answer(
        self, configuration: Mapping[str, Any], sample: Sample, experiment: ExperimentContext, context: CallContext
    ) -> Output:
        return self._results.output(self._names[sample.id, experiment.replicate])


class JudgedAnswers(GivenAnswers):
    """Answers that are kept, and on which judges have given all verdicts."""

    def __init__(self, ready: Collection[tuple[str, int]]) -> None:
        super().__init__((), complete=False, kept=True)
        self._ready = ready

    def concern(self, pair: ToAnswer) -> bool:
        return pair.kept is not None and (pair.sample.id, pair.replicate) in self._ready


class NeverSent(GivenAnswers):
    """Pairs whose request cannot be made, each with the reason: they fail, as they do where they are asked at once."""

    def __init__(self, faults: Mapping[tuple[str, int], NotSent]) -> None:
        super().__init__((), complete=False)
        self._faults = faults

    def concern(self, pair: ToAnswer) -> bool:
        return pair.kept is None and (pair.sample.id, pair.replicate) in self._faults

    def paid(self, sample: Sample, replicate: int) -> Amount:
        return NOTHING

    async def answer(
        self, configuration: Mapping[str, Any], sample: Sample, experiment: ExperimentContext, context: CallContext
    ) -> Output:
        raise self._faults[sample.id, experiment.replicate]
