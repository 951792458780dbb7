"""How prompts, tags, sections, parameters and versions are named. Checked in full before anything is touched."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from ratchet.prompts.prompt_errors import InvalidName

MOST_SEGMENTS = 8

_IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_VERSION = re.compile(r"(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})")
_LIKE_A_VERSION = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+")

SOURCE = "source"
"""Stands for the template itself, without any override, wherever a tag can be named."""


def checked_identifier(text: str, what: str) -> str:
    """A tag, a parameter, a segment of a name or of a path."""
    if _IDENTIFIER.fullmatch(text) is None:
        raise InvalidName(
            f"{what} {_quoted(text)} is not allowed; use 1 to 64 of a-z, 0-9, dot, underscore and hyphen, "
            "beginning with a letter or digit"
        )
    return text


def checked_name(name: str) -> str:
    """The name of a prompt: a namespace of one or more segments and a key, e.g. `support/triage`."""
    segments = name.split("/")
    if not 2 <= len(segments) <= MOST_SEGMENTS:
        raise InvalidName(
            f"prompt {_quoted(name)} is not allowed; write namespace/key, such as support/triage, "
            f"with at most {MOST_SEGMENTS} segments"
        )
    for segment in segments:
        checked_identifier(segment, f"in prompt {_quoted(name)}, segment")
        if segment.endswith(".json"):
            raise InvalidName(f"in prompt {_quoted(name)}, segment {segment!r} is not allowed; files of tags end in .json")
    return name


def checked_path(path: str) -> str:
    """The path of a section, e.g. `rules/labels`."""
    segments = path.split("/")
    if len(segments) > MOST_SEGMENTS:
        raise InvalidName(f"section {_quoted(path)} is not allowed; a path has at most {MOST_SEGMENTS} segments")
    for segment in segments:
        checked_identifier(segment, f"in section {_quoted(path)}, segment")
    return path


def checked_tag(tag: str) -> str:
    """A tag that may be written; what reads like a version, and `source`, stand for something else."""
    checked_identifier(tag, "tag")
    if _LIKE_A_VERSION.fullmatch(tag) is not None:
        raise InvalidName(f"tag {tag!r} is not allowed; it reads like a version, and versions never move")
    if tag == SOURCE:
        raise InvalidName(f"tag {tag!r} is not allowed; it stands for the template without overrides")
    return tag


def checked_version(version: str) -> str:
    if _VERSION.fullmatch(version) is None:
        raise InvalidName(f"version {_quoted(version)} is not allowed; write three numbers, such as 1.0.2")
    return version


def is_version(text: str) -> bool:
    return _VERSION.fullmatch(text) is not None


def version_order(version: str) -> tuple[int, ...]:
    """The key to sort versions by: 1.0.10 comes after 1.0.2."""
    return tuple(int(number) for number in version.split("."))


def _quoted(text: str) -> str:
    return ascii(text if len(text) <= 80 else text[:79] + "…")


def joined_path(value: object) -> object:
    """The path of a section whose segments come one by one."""
    return "/".join(value) if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value) else value


PromptName = Annotated[str, AfterValidator(checked_name)]
SectionPath = Annotated[str, BeforeValidator(joined_path), AfterValidator(checked_path)]
TagName = Annotated[str, AfterValidator(checked_tag)]
Version = Annotated[str, AfterValidator(checked_version)]
ParameterName = Annotated[str, AfterValidator(lambda name: checked_identifier(name, "parameter"))]
