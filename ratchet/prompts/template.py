"""Prompt templates: ordered sections and typed parameters, as their authors wrote them.

What an override may replace, and what is frozen, is part of the template. A template and the values in force make a
configuration: factors `section:<path>` and `param:<name>`, which every optimizer can work on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from pydantic import ConfigDict, Field, JsonValue, field_validator, model_validator

from ratchet._formats.canonical import NotCanonical, canonical_json, content_hash, normalize
from ratchet._frozen import Payload, SpecPart
from ratchet._text.placeholders import filled_in, is_placeholder_name, placeholders
from ratchet._text.unfolding import Extent, Unfolding, too_far
from ratchet._values import CanonicalValue, ShortText
from ratchet.domains import ChoiceDomain, Domain, FlagDomain, IntegerDomain, NumberDomain, OrderDomain, misfit
from ratchet.prompts.compiled import Rendered, RenderedTool, Rendering
from ratchet.prompts.names import ParameterName, PromptName
from ratchet.prompts.prompt_errors import InvalidOverride
from ratchet.prompts.sections import ExampleSection, Section, TextSection, ToolSection, as_section
from ratchet.prompts.tokens import tokens_of

MOST_SECTIONS = 500
MOST_PARAMETERS = 500
SECTION = "section:"
PARAMETER = "param:"

Configuration = Mapping[str, JsonValue]
Parameter = Annotated[NumberDomain | IntegerDomain | ChoiceDomain | OrderDomain | FlagDomain, Field(discriminator="type")]


class SectionOverride(Payload):
    """What stands in the place of a section."""

    expected_hash: str
    """The hash of the authored section that it was made for; on another one it is stale."""
    body: CanonicalValue
    """The text; of a tool its description; of examples the list of them."""


class Overrides(Payload):
    """What differs from a template: sections by path, parameters by name."""

    sections: dict[str, SectionOverride] = Field(default_factory=dict)
    parameters: dict[str, CanonicalValue] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SectionDescriptor:
    """A section as optimizers see it."""

    path: str
    kind: str
    hash: str
    """Of the authored section."""
    accepts_overrides: bool
    value: JsonValue
    """The value in force."""

    @property
    def tokens(self) -> int:
        """How long the value in force is."""
        return tokens_of(self.value)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A prompt's sections with their hashes and lengths."""

    name: str
    template_hash: str
    hash: str
    """Of the configuration in force."""
    sections: tuple[SectionDescriptor, ...]


class PromptTemplate(SpecPart):
    """A prompt as its author wrote it."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    name: Annotated[PromptName, Field(alias="prompt")]
    """Namespace and key, e.g. `support/triage`."""
    description: ShortText = ""
    """What it is for, in words for people."""
    inputs: list[str] | None = None
    """The inputs that its placeholders may name, e.g. `[ticket]` for `{{input.ticket}}`. Default: those they do name."""
    sections: Annotated[list[Section], Field(min_length=1, max_length=MOST_SECTIONS)]
    """Its sections, in the order they are read."""
    parameters: Annotated[dict[ParameterName, Parameter], Field(max_length=MOST_PARAMETERS)] = Field(default_factory=dict)
    """Typed values beside the text, by name; `{{factors.name}}` shows one in a text."""

    @classmethod
    def from_yaml(cls, text: str) -> PromptTemplate:
        """A template as a file says it, in YAML or JSON. Raises InvalidTemplate, with the field and its line."""
        from ratchet.prompts.template_text import template_from_yaml

        return template_from_yaml(text)

    def to_yaml(self) -> str:
        """The template as a file that `from_yaml` reads."""
        from ratchet.prompts.template_text import template_as_yaml

        return template_as_yaml(self)

    @field_validator("sections", mode="before")
    @classmethod
    def _text_by_default(cls, value: Any) -> Any:
        return [as_section(section) for section in value] if isinstance(value, list | tuple) else value

    @model_validator(mode="after")
    def _names_are_unique(self) -> PromptTemplate:
        paths = [section.path for section in self.sections]
        for path in paths:
            if paths.count(path) > 1:
                raise ValueError(f"sections: path {path!r} is used twice; give each section a path of its own")
            if path in self.parameters:
                raise ValueError(f"parameters.{path} is named like a section; give it another name")
        tools = [section.name for section in self.sections if isinstance(section, ToolSection)]
        for tool in tools:
            if tools.count(tool) > 1:
                raise ValueError(f"sections: two tools are called {tool!r}; a model could not tell them apart")
        return self

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> PromptTemplate:
        names = _by_every_name(self._authored)
        unfolding = Unfolding({name: [value] for name, value in names.items()})
        added = Extent()
        for section in self.sections:
            for text in section.texts(section.value):
                for name in placeholders(text):
                    self._check_placeholder(f"sections.{section.path}", name, names)
                    if unfolding.never_ends(name):
                        raise ValueError(f"sections.{section.path}: {{{{{name}}}}} leads back to itself")
                added = added.plus(unfolding.of(text))
            if added.is_too_far:
                raise ValueError(f"sections.{section.path}: {too_far(added)}")
        return self

    def _check_placeholder(self, where: str, name: str, names: Mapping[str, Any]) -> None:
        if not is_placeholder_name(name):
            raise ValueError(
                f"{where}: placeholder {{{{{name}}}}} is unknown; "
                "use {{input.…}}, or {{factors.…}} for sections and parameters"
            )
        if name.startswith("factors.") and name.removeprefix("factors.") not in names:
            raise ValueError(
                f"{where}: placeholder {{{{{name}}}}} names no section and no parameter of this prompt; "
                f"known are {', '.join(names)}"
            )
        if self.inputs is not None and name.startswith("input") and not self._is_declared(name):
            raise ValueError(
                f"{where}: placeholder {{{{{name}}}}} names none of the inputs {', '.join(self.inputs) or '(none)'}"
            )

    def _is_declared(self, name: str) -> bool:
        path = name.removeprefix("input").removeprefix(".")
        return self.inputs is not None and (path in self.inputs or path.split(".")[0] in self.inputs)

    @cached_property
    def hash(self) -> str:
        """Of everything but the description: what is shown to a model, and what may be replaced."""
        return content_hash(self.model_dump(mode="json", by_alias=True, exclude={"description"}, exclude_defaults=True))

    @cached_property
    def frozen_hash(self) -> str:
        """Of what no override can change: equal for everything that an optimizer may make of this prompt."""
        sections = [
            [section.kind, section.path, section.contract, None if section.accepts_overrides else section.hash]
            for section in self.sections
        ]
        parameters = {name: _without_its_value(parameter) for name, parameter in self.parameters.items()}
        return content_hash({"sections": sections, "parameters": parameters})

    @cached_property
    def _by_path(self) -> dict[str, TextSection | ToolSection | ExampleSection]:
        return {section.path: section for section in self.sections}

    @cached_property
    def _authored(self) -> dict[str, JsonValue]:
        return {SECTION + section.path: section.value for section in self.sections} | {
            PARAMETER + name: parameter.value for name, parameter in self.parameters.items()
        }

    def section(self, path: str) -> TextSection | ToolSection | ExampleSection:
        if path not in self._by_path:
            raise InvalidOverride(f"{self.name} has no section {path!r}; it has {', '.join(self._by_path)}")
        return self._by_path[path]

    def override(self, path: str, body: JsonValue) -> SectionOverride:
        """An override of a section as it is now."""
        return SectionOverride(expected_hash=self.section(path).hash, body=body)

    def configuration(self, overrides: Overrides | None = None) -> dict[str, JsonValue]:
        """Every factor with the value in force."""
        if overrides is None:
            return dict(self._authored)
        self.check(overrides)
        values = {SECTION + path: override.body for path, override in overrides.sections.items()}
        values |= {PARAMETER + name: value for name, value in overrides.parameters.items()}
        return self._authored | values

    def overrides_of(self, configuration: Configuration) -> Overrides:
        """What a configuration changes; the other way round of `configuration`. Raises InvalidOverride."""
        authored = self._authored
        missing = [factor for factor in authored if factor not in configuration]
        unknown = [factor for factor in configuration if factor not in authored]
        if missing or unknown:
            problem = f"lacks {missing[0]!r}" if missing else f"has {unknown[0]!r}, which the template has not"
            raise InvalidOverride(f"{self.name}: the configuration {problem}; it needs each of {', '.join(authored)}")
        changed = {factor: self._normalized(factor, value) for factor, value in configuration.items()}
        changed = {
            factor: value for factor, value in changed.items() if canonical_json(value) != canonical_json(authored[factor])
        }
        overrides = Overrides(
            sections={
                factor.removeprefix(SECTION): self.override(factor.removeprefix(SECTION), value)
                for factor, value in changed.items()
                if factor.startswith(SECTION)
            },
            parameters={
                factor.removeprefix(PARAMETER): value for factor, value in changed.items() if factor.startswith(PARAMETER)
            },
        )
        self.check(overrides)
        return overrides

    def _normalized(self, factor: str, value: JsonValue) -> JsonValue:
        try:
            return normalize(value)
        except NotCanonical as error:
            raise InvalidOverride(f"{self.name}: {factor} {error}") from None

    def check(self, overrides: Overrides) -> None:
        """Raise InvalidOverride unless the template takes every override, hashes included."""
        for path, override in overrides.sections.items():
            section = self.section(path)
            if not section.accepts_overrides:
                raise InvalidOverride(f"{self.name}: section {path!r} is frozen; it does not accept overrides")
            if override.expected_hash != section.hash:
                raise InvalidOverride(
                    f"{self.name}: the override of section {path!r} was made for {override.expected_hash[:12]}…, "
                    f"but the section is {section.hash[:12]}… now; make it anew"
                )
            problem = section.problem(override.body)
            if problem is not None:
                raise InvalidOverride(f"{self.name}: the override of section {path!r} {problem}")
        for name, value in overrides.parameters.items():
            if name not in self.parameters:
                raise InvalidOverride(f"{self.name} has no parameter {name!r}; it has {', '.join(self.parameters) or 'none'}")
            wrong = misfit(self.parameters[name], value)
            if wrong is not None:
                raise InvalidOverride(f"{self.name}: parameter {name!r}: {wrong.problem}")

    def factors(self, overrides: Overrides | None = None) -> dict[str, dict[str, JsonValue]]:
        """Every factor as a spec writes it, with the value in force as the baseline."""
        values = self.configuration(overrides)
        factors = {SECTION + section.path: section.as_factor(values[SECTION + section.path]) for section in self.sections}
        for name, parameter in self.parameters.items():
            domain = parameter.model_dump(mode="json", exclude_none=True)
            factors[PARAMETER + name] = {**domain, "value": values[PARAMETER + name], "change": "structured"}
        return factors

    def descriptor(self, overrides: Overrides | None = None) -> Descriptor:
        values = self.configuration(overrides)
        sections = tuple(
            SectionDescriptor(
                section.path, section.kind, section.hash, section.accepts_overrides, values[SECTION + section.path]
            )
            for section in self.sections
        )
        return Descriptor(self.name, self.hash, effective_hash(values), sections)

    def rendering(self, configuration: Configuration) -> Rendering:
        """The prompt with these values, ready to be rendered for any number of inputs."""
        names = _by_every_name(configuration)
        system, shown, examples, tools = [], [], [], []
        for section in self.sections:
            value = configuration[SECTION + section.path]
            text = section.shown(value)
            if text is not None:
                shown.append(text)
            if isinstance(section, TextSection):
                system.append(section.shown(value))
            elif isinstance(section, ExampleSection):
                examples += [(filled_in(given, names), filled_in(answer, names)) for given, answer in section.pairs(value)]
            else:
                tools.append((section.name, filled_in(str(value), names), section.parameters))
        return Rendering(
            text=filled_in(_joined(shown), names),
            system=filled_in(_joined([text for text in system if text is not None]), names),
            examples=tuple(examples),
            tools=tuple(tools),
        )

    def text(self, configuration: Configuration) -> str:
        """The whole text with sections and parameters filled in, and the inputs' placeholders still in it."""
        return self.rendering(configuration).text.text

    def render(self, configuration: Configuration, given: Any = None) -> Rendered:
        """The prompt with these values, for one input. A placeholder that nothing fills is an error."""
        return self.rendering(configuration).render(given)


def prompt_part(configuration: Configuration) -> dict[str, JsonValue]:
    """The factors of a run's configuration that belong to its prompt."""
    return {name: value for name, value in configuration.items() if name.startswith((SECTION, PARAMETER))}


def effective_hash(configuration: Configuration) -> str:
    """The hash of a prompt's values in force; whatever else the configuration holds does not count."""
    return content_hash(prompt_part(configuration))


def _by_every_name(configuration: Configuration) -> dict[str, JsonValue]:
    """The values under their factors' names and under their own: `{{factors.param:tone}}` is `{{factors.tone}}`."""
    own = {name.removeprefix(SECTION).removeprefix(PARAMETER): value for name, value in configuration.items()}
    return own | dict(configuration)


def _joined(texts: list[str]) -> str:
    return "\n\n".join(texts)


def _without_its_value(parameter: Domain) -> JsonValue:
    domain: dict[str, JsonValue] = parameter.model_dump(mode="json", exclude={"value"})
    if isinstance(parameter, OrderDomain):
        domain["items"] = list[JsonValue](sorted(map(canonical_json, parameter.value)))
    return domain


__all__ = [
    "Descriptor",
    "Overrides",
    "PromptTemplate",
    "Rendered",
    "RenderedTool",
    "SectionDescriptor",
    "SectionOverride",
    "effective_hash",
    "prompt_part",
]
