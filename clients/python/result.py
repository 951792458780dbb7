"""What came of a run, or has come of it so far."""

from __future__ import annotations

import importlib
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from clients.commands.context import CommandError
from clients.commands.report import FORMATS, formatted
from clients.reports.facts import RunFacts, best_iteration
from clients.reports.headline import Headline, headline_of
from clients.reports.history.entries import get_entries
from clients.reports.history.stored_baselines import StoredSample, measured_samples
from clients.reports.notebook.result_cell import result_cell
from clients.reports.text.boxes import Verbosity, box
from ratchet.errors import RunError

if TYPE_CHECKING:
    import pandas

    from clients.python.engine import Engine
    from clients.python.result_rows import AnswerDict, TrialDict

ANSWERS_A_PAGE: Final = 500
FrameOf = Literal["trials", "answers"]
ReportFormat = Literal["text", "markdown", "html", "json", "yaml"]
ReportDetail = Literal["minimal", "summary", "full"]


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
        return result_cell(self._facts)

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

    def report(self, format: ReportFormat = "text", *, verbosity: ReportDetail = "summary") -> str:
        """The report as `text`, `markdown`, `html`, `json` or `yaml`; `verbosity` is minimal, summary or full."""
        if format not in FORMATS:
            raise RunError(f"report: {format!r} is unknown; use one of {', '.join(FORMATS)}")
        answers = self._engine.run(self._inlined()) if format == "html" else {}
        return formatted(self._facts, Verbosity(verbosity), format, answers=answers)

    async def _inlined(self) -> dict[str, str]:
        from clients.reports.inlined_answers import inlined_answers
        from clients.runs.lookup import written_spec

        servers = await self._engine.servers()
        return await inlined_answers(servers.database, self.id, written=await written_spec(servers, self.id))

    def history(self) -> list[dict[str, Any]]:
        """One dictionary per round, the baseline's first, with its trials and its candidates."""
        return get_entries(self._facts)

    def trials(self) -> list[TrialDict]:
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

    def answers(self, candidate: str = "best", *, passed: bool | None = None) -> list[AnswerDict]:
        """What a candidate answered in the search, sample by sample; `passed` leaves only those that did, or did not."""
        return self._engine.run(self._answers(candidate, passed))

    async def _answers(self, candidate: str, passed: bool | None) -> list[AnswerDict]:
        from clients.reports.comparisons.side_by_side import Incomparable, UnknownEntrant, named_entrant

        reader = (await self._engine.servers()).reader
        try:
            entrant = await named_entrant(reader, f"{self.id}/{candidate}")
        except (UnknownEntrant, Incomparable) as error:
            raise CommandError(f"answers: {error}") from None
        found: list[AnswerDict] = []
        while True:
            page = await reader.trials.items(
                self.id, entrant.candidate_id, passed=passed, offset=len(found), limit=ANSWERS_A_PAGE
            )
            if page is None or not page.items:
                return found
            found += [cast("AnswerDict", item.model_dump(mode="json")) for item in page.items]

    def by_sample(self) -> dict[str, StoredSample]:
        """What the configuration that the run began with reached on every sample."""
        return self._engine.run(self._by_sample())

    async def _by_sample(self) -> dict[str, StoredSample]:
        return await measured_samples((await self._engine.servers()).reader, self._facts)

    def to_pandas(self, of: FrameOf = "trials", *, candidate: str = "best", passed: bool | None = None) -> pandas.DataFrame:
        """The `trials` as a pandas DataFrame with a column for each factor, or the `answers` of a candidate with one for each
        score; a column that would have the name of another is called `configuration.NAME`, or `score.NAME`."""
        if of not in ("trials", "answers"):
            raise RunError(f"to_pandas: {of!r} is unknown; use trials or answers")
        try:
            library = importlib.import_module("pandas")
        except ModuleNotFoundError:
            told = 'to_pandas() needs pandas, which is not installed: pip install "ratchet-optimizer[pandas]"'
            raise RunError(told) from None
        if of == "trials":
            rows = [_flat(dict(trial), "configuration", "configuration") for trial in self.trials()]
        else:
            rows = [_flat(dict(answer), "scores", "score") for answer in self.answers(candidate, passed=passed)]
        frame: pandas.DataFrame = library.DataFrame(rows)
        return frame


def _flat(row: dict[str, Any], part: str, prefix: str) -> dict[str, Any]:
    """A row with the values of one of its parts as columns of their own."""
    inner = row.pop(part)
    return row | {f"{prefix}.{name}" if name in row else name: value for name, value in inner.items()}
