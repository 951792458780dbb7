"""A scorer of the user's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ratchet._values import ShortText
from workflows.model.spec.extensions.named_plugins import NamedPlugin, PluginReference
from workflows.model.spec.extensions.scorer_options import OutputScorer


class PythonScorer(OutputScorer):
    """A Python callable `(output, sample) -> float | bool | Score | list[Score]`, sync or async."""

    graded_by = ".python:python"
    names_its_scores = True

    kind: Literal["python"]
    ref: PluginReference
    """`package.module:attribute`."""
    version: ShortText | None = None
    """Names the code's version. Default: a hash of the source of the module that defines it."""

    def plugins(self, place: str) -> Iterator[NamedPlugin]:
        yield NamedPlugin(f"{place}.ref", self.ref, 2, self.version)
