"""A prompt as factors: what a run may change of it, and by which names targets use it.

A run that has read its prompt holds every section and parameter as a factor of its configuration; the snapshot beside them says
what they are parts of.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import TypeAdapter

from ratchet._formats.canonical import canonical_json
from ratchet._text.placeholders import placeholders
from ratchet.prompts.sections import ToolSection
from ratchet.prompts.template import PARAMETER, SECTION, Overrides, PromptTemplate, effective_hash
from workflows.model.spec.extensions.target_options import Target
from workflows.model.spec.factors import LARGEST_CONFIGURATION, Factor
from workflows.model.spec.prompt import PromptSnapshot
from workflows.model.spec.request import OptimizationRequest

PROMPT, MESSAGES, TOOLS = "prompt", "messages", "tools"
"""The factors that a rendered prompt is used by."""

_RENDERED = tuple(f"factors.{name}" for name in (PROMPT, MESSAGES, TOOLS))
_FACTORS: TypeAdapter[dict[str, Factor]] = TypeAdapter(dict[str, Factor])


def is_of_a_prompt(name: str) -> bool:
    """Whether a factor is a section or a parameter of a prompt, by its name."""
    return name.startswith((SECTION, PARAMETER))


def is_read(request: OptimizationRequest) -> bool:
    """Whether every factor is known: a prompt that was not read yet will add some."""
    return request.prompt is None or request.prompt.snapshot is not None


def template_of(request: OptimizationRequest) -> PromptTemplate | None:
    """The prompt's template, once it was read."""
    return None if request.prompt is None or request.prompt.snapshot is None else request.prompt.snapshot.template


def with_prompt(
    request: OptimizationRequest, snapshot: PromptSnapshot, overrides: Overrides | None = None
) -> OptimizationRequest:
    """The request with its prompt's sections and parameters as factors. Raises ValueError where they do not fit."""
    assert request.prompt is not None
    for problem in prompt_problems(request):
        raise ValueError(problem)
    try:
        snapshot.refuse_too_large()
    except ValueError as error:
        raise ValueError(f"prompt: {error}") from None
    factors = _FACTORS.validate_python(snapshot.template.factors(overrides))
    configuration = {**factors, **request.configuration}
    size = len(canonical_json({name: factor.value for name, factor in configuration.items()}).encode())
    if size > LARGEST_CONFIGURATION:
        raise ValueError(
            f"prompt: is {size:,} bytes together with the configuration; at most {LARGEST_CONFIGURATION:,} fit, make it shorter"
        )
    prompt = request.prompt.model_copy(update={"snapshot": snapshot})
    return request.model_copy(update={"configuration": configuration, "prompt": prompt})


def prompt_problems(request: OptimizationRequest) -> Iterator[str]:
    """What is wrong between a prompt and the configuration beside it."""
    stranger = next(filter(is_of_a_prompt, request.configuration), None)
    if request.prompt is None:
        if stranger is not None:
            yield f"configuration.{stranger}: names a part of a prompt, but there is none; add prompt, or rename the factor"
    elif request.prompt.snapshot is None:
        if stranger is not None:
            yield f"configuration.{stranger}: is a part of the prompt, which is read with it; remove it here"
    else:
        snapshot = request.prompt.snapshot
        if effective_hash(request.baseline) != snapshot.overlay_hash:
            yield "prompt.snapshot: does not fit the configuration; leave both to Ratchet, which reads the prompt itself"
        for name in made_of(snapshot.template):
            if name in request.configuration:
                yield f"configuration.{name}: {{{{factors.{name}}}}} stands for a part of the prompt; rename the factor"


def made_of(template: PromptTemplate | None) -> dict[str, tuple[str, ...]]:
    """The names by which texts use the prompt beside its factors' own, and the factors that each is made of."""
    if template is None:
        return {}
    shown = tuple(f"{SECTION}{section.path}" for section in template.sections if not isinstance(section, ToolSection))
    tools = tuple(f"{SECTION}{section.path}" for section in template.sections if isinstance(section, ToolSection))
    by_own_name = {name: (f"{PARAMETER}{name}",) for name in template.parameters}
    by_own_name |= {path: (f"{SECTION}{path}",) for path in _paths_named_within(template)}
    return by_own_name | {PROMPT: shown, MESSAGES: shown} | ({TOOLS: tools} if tools else {})


def _paths_named_within(template: PromptTemplate) -> list[str]:
    """Sections that other sections show, by their bare paths."""
    texts = [text for section in template.sections for text in section.texts(section.value)]
    named = {name.removeprefix("factors.") for text in texts for name in placeholders(text) if name.startswith("factors.")}
    return [section.path for section in template.sections if section.path in named]


def publishes_its_prompt(request: OptimizationRequest) -> bool:
    """Whether candidates are put into the store of prompts, for targets that render the prompt themselves."""
    source = request.prompt
    if source is None or source.publish is not None:
        return source is not None and source.publish is True
    return source.name is not None and request.target.renders_prompts


def shows_its_prompt(target: Target) -> bool:
    """Whether a target's own texts show the rendered prompt, so that a sample it cannot be rendered for cannot be answered."""
    return any(shows_the_prompt(placed.text) for placed in target.placed_texts())


def shows_the_prompt(text: str) -> bool:
    """Whether a text shows the rendered prompt."""
    return any(name in _RENDERED for name in placeholders(text))
