"""One interval of a score, whoever shows it: the page, every kind of report, the box on the terminal."""

from __future__ import annotations

from typing import Any

import httpx

from clients.reports.formatting import telling_apart
from clients.reports.history.entries import report_json
from clients.reports.html import html
from clients.reports.inlined_answers import inlined_answers
from clients.reports.load import facts_of
from clients.reports.text.boxes import Verbosity, box
from clients.reports.text.summary import means_text
from store.read.reader import StoreReader
from tests.support.engines import Engines
from tests.support.html_reports import HtmlReport
from workflows.model.trial import Purpose
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
    # Where baseline and winner were confirmed, what is shown is how sure those figures are.
    confirmed = [one for one in facts.further if one.purpose is Purpose.CONFIRMATION]
    words = means_text(facts)
    assert len(confirmed) == 2 and words
    for one in confirmed:
        known = interval_of_score(one.score, one.sample_means or ())
        assert known == (one.low, one.high)
        assert all(end in words for end in telling_apart(*known))
    shown = " ".join(box(facts, Verbosity.FULL).replace("║", " ").split())
    assert words in shown
    assert words == document.figures["Means"]
