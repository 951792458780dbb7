"""JSON files: one list of objects, read object by object, so that the file may be larger than memory."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from activities.datasets.dataset_errors import DatasetError, shown
from activities.datasets.items import LONGEST, NESTED_TOO_DEEPLY, NO_ITEM, NOT_STRICT, STRICT_JSON, refuse_too_many_values

CHUNK = 256 * 1024
WHITE_SPACE = " \t\n\r"


def read_json(path: Path, name: str) -> Iterator[tuple[str, Any]]:
    """The objects of the file's list with the place of each."""
    with path.open("rb") as file:
        yield from _JsonList(file, name).objects()


class _JsonList:
    """A window on the file that moves over it."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._line = 1
        self._ended = False

    def objects(self) -> Iterator[tuple[str, Any]]:
        opening = self._next_character()
        if not opening:
            return
        if opening != "[":
            wrong = f"is not a list; {self._hint(opening)}"
            raise self._wrong(f"{shown(self._text[self._at : self._at + 200])} {wrong}", unquoted=wrong)
        self._advance(1)
        number = 1
        while self._next_character() != "]" or number > 1:
            where = f"{self._name} item {number} (line {self._line})"
            yield where, self._object(where)
            if (separator := self._next_character()) == "]":
                break
            if separator != ",":
                wrong = f"a comma or ] is missing after item {number}"
                raise self._wrong(f"{wrong}; {_what_is_there(separator)}", unquoted=wrong)
            self._advance(1)
            number += 1
        self._advance(1)
        if rest := self._next_character():
            wrong = "the list is over, but more follows{}; a JSON dataset is one list"
            raise self._wrong(wrong.format(f" ({rest!r})"), unquoted=wrong.format(""))

    def _object(self, where: str) -> Any:
        beginning = self._next_character()
        if beginning != "{":
            rest = shown(self._text[self._at : self._at + 200])
            raise DatasetError(f"{where}: {rest or 'nothing'} {NO_ITEM}", unquoted=f"{where}: {NO_ITEM}")
        while True:
            refuse_too_many_values(where, self._text, self._at)
            try:
                value, end = STRICT_JSON.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._grow():
                    continue
                raise self._not_json(where, error) from None
            except RecursionError:
                raise DatasetError(f"{where}: {NESTED_TOO_DEEPLY}") from None
            except ValueError as error:
                raise DatasetError(f"{where}: {error}", unquoted=f"{where}: {NOT_STRICT}") from None
            self._advance(end - self._at)
            return value

    def _not_json(self, where: str, error: json.JSONDecodeError) -> DatasetError:
        if not self._ended:
            return DatasetError(f"{where}: is no JSON object of at most {LONGEST:,} characters ({error.msg}); correct it")
        read = self._text[self._at : error.pos]
        line, column = self._line + read.count("\n"), len(read) - read.rfind("\n")
        return DatasetError(f"{where}: is not JSON ({error.msg} at line {line}, column {column}); correct it there")

    def _next_character(self) -> str:
        """The next one that is no white space, without passing it; empty at the end of the file."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in WHITE_SPACE:
                self._advance(1)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._grow():
                return ""

    def _grow(self) -> bool:
        """Read on, more each time, so that a large object is not tried too often; False when there is no more or too much."""
        left = len(self._text) - self._at
        if self._ended or left > LONGEST:
            return False
        chunk = self._file.read(max(CHUNK, left))
        self._ended = not chunk
        try:
            more = self._decoder.decode(chunk, final=self._ended)
        except UnicodeDecodeError as error:
            line = self._line + self._text.count("\n", self._at) + error.object.count(b"\n", 0, error.start)
            raise DatasetError(f"{self._name} line {line}: is not UTF-8; save the file as UTF-8") from None
        self._text, self._at = self._text[self._at :] + more, 0
        return True

    def _advance(self, characters: int) -> None:
        self._line += self._text.count("\n", self._at, self._at + characters)
        self._at += characters

    def _wrong(self, what: str, *, unquoted: str) -> DatasetError:
        where = f"{self._name} line {self._line}"
        return DatasetError(f"{where}: {what}", unquoted=f"{where}: {unquoted}")

    def _hint(self, opening: str) -> str:
        if opening == "{":
            return "write a list of items, [{…}, {…}]; one object per line is JSONL (format: jsonl)"
        return "write a list of items, [{…}, {…}]"


def _what_is_there(character: str) -> str:
    return f"there is {character!r}" if character else "the file ends there"
