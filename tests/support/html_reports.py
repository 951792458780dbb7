"""What an HTML report holds, as the page in it reads it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any


class HtmlReport(HTMLParser):
    """The elements and attributes of a document, and what the element of its data says."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self._text = ""
        self._in_data = False
        self.feed(text)
        self.data: dict[str, Any] = json.loads(self._text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self._in_data = ("id", "report") in attrs

    def handle_endtag(self, tag: str) -> None:
        self._in_data = False

    def handle_data(self, data: str) -> None:
        self._text += data if self._in_data else ""

    @property
    def figures(self) -> dict[str, str]:
        """Its figures by their names."""
        return dict(self.words["figures"])

    @property
    def words(self) -> dict[str, Any]:
        """What it says of its run beside the server's answers."""
        words: dict[str, Any] = self.data["runs"][self.data["run_id"]]
        return words
