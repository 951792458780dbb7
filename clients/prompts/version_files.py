"""Versions of a prompt as files: `prompt_v1.0.0.yaml` for each, which never changes, and `versions.json` with the current one.

A file shows what the version puts in force. Where that is not what its author wrote, `authored` has the author's own, so that
the very same template and overrides come out of the file again. A policy is written by its own parts: task, rules, skills,
parameters.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue, ValidationError

from ratchet._formats.canonical import NotCanonical, canonical_json, normalize
from ratchet._formats.yaml import YamlProblem, read_yaml
from ratchet._formats.yaml_text import yaml_text
from ratchet._text.explanation import explain
from ratchet.prompts.overrides import Resolved
from ratchet.prompts.policy import policy_template
from ratchet.prompts.prompt_errors import PromptError
from ratchet.prompts.template import PARAMETER, SECTION, Overrides, PromptTemplate, effective_hash
from workflows.rules.releases.versions import Version

INDEX: Final = "versions.json"
LARGEST_FILE: Final = 4 * 1024 * 1024
LARGEST_LIMIT: Final = 10_000
"""Of steps or attempts, where a file does not say how many there may be."""
_FILE: Final = re.compile(r"prompt_v(.+)\.ya?ml")
_VALUE_OF: Final = {"text": "body", "tool": "description", "example": "examples"}
"""The field of a section that an override replaces, by its kind."""
_BARE: Final = frozenset({"version", "prev_version", "prompt", "kind", "type", "path", "timestamp"})
_SPACED: Final = frozenset({"sections"})


class BadVersionFile(ValueError):
    """A file, or a folder of files, that holds no versions of a prompt; the message says what to do."""


@dataclass(frozen=True, slots=True)
class PromptVersion:
    """One version as its file has it."""

    number: Version
    template: PromptTemplate
    overrides: Overrides
    why: str = ""
    at: datetime | None = None
    """When it was made."""

    @property
    def hash(self) -> str:
        """Of what it puts in force."""
        return effective_hash(self.template.configuration(self.overrides))


@dataclass(frozen=True, slots=True)
class PromptVersions:
    """A folder of versions, in the order of their numbers."""

    versions: tuple[PromptVersion, ...]
    current: Version


def file_name(version: Version) -> str:
    """`prompt_v1.0.0.yaml`."""
    return f"prompt_v{version}.yaml"


# -- out ------------------------------------------------------------------------------------------------------------------


def written_versions(versions: Sequence[Resolved], current: str, folder: Path) -> list[Path]:
    """Write each version that is not there yet, then which one is current. A file that differs is never overwritten."""
    texts = {file_name(_number(version)): _text_of(version, versions) for version in versions}
    for name, text in texts.items():
        there = folder / name
        if there.exists() and there.read_text("utf-8") != text:
            raise BadVersionFile(
                f"{there} holds something else than version {name[8:-5]}; versions never change, give another folder"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        _write(folder / name, text)
    index = {"current": f"v{current}", "all_versions": [f"v{_number(version)}" for version in versions]}
    _write(folder / INDEX, json.dumps(index, indent=2) + "\n")
    return [*(folder / name for name in texts), folder / INDEX]


def _text_of(version: Resolved, all_versions: Sequence[Resolved]) -> str:
    state = version.state
    document = {
        "version": f"v{state.version}",
        "timestamp": state.change.at.isoformat(),
        **(_policy_in_force(version) or _in_force(version)),
        "mutation_history": [_step(step) for step in _way_to(version, all_versions)],
    }
    return yaml_text(
        {name: value for name, value in document.items() if value not in (None, {}, "")}, bare=_BARE, spaced=_SPACED
    )


def _in_force(version: Resolved) -> dict[str, Any]:
    """The template with the values in force in the place of the author's, and the author's where they differ."""
    document = version.template.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    authored: dict[str, dict[str, Any]] = {"sections": {}, "parameters": {}}
    for section in document["sections"]:
        field, value = _VALUE_OF[section.get("kind", "text")], version.configuration[SECTION + section["path"]]
        if canonical_json(section[field]) != canonical_json(value):
            authored["sections"][section["path"]] = section[field]
            section[field] = value
    for name, parameter in document.get("parameters", {}).items():
        value = version.configuration[PARAMETER + name]
        if canonical_json(parameter["value"]) != canonical_json(value):
            authored["parameters"][name] = parameter["value"]
            parameter["value"] = value
    return {**document, "authored": {part: values for part, values in authored.items() if values}}


def _way_to(version: Resolved, all_versions: Sequence[Resolved]) -> list[Resolved]:
    """The versions that led to this one, from the first on."""
    by_number = {other.state.version: other for other in all_versions}
    way = [version]
    while (parent := by_number.get(way[0].state.parent)) is not None and parent not in way:
        way.insert(0, parent)
    return way[1:]


def _step(version: Resolved) -> dict[str, Any]:
    change = version.state.change
    return {
        "version": f"v{version.state.version}",
        "prev_version": f"v{version.state.parent}",
        "description": change.why or change.action,
        "timestamp": change.at.isoformat(),
    }


def _number(version: Resolved) -> Version:
    return Version.parse(version.state.version or "")


def _write(path: Path, text: str) -> None:
    """All of it or nothing."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


# -- in -------------------------------------------------------------------------------------------------------------------


def read_versions(folder: Path, name: str | None = None) -> PromptVersions:
    """Every version in a folder, or the one in a file. The name is for files that do not say which prompt they are of."""
    files = [folder] if folder.is_file() else sorted(file for file in _files(folder) if _FILE.fullmatch(file.name))
    if not files:
        raise BadVersionFile(f"{folder} holds no file named prompt_v1.0.0.yaml or so; give the folder of an export")
    read = [_read(file, name) for file in files]
    versions = sorted(read, key=lambda version: version.number)
    prompts = {version.template.name for version in versions}
    if len(prompts) > 1:
        raise BadVersionFile(f"{folder} holds versions of several prompts: {', '.join(sorted(prompts))}; give each a folder")
    return PromptVersions(tuple(versions), _current(folder, versions))


def _files(folder: Path) -> Iterable[Path]:
    if not folder.is_dir():
        raise BadVersionFile(f"there is no file and no folder {str(folder)!r}; correct the path")
    return folder.iterdir()


def _current(folder: Path, versions: Sequence[PromptVersion]) -> Version:
    index = folder / INDEX
    if folder.is_file() or not index.exists():
        return versions[-1].number
    try:
        current = Version.parse(json.loads(index.read_text("utf-8"))["current"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadVersionFile(f"{index} does not say which version is current: {error}") from None
    if current not in {version.number for version in versions}:
        raise BadVersionFile(f"{index} says that {current} is current, but there is no {file_name(current)}")
    return current


def _read(file: Path, name: str | None) -> PromptVersion:
    document = _document(file)
    number = _stated_number(file, document)
    why, at = _why(document, number), _time(document.get("timestamp"))
    for field in ("version", "timestamp", "mutation_history"):
        document.pop(field, None)
    authored = document.pop("authored", {})
    if name is not None:
        document["prompt"] = name
    try:
        if "task_definition" in document:
            return PromptVersion(number, *_policy(document, authored, file), why, at)
        in_force = PromptTemplate.model_validate(document)
        template = PromptTemplate.model_validate(_with(document, authored))
        return PromptVersion(number, template, template.overrides_of(in_force.configuration()), why, at)
    except ValidationError as error:
        raise BadVersionFile(f"{file}: {'; '.join(explain(error))}") from None
    except PromptError as error:
        raise BadVersionFile(f"{file}: {error}") from None


def _document(file: Path) -> dict[str, Any]:
    if file.stat().st_size > LARGEST_FILE:
        raise BadVersionFile(f"{file} has {file.stat().st_size:,} bytes; a prompt has at most {LARGEST_FILE:,}")
    try:
        document = read_yaml(file.read_text("utf-8-sig"))
    except YamlProblem as problem:
        raise BadVersionFile(f"{file}:{problem.line or ''} {problem}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadVersionFile(f"{file} cannot be read: {error}") from None
    if not isinstance(document, dict) or not all(isinstance(field, str) for field in document):
        raise BadVersionFile(f"{file} is not a version of a prompt: it holds no fields")
    return document


def _stated_number(file: Path, document: Mapping[str, Any]) -> Version:
    """What the file says of itself; its name says the same."""
    named = _FILE.fullmatch(file.name)
    try:
        number = Version.parse(str(document.get("version") or (named[1] if named else "")))
        if named is not None and Version.parse(named[1]) != number:
            raise BadVersionFile(f"{file} is named as version {named[1]} and says that it is {number}; correct one of the two")
    except ValueError as error:
        raise error if isinstance(error, BadVersionFile) else BadVersionFile(f"{file}: version: {error}") from None
    return number


def _why(document: Mapping[str, Any], number: Version) -> str:
    """What its history says of the step to it."""
    steps = document.get("mutation_history") or []
    if not isinstance(steps, list):
        return ""
    for step in reversed(steps):
        if isinstance(step, Mapping) and str(step.get("version", "")).removeprefix("v") == str(number):
            return str(step.get("description", ""))[:2_000]
    return ""


def _time(text: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _with(document: Mapping[str, Any], authored: Any) -> dict[str, Any]:
    """The document with the author's own values back in their place."""
    parts = authored if isinstance(authored, Mapping) else {}
    texts, values = parts.get("sections") or {}, parts.get("parameters") or {}
    sections = [
        {**section, _VALUE_OF[section.get("kind", "text")]: texts[section.get("path")]}
        if section.get("path") in texts
        else section
        for section in document["sections"]
    ]
    parameters = {
        name: {**parameter, "value": values[name]} if name in values else parameter
        for name, parameter in (document.get("parameters") or {}).items()
    }
    return {**document, "sections": sections, "parameters": parameters}


# -- files that name a policy's own parts -----------------------------------------------------------------------------------


def _policy_in_force(version: Resolved) -> dict[str, Any] | None:
    """The parts of a prompt that `policy_template` made, with the parameters in force; None for every other prompt."""
    template = version.template
    bodies = {section.path: str(section.value).partition("\n")[2] for section in template.sections}
    rules = [line.removeprefix("- ") for line in bodies.get("rules", "").splitlines()]
    named = [line.removeprefix("- ").partition(": ") for line in bodies.get("skills", "").splitlines()]
    typed = {name: domain.model_dump(mode="json", exclude_none=True) for name, domain in template.parameters.items()}
    parts: dict[str, Any] = {
        "task": bodies.get("task", ""),
        "rules": rules,
        "skills": {name: words for name, _, words in named},
    }
    try:
        if policy_template(template.name, **parts, parameters=typed, description=template.description) != template:
            return None
    except PromptError:
        return None
    values = {name: version.configuration[PARAMETER + name] for name in typed}
    changed = {name: domain["value"] for name, domain in typed.items() if domain["value"] != values[name]}
    return {
        "prompt": template.name,
        "description": template.description,
        "task_definition": parts["task"],
        "rules_constraints": rules,
        "skill_descriptions": parts["skills"],
        "policy_parameters": {name: _shortest(value, {**typed[name], "value": value}) for name, value in values.items()},
        "authored": {"parameters": changed} if changed else {},
    }


def _shortest(value: JsonValue, typed: dict[str, Any]) -> Any:
    """The bare value where it says by itself of which type and range it is."""
    try:
        return value if _domain(value, "") == typed else typed
    except BadVersionFile:
        return typed


def _policy(document: Mapping[str, Any], authored: Any, file: Path) -> tuple[PromptTemplate, Overrides]:
    """Task, rules and skills are frozen; the parameters, which the text shows, are typed by what they are."""
    rules, skills = document.get("rules_constraints") or [], document.get("skill_descriptions") or {}
    parameters = document.get("policy_parameters") or {}
    if not isinstance(rules, list) or not isinstance(skills, Mapping) or not isinstance(parameters, Mapping):
        raise BadVersionFile(f"{file}: rules_constraints is a list, skill_descriptions and policy_parameters are mappings")
    typed = {str(name): _domain(value, f"{file}: policy_parameters.{name}") for name, value in parameters.items()}
    if "prompt" not in document:
        raise BadVersionFile(f"{file} does not say which prompt it is of; give --name NAMESPACE/KEY")
    template = policy_template(
        document["prompt"],
        task=str(document["task_definition"]),
        rules=[str(rule) for rule in rules],
        skills={str(skill): str(words) for skill, words in skills.items()},
        parameters=_with({"sections": [], "parameters": typed}, authored)["parameters"],
        description=str(document.get("description") or ""),
    )
    in_force = {PARAMETER + name: domain.get("value") for name, domain in typed.items()}
    return template, template.overrides_of({**template.configuration(), **in_force})


def _domain(value: Any, where: str) -> dict[str, JsonValue]:
    """A number between 0 and 1 is a share, a whole number a limit, a list an order; a mapping says itself what it is."""
    try:
        plain = normalize(value)
    except NotCanonical as error:
        raise BadVersionFile(f"{where}: {error}") from None
    match plain:
        case dict():
            return plain
        case bool():
            return {"type": "flag", "value": plain}
        case int() if isinstance(value, int) and plain >= 1:
            return {"type": "integer", "value": plain, "min": 1, "max": max(LARGEST_LIMIT, plain)}
        case int() | float() if 0 <= plain <= 1:
            return {"type": "number", "value": plain, "min": 0, "max": 1}
        case list():
            return {"type": "order", "value": plain}
    raise BadVersionFile(f"{where}: {value!r} has no range of its own; write it with type, value, min and max")
