"""What can be wrong with a spec although each of its fields is well-formed. Every finding names the field and the fix."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from ratchet._files import references_in
from ratchet._text.misspelt_names import meant
from ratchet._text.placeholders import (
    Unfillable,
    as_text,
    fill,
    has_input,
    is_placeholder_name,
    placeholders,
    substitute,
    unclosed,
    whole_placeholder,
)
from ratchet._text.unfolding import Extent, Unfolding, too_far
from workflows.model.failures import shorten
from workflows.model.spec.extensions.proposers import ModelProposer
from workflows.model.spec.extensions.scorer_options import Scorer, placed_scorers
from workflows.model.spec.extensions.target_options import PlacedText
from workflows.model.spec.factors import ChoiceFactor, Factor, FrozenFactor, JsonFactor, TextFactor
from workflows.model.spec.objective import OVER_LABELS, Component, Objective
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.overlay import Overlay
from workflows.rules.proposals.validation import LONGEST_QUOTE, refuse_value
from workflows.rules.releases.target import release_problems
from workflows.rules.scoring.classification import folded
from workflows.rules.spec.batch_check import batch_problems
from workflows.rules.spec.conditions import condition_problems
from workflows.rules.spec.judgement_check import check_judgement
from workflows.rules.spec.prompt_factors import is_read, made_of, prompt_problems, template_of
from workflows.rules.spec.shown_examples import ShownExamples
from workflows.rules.spec.spliced_messages import spliced_messages
from workflows.rules.spec.value_schemas import SchemaWork, schema_problem

MOST_PROBLEMS = 100
"""That are told at once; whoever has more will ask again."""


def check_request(request: OptimizationRequest) -> list[str]:
    """What is wrong, in the order of the spec; empty when nothing is. It takes time linear in the length of the spec."""
    names = _Names.of(request)
    placement = [*_some(prompt_problems(request)), *_some(_configuration(request, names)), *_some(_target(request, names))]
    rest: tuple[Iterable[str], ...] = (
        () if placement or not is_read(request) else _dataset(request),
        _scoring(request),
        check_judgement(request),
        _optimizer(request) if is_read(request) else (),
        _money(request),
        _limits(request),
        batch_problems(request),
        release_problems(request),
    )
    return [*placement, *(problem for found in rest for problem in _some(found))]


def _some(problems: Iterable[str]) -> Iterator[str]:
    return itertools.islice(problems, MOST_PROBLEMS)


@dataclass(frozen=True)
class _Names:
    """What a request's texts may name, and what its factors show of each other: found once for all texts."""

    known: Mapping[str, None]
    unfolding: Unfolding

    @classmethod
    def of(cls, request: OptimizationRequest) -> _Names:
        together = made_of(template_of(request))
        values = {name: _values_of(factor) for name, factor in request.configuration.items()}
        return cls(dict.fromkeys([*request.configuration, *together]), Unfolding(values, together))

    @property
    def listed(self) -> str:
        return shorten(", ".join(itertools.islice(self.known, MOST_PROBLEMS)), LONGEST_LIST)


LONGEST_LIST = 2_000
"""Characters of a list of names in a message."""


def _configuration(request: OptimizationRequest, names: _Names) -> Iterator[str]:
    work = SchemaWork()
    rendered = names.unfolding.reached(placed.text for placed in request.target.placed_texts())
    for name, factor in request.configuration.items():
        if unicodedata.normalize("NFC", name) != name:
            yield f"configuration: factor {name!r} is not written in Unicode form NFC; type its name anew"
        if isinstance(factor, FrozenFactor) and _forgot_change(factor.value):
            yield (
                f"configuration.{name}: looks like a factor that may change, but does not say how; "
                "add change: text or change: structured"
            )
        if isinstance(factor, FrozenFactor):
            for field, known in _misspelt_fields(factor.value):
                yield (
                    f"configuration.{name}.{field}: is not a known field; did you mean {known}? A mapping that is meant as it "
                    "stands is written {change: frozen, value: {…}}"
                )
        refused = _untaken_file(request, factor)
        if refused is not None:
            yield f"configuration.{name}: {refused}"
        if isinstance(factor, JsonFactor):
            unusable = [*_bad_schema(f"configuration.{name}.schema", factor.json_schema, work)]
            yield from unusable
            refusal = None if unusable else refuse_value(name, factor.value, factor, work)
            if refusal is not None:
                yield f"configuration.{name}.value: {refusal.message.removeprefix(f'factor {name!r}: ')}"
        if isinstance(factor, TextFactor) or name in rendered:
            for where, text in _texts_of(factor):
                yield from _placeholders_of(request, names, PlacedText(f"configuration.{name}.{where}", text), within=name)


def _untaken_file(request: OptimizationRequest, factor: Factor) -> str | None:
    """What is wrong with a factor that is a file, or may be one, which the target cannot be sent."""
    taken = request.target.taken_files
    if taken is None:
        return None
    values = [factor.value, *(factor.choices if isinstance(factor, ChoiceFactor) else ())]
    wrong = next((file for file in references_in(values) if file.media_type not in taken), None)
    return None if wrong is None else f"a file is {wrong.media_type}, which the target cannot be sent; give {', '.join(taken)}"


def _forgot_change(value: object) -> bool:
    """A frozen mapping that reads like a definition: with `value`, and with nothing but what definitions have."""
    return isinstance(value, Mapping) and "value" in value and len(value) > 1 and set(value) <= DEFINITION_FIELDS


def _misspelt_fields(value: object) -> list[tuple[str, str]]:
    """Fields of a frozen mapping that reads like a definition but for these, each with what was probably meant.

    What is near to `change` counts only with a word that `change` can have: an object may well have a `charge`.
    """
    if not isinstance(value, Mapping) or "value" not in value:
        return []
    fields = {str(name): word for name, word in value.items() if name not in DEFINITION_FIELDS}
    near = [(name, meant(name, [*DEFINITION_FIELDS, "change"])) for name in fields]
    said = "change" in (known for _, known in near) or len(fields) < len(value) - 1
    if not said or any(known is None or (known == "change" and fields[name] not in CHANGES) for name, known in near):
        return []
    return [(name, known) for name, known in near if known is not None]


CHANGES = ("frozen", "text", "structured")
DEFINITION_FIELDS = frozenset({"value", "type", "min", "max", "step", "choices", "max_length", "schema", "scale", "when"})


def _values_of(factor: Factor) -> list[JsonValue]:
    """Every value a factor starts from or can be set to as the spec says it."""
    return factor.choices if isinstance(factor, ChoiceFactor) else [factor.value]


def _texts_of(factor: Factor) -> list[tuple[str, str]]:
    """Those of them that are texts, with their fields."""
    wheres = (f"choices[{index}]" for index in itertools.count()) if isinstance(factor, ChoiceFactor) else ("value",)
    return [(where, value) for where, value in zip(wheres, _values_of(factor), strict=False) if isinstance(value, str)]


def _placeholders_of(
    request: OptimizationRequest, names: _Names, placed: PlacedText, within: str | None = None
) -> Iterator[str]:
    where = placed.where
    left_open = unclosed(placed.text)
    if left_open is not None:
        yield f"{where}: placeholder {{{{{left_open} is not closed; write {{{{{left_open}}}}}"
    for placeholder in placeholders(placed.text):
        factor = placeholder.removeprefix("factors.")
        if placeholder.startswith("steps.") and placed.steps is not None:
            yield from _step_named(placed, placeholder)
        elif placeholder == "factors" and placed.of_json and whole_placeholder(placed.text) is not None:
            continue
        elif not is_placeholder_name(placeholder):
            told = shorten(placeholder, LONGEST_LIST)
            yield f"{where}: placeholder {{{{{told}}}}} is unknown; use {{{{input.…}}}} or {{{{factors.…}}}}"
        elif factor != placeholder and is_read(request) and factor not in names.known:
            told = shorten(placeholder, LONGEST_LIST)
            yield f"{where}: placeholder {{{{{told}}}}} names no factor; known are {names.listed}"
        elif within is not None and factor != placeholder and names.unfolding.leads_back(within, factor):
            yield f"{where}: placeholder {{{{{placeholder}}}}} leads back to factor {within!r}; break the circle"


def _step_named(placed: PlacedText, placeholder: str) -> Iterator[str]:
    if placeholder.split(".")[1] not in (placed.steps or ()):
        known = ", ".join(placed.steps or ()) or "none, since no step comes before this one"
        yield f"{placed.where}: placeholder {{{{{placeholder}}}}} names no earlier step; known are {known}"


def _target(request: OptimizationRequest, names: _Names) -> Iterator[str]:
    added = Extent()
    for placed in request.target.placed_texts():
        yield from _placeholders_of(request, names, placed)
        added = added.plus(names.unfolding.of(placed.text))
        if added.is_too_far:
            yield f"{placed.where}: {too_far(added)}"
            return


def _dataset(request: OptimizationRequest) -> Iterator[str]:
    """The first sample that the target's texts cannot be filled from. What they need is found once for all samples."""
    items = request.dataset.items or []
    if not items:
        return
    overlay = Overlay("", request.baseline, template_of(request))
    needed: dict[str, str] = {}
    splices: dict[str, str] = {}
    for placed in request.target.placed_texts():
        try:
            needs = list(overlay.needs(placed.text))
        except Unfillable as error:
            yield f"{placed.where}: {error}"
            return
        for name in needs:
            needed.setdefault(name, placed.where)
        if placed.is_splice:
            splices.setdefault(f"{{{{{whole_placeholder(placed.text)}}}}}", placed.where)
    shown = [ShownExamples(asked, overlay.for_sample(items[0].input)) for asked in request.target.requests]
    try:
        spliced = {text for text in splices for examples in shown if examples.spliced(text) is not None}
        for examples in shown:
            examples.as_texts()
    except Unfillable as error:
        yield f"configuration: {error}"
        return
    for index, item in enumerate(items):
        for name, where in needed.items():
            if not has_input(name, item.input):
                yield f"dataset.items[{index}].input: has no {name.removeprefix('input.')!r}, which {where} needs"
                return
        for text, where in splices.items():
            of_the_input = text.startswith("{{input")
            if text in spliced or (index > 0 and not of_the_input):
                continue
            try:
                configuration = {} if of_the_input else overlay.for_sample(item.input)
                spliced_messages(fill(text, configuration, item.input, lambda step: ""))
            except ValueError as error:
                yield f"dataset.items[{index}]: {text}, which {where} needs, {error}"
                return


def _scoring(request: OptimizationRequest) -> Iterator[str]:
    names = [scorer.score_name for scorer in request.scorers]
    open_ended = any(scorer.names_its_scores for scorer in request.scorers)
    wanted = [("objective.metric", request.objective.metric)]
    wanted += [(f"objective.components[{i}].metric", part.metric) for i, part in enumerate(request.objective.components)]
    for where, metric in wanted:
        if metric is not None and metric not in names and not open_ended:
            close = meant(metric, names)
            hint = f"did you mean {close}?" if close else f"known are {', '.join(names)}"
            yield f"{where}: no scorer is named {metric!r}; {hint}"
    if request.objective.metric is None and len(names) > 1 and request.objective.kind not in {"weighted", "python"}:
        yield f"objective.metric: is missing, and there are several scores; name one of {', '.join(names)}"
    yield from _objective(request)
    for place, scorer in placed_scorers(request.scorers):
        yield from _scorer(request, place, scorer)


def _scorer(request: OptimizationRequest, place: str, scorer: Scorer) -> Iterator[str]:
    if scorer.schema_used is not None:
        yield from _bad_schema(f"{place}.schema", scorer.schema_used)
    if scorer.weight != 1.0 and place.count(".") == 0:
        yield f"{place}.weight: counts only among the members of a mean_of; use one, or a weighted objective"
    if scorer.asked_model is not None and placeholders(scorer.asked_model.model):
        yield f"{place}.model: takes no placeholder, or candidates could choose how they are graded; name one model"
    if scorer.needs_first_token and not request.target.tells_first_token:
        yield f"{place}.until: first_token is known only of answers that are streamed; set target.stream: true"
    fix = request.target.missing_scores()
    if scorer.reported_name is not None and fix is not None:
        yield f"{place}: takes scores that the target gives its answers, and this one gives none; {fix}"


def _objective(request: OptimizationRequest) -> Iterator[str]:
    objective = request.objective
    parts: list[tuple[str, Objective | Component]] = [("objective", objective)]
    parts += [(f"objective.components[{index}]", part) for index, part in enumerate(objective.components)]
    by_name = {scorer.score_name: scorer for scorer in request.scorers}
    for where, part in parts:
        scorer = by_name.get(part.metric or request.metric)
        if part.kind in OVER_LABELS:
            yield from _over_labels(where, part, scorer)
        elif part.positive is not None or part.average != "macro":
            yield f"{where}: positive and average belong to kinds {', '.join(OVER_LABELS[1:])}; drop them, or set kind"
    scorer = by_name.get(request.metric)
    bare = scorer is not None and scorer.gives_a_number
    if bare and objective.kind == "mean" and objective.direction == "minimize" and objective.worst is None:
        yield (
            f"objective.worst: is missing; a sample that fails would score 1, which may be better than any answer's "
            f"{request.metric}; say what a failure counts as, or give the scorer at_most"
        )


def _over_labels(where: str, part: Objective | Component, scorer: Scorer | None) -> Iterator[str]:
    rules = None if scorer is None else scorer.label_rules
    if rules is None:
        yield f"{where}.kind: {part.kind} is computed from labels; let {where}.metric name a scorer of kind classification"
        return
    if part.kind == "accuracy" and (part.positive is not None or part.average != "macro"):
        yield f"{where}: accuracy has no positive and no average; drop them, or use precision, recall or f1"
    known = [folded(label, rules.ignore_case) for label in rules.labels]
    if part.positive is not None and known and folded(part.positive, rules.ignore_case) not in known:
        yield f"{where}.positive: {part.positive!r} is none of the scorer's labels {', '.join(rules.labels)}"


def _optimizer(request: OptimizationRequest) -> Iterator[str]:
    yield from request.optimizer.problems(request)
    yield from condition_problems(request.configuration)
    yield from _wording(request.optimizer.proposer)


def _wording(proposer: object) -> Iterator[str]:
    """A request of the spec's own, to the model that proposes."""
    if isinstance(proposer, ModelProposer) and proposer.template is not None:
        for placeholder in placeholders(proposer.template):
            if placeholder not in PROPOSAL_PLACEHOLDERS:
                known = ", ".join(f"{{{{{name}}}}}" for name in PROPOSAL_PLACEHOLDERS)
                yield f"optimizer.proposer.template: placeholder {{{{{placeholder}}}}} is unknown; known are {known}"


PROPOSAL_PLACEHOLDERS = ("texts", "feedback", "hall_of_fame", "limits", "form", "factor.name", "factor.value")


def _money(request: OptimizationRequest) -> Iterator[str]:
    if not request.budget.cost:
        return
    for where, model in models_used(request):
        if model not in request.prices:
            yield (
                f"prices: {model!r} ({where}) has no price, and budget.cost is {request.budget.cost:g}; "
                f"add prices: {{{model}: {{input: …, output: …}}}} per million tokens, or drop budget.cost"
            )


def _limits(request: OptimizationRequest) -> Iterator[str]:
    for problem in unknown_limits(request, request.execution.rate_limits):
        yield f"execution.{problem}"


def unknown_limits(request: OptimizationRequest, names: Iterable[str]) -> Iterator[str]:
    """A limit of what is never called would silently limit nothing."""
    models = list(dict.fromkeys(model for _, model in models_used(request)))
    for name in names:
        if name not in models and not name.startswith(("http://", "https://")):
            known = f"known are {', '.join(models)}, or the URL of an endpoint" if models else "give the URL of an endpoint"
            yield f"rate_limits: {name!r} is no model that this run calls; {known}"


def models_used(request: OptimizationRequest) -> list[tuple[str, str]]:
    """Every model the run may call, with the field that names it."""
    used: list[tuple[str, str]] = []
    made, factors = made_of(template_of(request)), request.factors_in_play
    for where, model in request.target.models():
        used += _models_of(request, where, model, made, factors)
    for place, scorer in placed_scorers(request.scorers):
        if scorer.asked_model is not None:
            used.append((f"{place}.model", scorer.asked_model.model))
    if isinstance(request.optimizer.proposer, ModelProposer):
        used.append(("optimizer.proposer.model", request.optimizer.proposer.model))
    return list(dict.fromkeys(used))


def stated_model_url(request: OptimizationRequest, where: str) -> str | None:
    """The `base_url` that the spec states for the model of a field."""
    scorers = {f"{place}.model": scorer for place, scorer in placed_scorers(request.scorers)}
    if where in scorers:
        asked = scorers[where].asked_model
        return None if asked is None else asked.base_url
    if where.startswith("optimizer.proposer") and isinstance(request.optimizer.proposer, ModelProposer):
        return request.optimizer.proposer.base_url
    return request.target.model_url


def _models_of(
    request: OptimizationRequest, where: str, text: str, made: Mapping[str, tuple[str, ...]], factors: Mapping[str, Factor]
) -> list[tuple[str, str]]:
    """What a model's field can name: itself, or every value of the factor it stands for."""
    names = placeholders(text)
    named = names[0].removeprefix("factors.") if len(names) == 1 else ""
    parts = made.get(named, (named,))
    factor = factors.get(parts[0]) if len(parts) == 1 else None
    if factor is None:
        return [(where, text)] if is_read(request) else []
    values = factor.choices if isinstance(factor, ChoiceFactor) else [factor.value]
    return [(f"configuration.{named}", substitute(text, {names[0]: as_text(value)})) for value in values]


def _bad_schema(where: str, schema: object, work: SchemaWork | None = None) -> Iterator[str]:
    problem = schema_problem(schema, work)
    if problem is not None:
        yield f"{where}: is not a JSON Schema{' that can be used' if work else ''}: {shorten(problem, LONGEST_QUOTE)}"
