"""What can be wrong with a spec although each of its fields is well-formed. Every finding names the field and the fix."""

from __future__ import annotations

from collections.abc import Iterator

import jsonschema

from workflows.model.factors import FrozenFactor, JsonFactor, TextFactor
from workflows.model.request import OptimizationRequest
from workflows.model.scorers import JsonScorer
from workflows.model.search import ModelProposer, StepProposer
from workflows.model.target import ChatTarget
from workflows.rules.placeholders import is_placeholder_name, placeholders
from workflows.rules.validation import refuse_value


def check_request(request: OptimizationRequest) -> list[str]:
    """Everything that is wrong, in the order of the spec; empty when nothing is."""
    return [
        *_configuration(request),
        *_target(request),
        *_dataset(request),
        *_scoring(request),
        *_optimizer(request),
        *_money(request),
    ]


def _configuration(request: OptimizationRequest) -> Iterator[str]:
    for name, factor in request.configuration.items():
        if isinstance(factor, JsonFactor):
            yield from _bad_schema(f"configuration.{name}.schema", factor.json_schema)
            refusal = None if _schema_error(factor.json_schema) else refuse_value(name, factor.value, factor)
            if refusal is not None:
                yield f"configuration.{name}.value: {refusal.message}"
        if isinstance(factor, TextFactor):
            yield from _placeholders_of(request, f"configuration.{name}.value", factor.value, within=name)


def _placeholders_of(request: OptimizationRequest, where: str, text: str, within: str | None = None) -> Iterator[str]:
    for placeholder in placeholders(text):
        if not is_placeholder_name(placeholder):
            yield f"{where}: placeholder {{{{{placeholder}}}}} is unknown; use {{{{input.…}}}} or {{{{factors.…}}}}"
        elif placeholder.startswith("factors.") and placeholder[8:] not in request.configuration:
            known = ", ".join(request.configuration)
            yield f"{where}: placeholder {{{{{placeholder}}}}} names no factor; known are {known}"
        elif within is not None and _leads_back(request, placeholder, within):
            yield f"{where}: placeholder {{{{{placeholder}}}}} leads back to factor {within!r}; break the circle"


def _leads_back(request: OptimizationRequest, placeholder: str, origin: str) -> bool:
    seen: list[str] = []
    waiting = [placeholder]
    while waiting:
        name = waiting.pop().removeprefix("factors.")
        if name == origin:
            return True
        factor = request.configuration.get(name)
        if name not in seen and factor is not None and isinstance(factor.value, str):
            seen.append(name)
            waiting += [found for found in placeholders(factor.value) if found.startswith("factors.")]
    return False


def _target(request: OptimizationRequest) -> Iterator[str]:
    target = request.target
    if not isinstance(target, ChatTarget):
        return
    texts = [(f"target.messages[{index}].content", message.content) for index, message in enumerate(target.messages)]
    texts.append(("target.model", target.model))
    texts += [(f"target.parameters.{key}", value) for key, value in target.parameters.items() if isinstance(value, str)]
    for where, text in texts:
        yield from _placeholders_of(request, where, text)


def _dataset(request: OptimizationRequest) -> Iterator[str]:
    items = request.dataset.items or []
    if not isinstance(request.target, ChatTarget):
        return
    wanted = {
        placeholder
        for message in request.target.messages
        for placeholder in placeholders(message.content)
        if placeholder.startswith("input.")
    }
    for index, item in enumerate(items):
        for placeholder in sorted(wanted):
            if not isinstance(item.input, dict) or placeholder[6:].split(".")[0] not in item.input:
                yield f"dataset.items[{index}].input: has no {placeholder[6:]!r}, which a message of the target needs"
                return


def _scoring(request: OptimizationRequest) -> Iterator[str]:
    names = [scorer.score_name for scorer in request.scorers]
    open_ended = any(scorer.kind == "python" for scorer in request.scorers)
    wanted = [("objective.metric", request.objective.metric)]
    wanted += [(f"objective.components[{i}].metric", part.metric) for i, part in enumerate(request.objective.components)]
    for where, metric in wanted:
        if metric is not None and metric not in names and not open_ended:
            yield f"{where}: no scorer is named {metric!r}; known are {', '.join(names)}"
    if request.objective.metric is None and len(names) > 1 and request.objective.kind not in {"weighted", "python"}:
        yield f"objective.metric: is missing, and there are several scores; name one of {', '.join(names)}"
    for index, scorer in enumerate(request.scorers):
        if isinstance(scorer, JsonScorer) and scorer.json_schema is not None:
            yield from _bad_schema(f"scorers[{index}].schema", scorer.json_schema)


def _optimizer(request: OptimizationRequest) -> Iterator[str]:
    proposer = request.optimizer.proposer
    for name in request.optimizer.factors or []:
        if name not in request.configuration:
            yield f"optimizer.factors: {name!r} is no factor; known are {', '.join(request.configuration)}"
        elif isinstance(request.configuration[name], FrozenFactor):
            yield f"optimizer.factors: {name!r} is frozen; write it as {{value: …, change: text}} or change: structured"
    if not request.changeable and proposer.kind != "noop":
        yield "configuration: every factor is frozen; let at least one change ({value: …, change: text})"
    treated = [request.configuration[n] for n in request.optimizer.factors or request.changeable if n in request.configuration]
    if isinstance(proposer, ModelProposer) and treated and not any(isinstance(f, TextFactor) for f in treated):
        yield "optimizer.proposer: kind model rewrites text, but no treated factor is text; use kind step or python"
    if isinstance(proposer, StepProposer) and treated and all(isinstance(f, TextFactor | JsonFactor) for f in treated):
        yield "optimizer.proposer: kind step moves structured factors, but no treated factor is one; use kind model"
    if isinstance(proposer, ModelProposer) and proposer.template is not None:
        for placeholder in placeholders(proposer.template):
            if placeholder not in PROPOSAL_PLACEHOLDERS:
                known = ", ".join(f"{{{{{name}}}}}" for name in PROPOSAL_PLACEHOLDERS)
                yield f"optimizer.proposer.template: placeholder {{{{{placeholder}}}}} is unknown; known are {known}"


PROPOSAL_PLACEHOLDERS = ("factor.name", "factor.value", "feedback", "limits", "examples")


def _money(request: OptimizationRequest) -> Iterator[str]:
    if not request.budget.cost:
        return
    for where, model in models_used(request):
        if model not in request.prices:
            yield (
                f"prices: {model!r} ({where}) has no price, and budget.cost is {request.budget.cost:g}; "
                f"add prices: {{{model}: {{input: …, output: …}}}} per million tokens, or drop budget.cost"
            )


def models_used(request: OptimizationRequest) -> list[tuple[str, str]]:
    """Every model the run may call, with the field that names it."""
    used: list[tuple[str, str]] = []
    if isinstance(request.target, ChatTarget):
        name = request.target.model
        factor = request.configuration.get("model") if name == "{{factors.model}}" else None
        if factor is None:
            used.append(("target.model", name))
        else:
            choices = getattr(factor, "choices", None) or [factor.value]
            used += [("configuration.model", str(choice)) for choice in choices]
    if isinstance(request.optimizer.proposer, ModelProposer):
        used.append(("optimizer.proposer.model", request.optimizer.proposer.model))
    return list(dict.fromkeys(used))


def _schema_error(schema: object) -> str | None:
    try:
        jsonschema.Draft202012Validator.check_schema(schema)  # type: ignore[arg-type]
    except jsonschema.SchemaError as error:
        return error.message
    return None


def _bad_schema(where: str, schema: object) -> Iterator[str]:
    problem = _schema_error(schema)
    if problem is not None:
        yield f"{where}: is not a JSON Schema: {problem[:300]}"
