"""Scores that a target gives its own answers."""

from __future__ import annotations

from typing import Literal

from workflows.model.spec.extensions.scorer_options import ScoreName, Scorer


class ReportedScorer(Scorer):
    """The score that the target itself gives its answer, as external runners and agents do. An answer without it fails the
    scoring."""

    graded_by = ".reported:reported"

    kind: Literal["reported"]
    key: ScoreName | None = None
    """The score's name where it is given. Default: the name."""

    @property
    def reported_name(self) -> str:
        return self.key or self.score_name
