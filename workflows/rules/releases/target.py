"""Which prompt a run's winner becomes, and which part of its configuration that is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pydantic import JsonValue, ValidationError

from ratchet._text.explanation import explain
from ratchet.domains import ChoiceDomain
from ratchet.prompts.names import is_version
from ratchet.prompts.prompt_errors import PromptError
from ratchet.prompts.template import PARAMETER, SECTION, PromptTemplate, prompt_part
from workflows.model.spec.factors import Configuration, Factor, FrozenFactor, JsonFactor, TextFactor
from workflows.model.spec.prompt import STABLE
from workflows.model.spec.release import CANARY, ReleaseSpec
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.spec.default_splits import is_nothing_held_back
from workflows.rules.spec.prompt_factors import is_read, template_of

OF_THE_SEARCH = {"change", "scale", "when"}
"""What a factor says to optimizers; a prompt's parameter has its domain only."""


class ReleaseTarget(NamedTuple):
    """A tag of a prompt."""

    prompt: str
    tag: str


def released_prompt(request: OptimizationRequest) -> ReleaseTarget | None:
    """What the spec says its winner becomes, or what it began with; None where it names no prompt."""
    release, source = request.release or ReleaseSpec(), request.prompt
    template = template_of(request)
    own = source.name if source is not None and template is None else None if template is None else template.name
    prompt = release.prompt or own
    if prompt is None:
        return None
    began_at = source.tag if source is not None and not is_version(source.tag) else STABLE
    return ReleaseTarget(prompt, release.tag or began_at)


def release_problems(request: OptimizationRequest) -> Iterator[str]:
    """What is wrong with what a spec says of releasing its winner."""
    release, source = request.release, request.prompt
    if release is None:
        return
    if release.prompt is None and source is None:
        yield "release.prompt: is missing; name the prompt that the winner becomes, e.g. support/triage"
        return
    own = released_prompt(request.model_copy(update={"release": None})) if source is not None else None
    if own is not None and release.prompt not in (None, own.prompt):
        yield f"release.prompt: is {release.prompt!r}, but the spec's prompt is {own.prompt!r}; leave release.prompt out"
    if release.canary and release.tag == CANARY:
        yield f"release.tag: the canary is compared with a tag, and cannot be its own; leave it out, and {STABLE} is meant"
    if is_nothing_held_back(request):
        yield from automatic_without_test(request, 0)
    if is_read(request):
        try:
            first_template(request, release.prompt or "new/prompt")
        except ValueError as error:
            yield str(error)


def automatic_without_test(request: OptimizationRequest, test_samples: int) -> Iterator[str]:
    """What is wrong with a release without anybody's approval where no samples are held back."""
    if request.release is not None and request.release.mode == "automatic" and not test_samples:
        yield (
            "release.mode: automatic needs samples that the search never saw; give dataset.splits a test share, "
            "or let somebody approve: mode: approval"
        )


def released_part(request: OptimizationRequest, configuration: Configuration) -> dict[str, JsonValue]:
    """The prompt's own part of a configuration. Without a prompt, text factors are sections and all others parameters."""
    if request.prompt is not None:
        return prompt_part(configuration)
    return {_part(name, factor): configuration[name] for name, factor in request.configuration.items()}


def first_template(request: OptimizationRequest, prompt: str) -> PromptTemplate | None:
    """What a prompt that nobody knows yet begins with: the run's baseline. None where the run read a stored prompt.

    Raises ValueError that says what to change in the spec.
    """
    if request.prompt is not None:
        return template_of(request) if request.prompt.file is not None else None
    sections = [
        {"path": name, "body": factor.value, "max_length": factor.max_length}
        for name, factor in request.configuration.items()
        if isinstance(factor, TextFactor)
    ]
    parameters = {
        name: _domain(name, factor) for name, factor in request.configuration.items() if not isinstance(factor, TextFactor)
    }
    try:
        return PromptTemplate.model_validate({"prompt": prompt, "sections": sections, "parameters": parameters})
    except ValidationError as error:
        raise ValueError(f"release: the factors make no prompt: {'; '.join(explain(error))}") from None
    except PromptError as error:
        raise ValueError(f"release: the factors make no prompt: {error}") from None


def _part(name: str, factor: Factor) -> str:
    return f"{SECTION if isinstance(factor, TextFactor) else PARAMETER}{name}"


def _domain(name: str, factor: Factor) -> dict[str, JsonValue]:
    match factor:
        case JsonFactor():
            raise ValueError(f"release: factor {name!r} is of type json, which no parameter of a prompt can be; make it a text")
        case FrozenFactor():
            return ChoiceDomain(type="choice", value=factor.value, choices=[factor.value]).model_dump(mode="json")
    return dict(factor.model_dump(mode="json", exclude=OF_THE_SEARCH, exclude_none=True))
