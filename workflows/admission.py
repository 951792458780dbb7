"""Admission: every configuration a run has tried, and which proposals may join them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ratchet.optimizer import CandidateProposal
from workflows.model.candidates import Candidate, ReasonCode, Rejection
from workflows.model.factors import Factor
from workflows.rules.validation import Admitted, Known, Refusal, candidate_name, examine

NO_BUDGET = "no budget is left for this trial"


class Admission:
    """Judges proposals against everything tried before and against each other."""

    def __init__(self, factors: Mapping[str, Factor]) -> None:
        self._factors = factors
        self._times_tried: dict[str, int] = {}
        self._hashes: dict[str, str] = {}
        self._replicates_used: dict[str, int] = {}

    def known(self) -> Known:
        """What proposals are checked against."""
        return Known(self._times_tried, self._hashes)

    def hash_of(self, candidate_id: str) -> str:
        """The configuration of a candidate, by its hash."""
        return self._hashes[candidate_id]

    def replicates_used(self, config_hash: str) -> int:
        """How many answers to each sample trials of a configuration had asked for."""
        return self._replicates_used.get(config_hash, 0)

    def note(self, candidate_id: str, config_hash: str, replicates: int) -> None:
        """A candidate that is tried from now on, with so many answers to each sample."""
        self._hashes[candidate_id] = config_hash
        self._times_tried[config_hash] = self._times_tried.get(config_hash, 0) + 1
        self._replicates_used[config_hash] = self._replicates_used.get(config_hash, 0) + replicates

    def admit(
        self, proposals: Sequence[CandidateProposal], round_index: int, affordable: int, replicates: int
    ) -> tuple[list[Candidate], list[Rejection]]:
        """A round's proposals, judged in their order: the candidates, and the rejections with their reasons."""
        candidates: list[Candidate] = []
        rejections: list[Rejection] = []
        for index, proposal in enumerate(proposals):
            parents = tuple(parent for parent in proposal.parent_candidate_ids if parent in self._hashes)
            judged = examine(proposal, self._factors, self.known(), [self._hashes[parent] for parent in parents])
            if proposal.withdrawn is not None and isinstance(judged, Admitted):
                judged = Refusal(_code(proposal.withdrawn.reason_code), proposal.withdrawn.message)
            if isinstance(judged, Admitted) and len(candidates) < affordable:
                if proposal.explore:
                    candidates.append(self._explored(judged, proposal, round_index, index))
                else:
                    candidates.append(self._candidate(judged, proposal, round_index, index, replicates))
                continue
            refusal = judged if isinstance(judged, Refusal) else Refusal(ReasonCode.BUDGET, NO_BUDGET)
            rejections.append(
                Rejection(
                    round=round_index,
                    proposed_index=index,
                    reason_code=refusal.reason_code,
                    message=refusal.message,
                    config_hash=judged.config_hash if isinstance(judged, Admitted) else None,
                    parent_candidate_ids=parents,
                )
            )
        return candidates, rejections

    def _explored(self, admitted: Admitted, proposal: CandidateProposal, round_index: int, index: int) -> Candidate:
        """The parent once more, as it is."""
        parent = next(parent for parent in proposal.parent_candidate_ids if self._hashes[parent] == admitted.config_hash)
        return Candidate(
            candidate_id=parent,
            config_hash=admitted.config_hash,
            configuration=admitted.configuration,
            round=round_index,
            index=index,
            explore=True,
        )

    def _candidate(
        self, admitted: Admitted, proposal: CandidateProposal, round_index: int, index: int, replicates: int
    ) -> Candidate:
        name = candidate_name(round_index, admitted.config_hash, self._hashes)
        used = self._replicates_used.get(admitted.config_hash, 0)
        self.note(name, admitted.config_hash, replicates)
        return Candidate(
            candidate_id=name,
            config_hash=admitted.config_hash,
            configuration=admitted.configuration,
            round=round_index,
            index=index,
            parent_candidate_ids=tuple(proposal.parent_candidate_ids),
            rationale=proposal.rationale,
            first_replicate=used,
            extra=proposal.extra,
        )


def _code(given: str) -> ReasonCode:
    """An optimizer of somebody else's may name whatever it likes."""
    try:
        return ReasonCode(given)
    except ValueError:
        return ReasonCode.INVALID_SHAPE
