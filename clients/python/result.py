"""What came of a run, or has come of it so far."""

from __future__ import annotations

import html
import importlib
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from clients.commands.context import CommandError
from clients.commands.report import FORMATS, formatted
from clients.reports.facts import RunFacts, best_iteration
from clients.reports.headline import Headline, headline_of
from clients.reports.history.entries import get_entries
from clients.reports.text.boxes import Verbosity, box
from ratchet.errors import RunError

if TYPE_CHECKING:
    from clients.python.engine import Engine

ANSWERS_A_PAGE: Final = 500


class Result:
    """A run's figures and its winner. `print(result)` is the report."""

    def __init__(self, facts: RunFacts, engine: Engine) -> None:
        self._facts = facts
        self._engine = engine

    def __str__(self) -> str:
        return box(self._facts, Verbosity.SUMMARY)

    def __repr__(self) -> str:
        return f"<ratchet.Result {self.id} {self.status}: {self.headline.words}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    @property
    def id(self) -> str:
        """The run's id: `ratchet report ID` shows it, too."""
        return self._facts.run_id

    @property
    def status(self) -> str:
        """`completed`, `cancelled` or `failed`; another word while it goes on."""
        return self._facts.status

    @property
    def stop_reason(self) -> str | None:
        """Why it ended, in one word."""
        return None if self._facts.result is None else self._facts.result.stop_reason.value

    @property
    def message(self) -> str:
        """Why it ended, in a sentence."""
        return self._facts.message if self._facts.result is None else self._facts.result.message

    @cached_property
    def headline(self) -> Headline:
        """What the run comes to: `words` in a sentence, `outcome` in one word, and the figures of the confirmation."""
        return headline_of(self._facts)

    @property
    def configuration(self) -> dict[str, Any]:
        """The result, every factor with its value: the winner where it holds, else the baseline."""
        best = best_iteration(self._facts)
        return dict(self._facts.request.baseline if best is None else best.configuration)

    @property
    def baseline(self) -> dict[str, Any]:
        """The configuration that the run began with."""
        return dict(self._facts.request.baseline)

    @property
    def score(self) -> float | None:
        """What the result scores, on answers that the search never saw; in the search where nothing was confirmed."""
        return self.headline.in_search.best_score if self.headline.score is None else self.headline.score

    @property
    def baseline_score(self) -> float | None:
        """What the configuration that the run began with scores on the same answers."""
        found = self.headline
        return found.in_search.baseline_score if found.baseline_score is None else found.baseline_score

    @property
    def search_score(self) -> float | None:
        """The best score that the search saw: of many tries, and so optimistic."""
        return self.headline.in_search.best_score

    @property
    def verdict(self) -> str | None:
        """`better`, `not_worse`, `worse` or `inconclusive`: the winner against the baseline, where it was confirmed."""
        return None if self.headline.verdict is None else self.headline.verdict.value

    @property
    def holds(self) -> bool:
        """Whether the result is better than the baseline, or shorter and not worse, as its rule asks."""
        return self.headline.holds

    @property
    def cost(self) -> float:
        """What the run paid."""
        return self._facts.spend.cost

    @property
    def calls(self) -> int:
        """How often the target was called and answered."""
        return self._facts.spend.samples

    def report(self, format: str = "text", *, verbosity: str = "summary") -> str:
        """The report as `text`, `markdown`, `html`, `json` or `yaml`; `verbosity` is minimal, summary or full."""
        if format not in FORMATS:
            raise RunError(f"report: {format!r} is unknown; use one of {', '.join(FORMATS)}")
        answers = self._engine.run(self._inlined()) if format == "html" else {}
        return formatted(self._facts, Verbosity(verbosity), format, answers=answers)

    async def _inlined(self) -> dict[str, str]:
        from clients.reports.inlined_answers import inlined_answers

        return dict(await inlined_answers((await self._engine.servers()).database, self.id, in_full=False, slice_fields=None))

    def history(self) -> list[dict[str, Any]]:
        """One dictionary per round, the baseline's first, with its trials and its candidates."""
        return get_entries(self._facts)

    def trials(self) -> list[dict[str, Any]]:
        """Every configuration that was measured, with its score and what it took."""
        return [
            {
                "candidate": trial.candidate_id,
                "round": trial.round,
                "purpose": trial.purpose.value,
                "status": trial.trial_status,
                "score": trial.score,
                "low": trial.low,
                "high": trial.high,
                "samples": trial.statistics.sample_count,
                "passed": trial.statistics.success_count,
                "tokens": trial.statistics.total_tokens,
                "cost": trial.statistics.total_cost,
                "latency_ms": trial.statistics.mean_latency_ms,
                "error": trial.error,
                "configuration": dict(trial.configuration),
            }
            for trial in (*self._facts.iterations, *self._facts.further)
        ]

    def answers(self, candidate: str = "best", *, passed: bool | None = None) -> list[dict[str, Any]]:
        """What a candidate answered in the search, sample by sample; `passed` leaves only those that did, or did not."""
        return self._engine.run(self._answers(candidate, passed))

    async def _answers(self, candidate: str, passed: bool | None) -> list[dict[str, Any]]:
        from clients.reports.side_by_side import Incomparable, UnknownEntrant, named_entrant

        reader = (await self._engine.servers()).reader
        try:
            entrant = await named_entrant(reader, f"{self.id}/{candidate}")
        except (UnknownEntrant, Incomparable) as error:
            raise CommandError(f"answers: {error}") from None
        found: list[dict[str, Any]] = []
        while True:
            page = await reader.trials.items(
                self.id, entrant.candidate_id, passed=passed, offset=len(found), limit=ANSWERS_A_PAGE
            )
            if page is None or not page.items:
                return found
            found += [item.model_dump(mode="json") for item in page.items]

    def to_pandas(self) -> Any:
        """The trials as a pandas DataFrame, one column for each factor."""
        try:
            pandas = importlib.import_module("pandas")
        except ModuleNotFoundError:
            raise RunError("to_pandas() needs pandas, which is not installed: pip install pandas") from None
        rows = [{**trial, **trial.pop("configuration")} for trial in self.trials()]
        return pandas.DataFrame(rows)
