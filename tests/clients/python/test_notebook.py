"""A notebook that is executed without a screen, over the real engines: progress moves while the run goes on, and what came of
it shows itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[3]
ARTIFACTS = ROOT / ".artifacts" / "notebook"
"""Every run of this test keeps its notebook for people to look at; never committed."""

SET_UP = """
import pathlib, time
import ratchet

gate = pathlib.Path("gate")

def answer(configuration, sample):
    while configuration["k"] != 1 and not gate.exists():
        time.sleep(0.02)
    return "yes" if configuration["k"] > sample.input else "no"

asked = dict(
    target=answer,
    configuration={"k": ratchet.integer(1, min=0, max=9), "note": "<script>alert('a note')</script>"},
    data=[{"input": n, "expected": "yes"} for n in range(8)],
    scorer="exact",
    stop={"max_rounds": 3, "no_improvement": 0},
)
"""
OPTIMIZE = 'result = ratchet.optimize(name="in-a-notebook", **asked)\nresult'
START = 'run = ratchet.start(name="in-a-notebook", **asked)\nawait run\nrun'
BEGIN = """
async def at_once(configuration, sample):
    return "yes" if configuration["k"] > sample.input else "no"

begun = ratchet.start(name="in-two-cells", **(asked | {"target": at_once}))
"""
ENDED = "ended = await begun\n(ended.status, ended.configuration['k'] > 1)"
LOOK = "result.to_pandas()[['candidate', 'k', 'score']].head(2)"
REFUSED = "ratchet.optimize(name='refused', budjet=1, **asked)"


class Watched(NotebookClient):
    """Sees what a front end would see, as it comes."""

    sees: Callable[[str], None]

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        data = msg["content"].get("data", {})
        if msg["msg_type"] in ("display_data", "update_display_data") and "text/html" in data:
            self.sees(data["text/html"])
        return super().process_message(msg, cell, cell_index)


async def test_a_notebook_shows_progress_while_it_is_made_and_then_the_result(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_HOME", str(home))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    seen: list[str] = []

    def sees(html: str) -> None:
        seen.append(html)
        moved = {html for html in seen if "In flight" in html}
        if "/8</span>" in html and "In flight" in html and "1 done" in html and len(moved) > 1:
            (tmp_path / "gate").touch()  # nothing ends before somebody saw a trial in flight, and that it moves

    notebook = notebook_of(SET_UP, OPTIMIZE, START, LOOK, BEGIN, ENDED, REFUSED)
    notebook.cells[-1].metadata["tags"] = ["raises-exception"]
    client = Watched(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    client.sees = sees
    await client.async_execute()
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    (ARTIFACTS / "executed.ipynb").write_text(json.dumps(notebook), encoding="utf-8")

    moved = [html for html in seen if "In flight" in html]
    assert len(set(moved)) > 1
    progress, shown = outputs(notebook, 1)
    assert progress.output_type == "display_data"
    assert "completed" in progress.data["text/html"]
    assert "In flight" not in progress.data["text/html"], "one that is over is short"
    assert "Reached the limit of 3 rounds" in progress.data["text/plain"]
    assert shown.output_type == "execute_result"
    for expected in ("What changed", "<svg", "k: ", "Figures"):
        assert expected in shown.data["text/html"]
    again = outputs(notebook, 2)
    assert [output.output_type for output in again] == ["display_data", "execute_result"], "nothing is said twice"
    assert "<svg" in again[1].data["text/html"]
    assert "r0" in outputs(notebook, 3)[0].data["text/plain"]
    assert outputs(notebook, 5)[-1].data["text/plain"] == "('completed', True)", "the loop of the cells serves it between them"
    display, error = outputs(notebook, 6)
    assert display.data["text/html"] == "", "below what is refused stands the reason, and nothing else"
    assert (error.ename, "budjet" in error.evalue) == ("SpecError", True)
    told = "".join(str(output) for cell in notebook.cells for output in cell.outputs)
    assert "alert('a note')" not in told
    assert not [output for cell in notebook.cells for output in cell.outputs if output.output_type == "stream"]


def notebook_of(*cells: str) -> Any:
    v4: Any = nbformat.v4
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return v4.new_notebook(cells=[v4.new_code_cell(code) for code in cells], metadata={"kernelspec": kernel})


def outputs(notebook: Any, place: int) -> list[Any]:
    return list(notebook.cells[place].outputs)
