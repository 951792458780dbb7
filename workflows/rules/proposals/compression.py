"""What a compression knows: its sections, its edits, what was tried and what came of it; and the report of that."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import JsonValue

from ratchet._formats.canonical import canonical_json, content_hash
from ratchet.optimizer import TrialFacts
from ratchet.prompts.modifications import Modification
from ratchet.prompts.template import SECTION, PromptTemplate
from workflows.model.run.compression_report import Compression, EditReport, Strategy
from workflows.model.run.run_result import OptimizationResult
from workflows.model.spec.factors import Configuration
from workflows.rules.proposals.composition import CompositionStep, Part, Parts, next_step, only
from workflows.rules.proposals.text_cuts import Cut, edits_of, without

REWRITTEN = "rewritten"
"""The strategy of a section that a model, or a plug-in, wrote anew."""


@dataclass(frozen=True, slots=True)
class SectionEdit:
    """One way to make one section shorter."""

    path: str
    strategy: str
    number: int
    saving: int
    """In tokens."""

    @property
    def part(self) -> Part:
        return Part(self.part_id, self.path, self.saving, exclusive=self.strategy == REWRITTEN)

    @property
    def part_id(self) -> str:
        return f"{self.path} {self.strategy} {self.number}"


@dataclass(frozen=True, slots=True)
class Tried:
    """A set of edits that was proposed, and what became of it."""

    parts: Parts
    tokens: Mapping[str, int]
    """Of every section that it changes."""
    accepted: bool = False
    candidate_id: str | None = None
    pass_rate: float | None = None
    regressions: int | None = None
    told: str = "kept out before it was measured"

    def measured(self, trial: TrialFacts) -> Tried:
        return replace(
            self,
            accepted=trial.status == "completed" and bool(trial.accepted),
            candidate_id=trial.candidate_id,
            pass_rate=trial.success_rate,
            regressions=trial.regressions,
            told=trial.stopped_early or trial.verdict or trial.status,
        )


@dataclass(frozen=True, slots=True)
class Findings:
    """All that a compression remembers between rounds."""

    sections: Mapping[str, int]
    """The tokens of every section that is worth the trouble."""
    edits: Sequence[SectionEdit]
    pass_rate: float | None = None
    """Of the baseline."""
    tried: Sequence[Tried] = ()

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Findings:
        return cls(
            pass_rate=data["pass_rate"],
            sections=data["sections"],
            edits=[SectionEdit(*fields) for fields in data["edits"]],
            tried=[Tried(**{**fields, "parts": frozenset(fields["parts"])}) for fields in data["tried"]],
        )

    def as_data(self) -> dict[str, JsonValue]:
        return {
            "pass_rate": self.pass_rate,
            "sections": dict(self.sections),
            "edits": [[edit.path, edit.strategy, edit.number, edit.saving] for edit in self.edits],
            "tried": [
                {
                    "parts": [*sorted(tried.parts)],
                    "tokens": dict(tried.tokens),
                    "accepted": tried.accepted,
                    "candidate_id": tried.candidate_id,
                    "pass_rate": tried.pass_rate,
                    "regressions": tried.regressions,
                    "told": tried.told,
                }
                for tried in self.tried
            ],
        }

    def having(self, proposed: Mapping[str, Sequence[Tried]], trials: Mapping[str, TrialFacts]) -> Findings:
        """With what became of proposed sets, by the hashes of their configurations; what was kept out was not tried."""
        tried = [
            one.measured(trials[config_hash]) if config_hash in trials else one
            for config_hash, same in proposed.items()
            for one in same
        ]
        return replace(self, tried=[*self.tried, *tried])

    @property
    def step(self) -> CompositionStep:
        """What to try next."""
        return next_step([edit.part for edit in self.edits], {tried.parts: tried.accepted for tried in self.tried})

    def of(self, parts: Parts) -> list[SectionEdit]:
        """The edits of a set, the largest saving first."""
        return [edit for edit in self.edits if edit.part_id in parts]

    def alone(self, edit: SectionEdit) -> Tried | None:
        """What became of an edit by itself."""
        return next((tried for tried in self.tried if tried.parts == only(edit.part)), None)


def worth_most(edits: Iterable[SectionEdit], most: int) -> list[SectionEdit]:
    """The largest savings first; nothing that saves nothing."""
    saving = [edit for edit in edits if edit.saving > 0]
    return sorted(saving, key=lambda edit: (-edit.saving, edit.part_id))[:most]


def cuts_of(
    configuration: Configuration, sections: Iterable[str], strategies: Sequence[Strategy]
) -> dict[str, tuple[Cut, ...]]:
    """What every edit that needs no model cuts out of its section, by the edit's id."""
    values = {path: configuration[path] for path in sections}
    others = [value for name, value in configuration.items() if name not in values and isinstance(value, str)]
    return {
        SectionEdit(edit.path, edit.strategy, edit.number, 0).part_id: edit.cuts
        for edit in edits_of(values, others, strategies)
    }


def shortened(value: JsonValue, edits: Sequence[SectionEdit], cuts: Mapping[str, tuple[Cut, ...]]) -> JsonValue:
    """A section with all these edits, none of which rewrites it."""
    return without(value, [cut for edit in edits for cut in cuts[edit.part_id]])


def reported(
    found: Findings | None, result: OptimizationResult, baseline: Configuration, template: PromptTemplate | None
) -> Compression:
    """What came of it, for people and for whoever applies it."""
    if found is None:
        return Compression(prompt=template and template.name)
    winner = next((tried for tried in found.tried if tried.candidate_id == result.best_candidate_id), None)
    before = sum(found.sections.values())
    chosen = winner.parts if winner else frozenset[str]()
    modifications = [
        Modification(
            section_path=path.removeprefix(SECTION),
            original_hash=_original_hash(path, baseline[path], template),
            proposed_body=value,
            strategies=tuple(edit.strategy for edit in found.of(chosen) if edit.path == path),
            token_reduction=found.sections[path] - winner.tokens[path] if winner and path in winner.tokens else 0,
            baseline_pass_rate=found.pass_rate,
            candidate_pass_rate=winner.pass_rate if winner else None,
        )
        for path, value in result.best_configuration.items()
        if canonical_json(value) != canonical_json(baseline[path])
    ]
    saved = sum(modification.token_reduction for modification in modifications)
    judged = result.confirmation.judged if result.confirmation else None
    edits = [_outcome(edit, found, chosen) for edit in found.edits]
    return Compression(
        prompt=template and template.name,
        modifications=tuple(modifications),
        edits=tuple(edits),
        rejected=tuple(edit for edit in edits if not edit.kept),
        tokens_before=before,
        tokens_after=before - saved,
        total_token_reduction=saved,
        baseline_pass_rate=found.pass_rate,
        candidate_pass_rate=winner.pass_rate if winner else None,
        confirmed=judged.accepted if judged else None,
        has_modifications=bool(modifications),
    )


def _outcome(edit: SectionEdit, found: Findings, chosen: Parts) -> EditReport:
    tried, kept = found.alone(edit), edit.part_id in chosen
    if tried is None:
        why = "not tried"
    elif kept:
        why = "kept"
    elif tried.accepted:
        why = "did no harm alone, but is not part of the set that did none together"
    else:
        why = f"alone: {tried.told}"
    return EditReport(
        section_path=edit.path.removeprefix(SECTION),
        strategy=edit.strategy,
        token_reduction=edit.saving,
        kept=kept,
        pass_rate=tried.pass_rate if tried else None,
        regression_count=tried.regressions if tried else None,
        candidate_id=tried.candidate_id if tried else None,
        reason=why,
    )


def _original_hash(path: str, value: JsonValue, template: PromptTemplate | None) -> str:
    """Of the section as its author wrote it, since that is what overrides name; of a factor as prompts would hash it."""
    if template is not None and path.startswith(SECTION):
        return template.section(path.removeprefix(SECTION)).hash
    return hashlib.sha256(value.encode()).hexdigest() if isinstance(value, str) else content_hash(value)
