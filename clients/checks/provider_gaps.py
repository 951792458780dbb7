"""What a spec asks of a model that its provider does not have: it is told before anything is paid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from activities.endpoints.endpoint_policy import (
    ONLY_TEXT_IN_INSTRUCTIONS,
    WITHOUT_JSON_OF_ANY_SHAPE,
    WITHOUT_SEEDS,
    OperatorLists,
)
from ratchet._files import TEXT, references_in
from ratchet._text.placeholders import Unfillable, fill, placeholders, whole_placeholder
from workflows.model.spec.extensions.proposers import ModelProposer
from workflows.model.spec.extensions.scorer_options import placed_scorers
from workflows.model.spec.extensions.target_options import Instructions, StatedParameter
from workflows.model.spec.factors import ChoiceFactor, Factor
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.spec.check import models_used
from workflows.rules.spec.prompt_factors import made_of, template_of

_SEED, _FORM = "seed", "response_format"
_ROLES = ("system", "developer")


def unsent_parameters(request: OptimizationRequest, lists: OperatorLists) -> list[str]:
    """Parameters that are left out of requests, since a model's provider has none such; the run works without."""
    return list(dict.fromkeys(_unsent(request, lists)))


def files_in_instructions(request: OptimizationRequest, lists: OperatorLists) -> list[str]:
    """Files of factors that would be shown where a model's provider takes only text."""
    return [*FilesInInstructions(request, lists).of_factors()]


def _unsent(request: OptimizationRequest, lists: OperatorLists) -> Iterator[str]:
    for given, base_url in _stated_parameters(request):
        for model in _models_named(request, given.model):
            provider = lists.model_place(model, base_url).provider
            for where, value in _values(request, given):
                if given.name == _SEED and provider in WITHOUT_SEEDS and value is not None:
                    told = "no seeds; take it out, or name a model of another provider"
                elif given.name == _FORM and provider in WITHOUT_JSON_OF_ANY_SHAPE and _is_json_of_any_shape(value):
                    told = "no JSON without a schema; give one"
                else:
                    continue
                yield f"{where}: is not sent to {model}, which has {told}"


def _stated_parameters(request: OptimizationRequest) -> Iterator[tuple[StatedParameter, str | None]]:
    """Those of every model, with the `base_url` that the spec states for it."""
    target, stated = request.target, set[str]()
    for given in target.stated_parameters():
        stated.add(given.name)
        yield given, target.model_url
    for name in (_SEED, _FORM):
        if name in request.configuration and name not in stated:  # sent as the parameter of its name
            for asked in target.requests:
                where = f"configuration.{name}"
                yield StatedParameter(where, name, f"{{{{factors.{name}}}}}", asked.model or ""), target.model_url
    for place, scorer in placed_scorers(request.scorers):
        asked_model = scorer.asked_model
        if asked_model is None or asked_model.parameters is None:
            continue
        for name, value in asked_model.parameters.items():
            yield StatedParameter(f"{place}.parameters.{name}", name, value, asked_model.model), asked_model.base_url
        if asked_model.form is not None and _FORM not in asked_model.parameters:
            form = {"type": asked_model.form, "json_schema": {"schema": {}}}
            yield StatedParameter(f"{place}.{_FORM}", _FORM, form, asked_model.model), asked_model.base_url
    proposer = request.optimizer.proposer
    if isinstance(proposer, ModelProposer):
        for name, value in proposer.parameters.items():
            yield StatedParameter(f"optimizer.proposer.parameters.{name}", name, value, proposer.model), proposer.base_url


def _values(request: OptimizationRequest, given: StatedParameter) -> Iterator[tuple[str, Any]]:
    """What a parameter may be, with the field that says so: itself, or a value of the factor that it stands for."""
    whole = whole_placeholder(given.value) if isinstance(given.value, str) else None
    name = "" if whole is None else whole.removeprefix("factors.")
    factor = request.configuration.get(name)
    if factor is None:
        yield given.where, given.value
        return
    yield from ((f"configuration.{name}", value) for value in values_of(factor))


def _is_json_of_any_shape(form: Any) -> bool:
    if not isinstance(form, Mapping):
        return False
    named = form.get("json_schema")
    has_schema = isinstance(named, Mapping) and isinstance(named.get("schema"), Mapping)
    return form.get("type") == "json_object" or (form.get("type") == "json_schema" and not has_schema)


class FilesInInstructions:
    """Finds files that would be shown in a system message of a model whose provider takes only text there."""

    def __init__(self, request: OptimizationRequest, lists: OperatorLists) -> None:
        self._request = request
        self._shown: list[tuple[Instructions, str, list[str]]] = []
        """Each with the model that is told, and the placeholders of all that is shown there."""
        for told in request.target.instructions():
            for model in _models_named(request, told.model):
                if lists.model_place(model, request.target.model_url).provider in ONLY_TEXT_IN_INSTRUCTIONS:
                    self._shown.append((told, model, [*_reached(request, told.text)]))
                    break

    def of_factors(self) -> Iterator[str]:
        """What is wrong with files of the configuration."""
        for told, model, names in self._shown:
            for name in names:
                factor = self._request.configuration.get(_factor_name(name))
                if factor is not None and any(_holds_files(value, told) for value in values_of(factor)):
                    yield _refused(told, model, f"configuration.{_factor_name(name)}")

    def of_sample(self, where: str, given: Any) -> str | None:
        """What is wrong with the files of a sample's input, if anything is."""
        for told, model, names in self._shown:
            for name in names:
                if name.startswith("input") and _holds_files(_named_in(given, name), told):
                    return _refused(told, model, f"{where} ({{{{{name}}}}})")
        return None


def _factor_name(placeholder: str) -> str:
    return placeholder.removeprefix("factors.")


def _refused(told: Instructions, model: str, file: str) -> str:
    return (
        f"{told.where}: shows the file of {file} in a system message, where {model} takes only text; show it in a user message"
    )


def _reached(request: OptimizationRequest, text: str) -> Iterator[str]:
    """The placeholders of a text, and of the factors that it shows."""
    made, baseline = made_of(template_of(request)), request.baseline
    waiting, seen = [*placeholders(text)], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        yield name
        if name.startswith("factors."):
            for part in made.get(_factor_name(name), (_factor_name(name),)):
                value = baseline.get(part)
                waiting += placeholders(value) if isinstance(value, str) else []


def _named_in(given: Any, name: str) -> Any:
    try:
        return fill(f"{{{{{name}}}}}", {}, given)
    except Unfillable:
        return None


def _holds_files(value: Any, told: Instructions) -> bool:
    """Whether a value puts more than text into instructions; what is spliced in may be no instructions."""
    if not told.is_splice:
        return any(file.media_type != TEXT for file in references_in(value))
    messages = [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
    return any(_is_more_than_text(message.get("content")) for message in messages if message.get("role") in _ROLES)


def _is_more_than_text(content: Any) -> bool:
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    return any(file.media_type != TEXT for file in references_in(content)) or any(part.get("type") != "text" for part in parts)


def values_of(factor: Factor) -> list[Any]:
    """What a factor is, and what it may be by choice."""
    return [factor.value, *(factor.choices if isinstance(factor, ChoiceFactor) else ())]


def _models_named(request: OptimizationRequest, model: str) -> list[str]:
    """The models that a field can mean: the one it names, or those that its factor may be."""
    if "{{" not in model:
        return [model]
    return list(
        dict.fromkeys(one for where, one in models_used(request) if where.startswith("configuration.") and "{{" not in one)
    )
