"""The files of a sample and of factors on their way to a target: read when a request is made, and never kept with it.

Where a file belongs in a message, a mark stands while placeholders are filled in. The mark holds a random number, so that no
text of a sample, a candidate or a model can name a file that the sample does not.
"""

from __future__ import annotations

import re
import secrets
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from activities.targets.faults import NotSent
from ratchet import Sample
from ratchet._files import IMAGES, TEXT, FileReference, data_url, references_in, with_files
from ratchet._formats.canonical import content_hash
from ratchet._text.placeholders import Finished
from store.read.sample_files import FileReader, StoredFile
from workflows.model.spec.targets.chat import TAKEN_FILES


class AttachedFiles:
    """The files that one request sends as parts of its messages."""

    def __init__(self, files: Mapping[FileReference, StoredFile], salt: str = "") -> None:
        """With a `salt` of the caller's the marks are the same again in a request that is repeated."""
        self._mark = f"⟦file {salt or secrets.token_hex(16)}:"
        self._files = files
        self._references = list(files)

    def marked(self, value: Any) -> Any:
        """A value with its text files as text, and a mark in the place of each other one."""
        return with_files(value, self._mark_of) if self._files else value

    def _mark_of(self, reference: FileReference) -> Any:
        file = self._files.get(reference)
        if file is None:
            return reference.as_json()
        if file.media_type == TEXT:
            return Finished(file.content.decode())
        return f"{self._mark}{self._references.index(reference)}⟧"

    def sent(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Messages with the files in the place of their marks."""
        return [self._with_parts(message) for message in messages] if self._files else messages

    def _with_parts(self, message: dict[str, Any]) -> dict[str, Any]:
        content = message.get("content")
        if isinstance(content, str) and self._mark in content:
            pieces = self._pattern.split(content)
            parts = [self._part(piece, index % 2 == 1) for index, piece in enumerate(pieces) if index % 2 or piece.strip()]
            return {**message, "content": parts}
        return {**message, "content": self._inlined(content)} if isinstance(content, list) else message

    def _part(self, piece: str, is_file: bool) -> dict[str, Any]:
        if not is_file:
            return {"type": "text", "text": piece}
        reference = self._references[int(piece)]
        url = self._url(reference)
        if reference.media_type in IMAGES:
            return {"type": "image_url", "image_url": {"url": url}}
        return {"type": "file", "file": {"filename": f"{reference.digest[:12]}.pdf", "file_data": url}}

    def _inlined(self, value: Any) -> Any:
        """Parts that a conversation has by itself, with a file's URL in the place of its mark."""
        if isinstance(value, str):
            return self._pattern.sub(lambda match: self._url(self._references[int(match[1])]), value)
        if isinstance(value, Mapping):
            return {name: self._inlined(part) for name, part in value.items()}
        return [self._inlined(part) for part in value] if isinstance(value, list) else value

    def _url(self, reference: FileReference) -> str:
        return data_url(reference.media_type, self._files[reference].content)

    @property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(rf"{re.escape(self._mark)}(\d+)⟧")


async def attached(files: FileReader | None, *values: Any) -> AttachedFiles:
    """Read what a chat sends of the files that these values name. Raises NotSent for what no chat model takes."""
    found = await _loaded(files, *values)
    wrong = next((file for file in found.values() if file.media_type not in TAKEN_FILES), None)
    if wrong is not None:
        raise NotSent(f"a file is {wrong.media_type}; chat models take {', '.join(TAKEN_FILES)}")
    return AttachedFiles(found)


async def attached_to_reader(files: FileReader, inputs: Iterable[Any], most: int) -> AttachedFiles:
    """Read the first files of the inputs that a proposer or a judge is shown, of those that a model takes. Its request names
    its answer, so that marks say no more than which files they are; all that a text could forge is another look at these."""
    named = (reference for given in inputs for reference in references_in(given))
    shown = list(dict.fromkeys(reference for reference in named if reference.media_type in TAKEN_FILES))[:most]
    loaded = {reference: await files.load(reference.digest) for reference in shown}
    found = {
        reference: file for reference, file in loaded.items() if file is not None and file.media_type == reference.media_type
    }
    return AttachedFiles(found, content_hash([reference.digest for reference in found])[:32])


async def with_contents(files: FileReader | None, sample: Sample, configuration: Mapping[str, Any] | None = None) -> Sample:
    """The sample with what its files hold, and those of a configuration, for code that reads them."""
    found = await _loaded(files, sample.input, configuration)
    contents = {reference.digest: b64encode(file.content).decode() for reference, file in found.items()}
    return replace(sample, files=contents) if contents else sample


async def with_data_urls(files: FileReader | None, *values: Any) -> list[Any]:
    """These values with their files as data URLs, and text files as text, for endpoints that read JSON."""
    found = await _loaded(files, *values)

    def written(reference: FileReference) -> str:
        file = found[reference]
        return Finished(file.content.decode()) if file.media_type == TEXT else data_url(file.media_type, file.content)

    return [with_files(value, written) if found else value for value in values]


async def _loaded(files: FileReader | None, *values: Any) -> dict[FileReference, StoredFile]:
    """By what is in the store: what a reference says of a kind is only believed where it is true."""
    found: dict[FileReference, StoredFile] = {}
    for value in values:
        for reference in references_in(value):
            if reference in found or files is None:
                continue
            file = await files.load(reference.digest)
            if file is None or file.media_type != reference.media_type:
                raise NotSent(
                    f"the file with sha256 {reference.digest} is not in the store; add its dataset again, or start the run anew"
                )
            found[reference] = file
    return found
