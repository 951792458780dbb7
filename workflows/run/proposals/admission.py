"""Admission: every configuration a run has tried, and which proposals may join them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ratchet._formats.canonical import NotCanonical, content_hash, normalize
from ratchet.optimizer import CandidateProposal, Part, TrialFacts
from workflows.model.run.candidates import Candidate, ReasonCode, Rejection
from workflows.model.spec.factors import Factor
from workflows.rules.decisions.budget import TrialsLeft
from workflows.rules.proposals.parts import Answered, Extents
from workflows.rules.proposals.validation import Admitted, KnownConfigurations, Refusal, candidate_name, examine

NO_BUDGET = "no budget is left for this trial"


@dataclass(frozen=True, slots=True)
class AdmissionStep:
    """What is asked of the proposals that are judged together."""

    round: int
    first_index: int
    """How many proposals the round had before."""
    replicates: int
    extents: Extents


class Admission:
    """Judges proposals against everything tried before and against each other."""

    def __init__(self, factors: Mapping[str, Factor]) -> None:
        self._factors = factors
        self._times_tried: dict[str, int] = {}
        self._hashes: dict[str, str] = {}
        self._parents: dict[str, tuple[str, ...]] = {}
        """Of candidates that were measured in parts only: id by id, where they came from."""
        self._in_parts: dict[str, str] = {}
        """Configurations that were measured in parts, with the candidate's id."""
        self._replicates_used: dict[str, int] = {}
        self._answered = Answered()

    def known(self) -> KnownConfigurations:
        """What proposals are checked against."""
        return KnownConfigurations(self._times_tried, self._hashes)

    def hash_of(self, candidate_id: str) -> str:
        """The configuration of a candidate, by its hash."""
        return self._hashes[candidate_id]

    def replicates_used(self, config_hash: str) -> int:
        """How many answers to each sample trials of a configuration had asked for. Parts ask for the first one."""
        return max(self._replicates_used.get(config_hash, 0), int(config_hash in self._in_parts))

    def note(self, candidate_id: str, config_hash: str, replicates: int) -> None:
        """A candidate that is tried in full from now on, with answers to each sample up to this one."""
        self._hashes[candidate_id] = config_hash
        self._parents.pop(candidate_id, None)
        self._times_tried[config_hash] = self._times_tried.get(config_hash, 0) + 1
        self._replicates_used[config_hash] = max(self._replicates_used.get(config_hash, 0), replicates)

    def note_part(self, candidate_id: str, config_hash: str, parents: tuple[str, ...]) -> None:
        """A candidate that is measured in part from now on."""
        if candidate_id not in self._hashes:
            self._hashes[candidate_id] = config_hash
            self._parents[candidate_id] = parents
        self._in_parts.setdefault(config_hash, candidate_id)

    def note_answers(self, trial: TrialFacts, part: Part) -> None:
        """What a trial with the first answer to each sample has measured."""
        if trial.status == "completed" and trial.stopped_early is None:
            self._answered.note(trial.config_hash, part)

    def admit(
        self, proposals: Sequence[CandidateProposal], step: AdmissionStep, room: TrialsLeft
    ) -> tuple[list[Candidate], list[Rejection]]:
        """Proposals, judged in their order: the candidates, and the rejections with their reasons."""
        candidates: list[Candidate] = []
        rejections: list[Rejection] = []
        beside = Answered()
        for index, proposal in enumerate(proposals, start=step.first_index):
            judged = self._judged(proposal)
            candidate = judged if isinstance(judged, Refusal) else self._candidate(judged, proposal, step, index)
            if isinstance(candidate, Candidate):
                refusal = self._refuse_beside(candidate, step, room, beside)
                if refusal is None:
                    self._keep(candidate, step)
                    candidates.append(candidate)
                    continue
                candidate = refusal
            rejections.append(
                Rejection(
                    round=step.round,
                    proposed_index=index,
                    reason_code=candidate.reason_code,
                    message=candidate.message,
                    config_hash=judged.config_hash if isinstance(judged, Admitted) else None,
                    parent_candidate_ids=self._known_parents(proposal),
                    proposed_hash=_hash_of(proposal),
                )
            )
        return candidates, rejections

    def _judged(self, proposal: CandidateProposal) -> Admitted | Refusal:
        parents = self._known_parents(proposal)
        judged = examine(proposal, self._factors, self.known(), [self._hashes[parent] for parent in parents])
        if proposal.withdrawn is not None and isinstance(judged, Admitted):
            return Refusal(_code(proposal.withdrawn.reason_code), proposal.withdrawn.message)
        return judged

    def _known_parents(self, proposal: CandidateProposal) -> tuple[str, ...]:
        return tuple(parent for parent in proposal.parent_candidate_ids if parent in self._hashes)

    def _candidate(
        self, admitted: Admitted, proposal: CandidateProposal, step: AdmissionStep, index: int
    ) -> Candidate | Refusal:
        """The proposal under the name it has already, or under a new one."""
        part = None if proposal.part is None else step.extents.located(proposal.part)
        if isinstance(part, Refusal):
            return part
        known = self._name_of(admitted, proposal)
        name = known or candidate_name(step.round, admitted.config_hash, self._hashes)
        return Candidate(
            candidate_id=name,
            config_hash=admitted.config_hash,
            configuration=admitted.configuration,
            round=step.round,
            index=index,
            parent_candidate_ids=self._parents.get(name, ()) if known else proposal.parent_candidate_ids,
            rationale=proposal.rationale,
            first_replicate=self.replicates_used(admitted.config_hash) if known is None else 0,
            part=part,
            extra=proposal.extra,
        )

    def _name_of(self, admitted: Admitted, proposal: CandidateProposal) -> str | None:
        """The candidate that this configuration already is: any for a part, one that has no trial in full for such a trial."""
        in_parts = self._in_parts.get(admitted.config_hash)
        if proposal.part is None:
            return None if proposal.resample or admitted.config_hash in self._times_tried else in_parts
        named = [parent for parent in proposal.parent_candidate_ids if self._hashes[parent] == admitted.config_hash]
        if named or in_parts or admitted.config_hash not in self._times_tried:
            return named[0] if named else in_parts
        return min(name for name, config_hash in self._hashes.items() if config_hash == admitted.config_hash)

    def _refuse_beside(self, candidate: Candidate, step: AdmissionStep, room: TrialsLeft, beside: Answered) -> Refusal | None:
        """Why it cannot be measured together with the others, if it cannot. They run side by side, so an answer that two of
        them ask for would be paid for twice."""
        measured = candidate.part or step.extents.whole
        if candidate.first_replicate == 0:
            if beside.missing(candidate.config_hash, measured) < (measured.count or 0):
                told = f"configuration {candidate.config_hash[:8]} is measured on these samples by another proposal of the step"
                return Refusal(ReasonCode.DUPLICATE, told)
            beside.note(candidate.config_hash, measured)
        return None if room.take(self._calls(candidate, step)) else Refusal(ReasonCode.BUDGET, NO_BUDGET)

    def _calls(self, candidate: Candidate, step: AdmissionStep) -> int:
        """Target calls that its trial makes, those left out that are answered."""
        wanted = candidate.part or step.extents.whole
        once = wanted.count or 0
        again = once * (step.replicates - 1) if candidate.part is None else 0
        if candidate.first_replicate:
            return once + again
        return self._answered.missing(candidate.config_hash, wanted) + again

    def _keep(self, candidate: Candidate, step: AdmissionStep) -> None:
        if candidate.part is None:
            self.note(candidate.candidate_id, candidate.config_hash, candidate.first_replicate + step.replicates)
        else:
            self.note_part(candidate.candidate_id, candidate.config_hash, candidate.parent_candidate_ids)


def _hash_of(proposal: CandidateProposal) -> str | None:
    """The name under which what was proposed is stored, whatever is wrong with it."""
    try:
        return content_hash(normalize(proposal.configuration))
    except NotCanonical:
        return None


def _code(given: str) -> ReasonCode:
    """An optimizer of somebody else's may name whatever it likes."""
    try:
        return ReasonCode(given)
    except ValueError:
        return ReasonCode.INVALID_SHAPE
