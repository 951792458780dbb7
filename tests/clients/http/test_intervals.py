"""One interval of a score, whoever shows it: the page, every kind of report, the box on the terminal."""

from __future__ import annotations

from typing import Any

import httpx

from clients.reports.facts import best_iteration
from clients.reports.formatting import telling_apart
from clients.reports.history.entries import report_json
from clients.reports.html import html
from clients.reports.inlined_answers import inlined_answers
from clients.reports.load import facts_of
from clients.reports.markdown import markdown
from clients.reports.text.boxes import Verbosity, box
from store.read.reader import StoreReader
from tests.support.engines import Engines
from tests.support.html_reports import HtmlReport
from workflows.rules.statistics import interval_of_score


async def test_everybody_shows_the_same_bar(http: httpx.AsyncClient, engines: Engines, finished: str) -> None:
    report = await StoreReader(engines.database).runs.report(finished)
    assert report is not None
    facts = facts_of(report)
    drawn: list[dict[str, Any]] = (await http.get(f"/optimizations/{finished}/outline")).json()["trials"]
    bars = {one["candidate_id"]: (one["low"], one["high"]) for one in drawn if one["purpose"] in ("baseline", "candidate")}
    assert all(low < high for low, high in bars.values())
    assert bars == {one.candidate_id: interval_of_score(one.score, one.sample_means or ()) for one in facts.iterations}
    assert bars == {one["candidate_id"]: (one["low"], one["high"]) for one in report_json(facts)["compared"]}
    document = HtmlReport(html(facts, await inlined_answers(engines.database, finished)))
    assert document.data["answers"][f"/optimizations/{finished}/outline"]["trials"] == drawn
    best = best_iteration(facts)
    assert best is not None
    words = f"95% CI {'…'.join(telling_apart(*bars[best.candidate_id]))}"
    assert words in box(facts, Verbosity.FULL)
    assert words in markdown(facts)
    assert words == document.figures["Interval"]
