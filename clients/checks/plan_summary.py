"""What the run of a checked spec will do and may cost, in words and as facts: for `ratchet check`, and for the page."""

from __future__ import annotations

from typing import Final

from clients.checks.costs.estimate import Estimate, estimate
from clients.checks.findings import Checked
from clients.checks.prompt_source import described_prompt, prompt_facts
from clients.reports.formatting import counted
from clients.runs.identity import foreseen_run_id
from workflows.model.spec.prices import Price
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.spec.prompt_factors import is_read

ASK_ABOVE: Final = 1.0
"""What a run may cost at worst without anybody being asked, unless he says otherwise."""


def question_before(costs: Estimate, ask_above: float) -> str | None:
    """What is to be agreed to before more money may be spent than nobody minds; None where it may not."""
    if not costs.costs_money or (costs.cost is not None and costs.cost <= ask_above):
        return None
    calls = "any number of" if costs.calls is None else f"at most {costs.calls:,}"
    price = "and nothing bounds what it costs"
    if costs.cost is not None and costs.expected_cost is not None:
        price = f"and costs about {costs.expected_cost:.2f}, {costs.cost:.2f} at worst"
    return f"This makes {calls} target calls, {price}."


def _cost(costs: Estimate, budget: float) -> str:
    if costs.cost is None or costs.expected_cost is None:
        return "nothing bounds it: set budget.cost"
    limit = f", never above the budget of {budget:g}" if budget else ""
    return f"about {costs.expected_cost:.2f} expected, {costs.cost:.2f} at worst{limit}"


def _at_most(costs: Estimate) -> str:
    if costs.calls is not None:
        trials = "" if costs.trials is None else f"{counted(costs.trials, 'trial')}, "
        return f"{trials}{costs.calls:,} target calls"
    if costs.trials is not None:
        return f"{costs.trials} trials, of as many target calls as the data says"
    return "nothing bounds the run: set stop.max_rounds or a budget"


def _trial(replicates: int | str, costs: Estimate) -> str:
    if replicates == "auto":
        return f"at most {costs.samples_per_trial} samples, {costs.calls_per_trial} calls, once the noise is known"
    return f"{costs.samples_per_trial} samples × {replicates} = {costs.calls_per_trial} calls"


def _optimizer(request: OptimizationRequest) -> str:
    why = request.why_its_optimizer
    return request.optimizer.name if why is None else f"{request.optimizer.name}, {why}"


def _batches(checked: Checked) -> str:
    """What asking in batches costs, how long it may take, and what is asked at once instead."""
    batched = checked.batched
    others = [f"{one.model} ({one.where})" for one in checked.in_batches if one not in batched]
    if not batched:
        return f"none, as there are none for {', '.join(others)}: all is asked at once, for the full price"
    prices = checked.priced.prices if checked.priced is not None else {}
    shares = sorted({prices[one.model].batch for one in batched if one.model in prices}) or [Price(input=0, output=0).batch]
    share = "half the price" if shares == [0.5] else f"{' or '.join(f'{one:g}' for one in shares)} times the price"
    what = "answered and judged" if any(one.is_judge for one in batched) else "answered"
    told = f"samples are {what} in batches, for {share}; each trial may take {_hours(checked)} hours, one round after the other"
    return f"{told}; {', '.join(others)} is asked at once" if others else told


def _hours(checked: Checked) -> int:
    """That a trial takes at most: judges are asked when the answers are there."""
    batched = checked.batched
    return sum(max((one.hours for one in batched if one.is_judge is judges), default=0) for judges in (False, True))


def summary_of(checked: Checked) -> tuple[list[str], dict[str, object]]:
    """What the run will do, for a person and as JSON."""
    rows, more = plan_of(checked, foreseen_run_id(checked))
    return [f"{checked.path}: ok", *(f"  {name + ':':<11}{value}" for name, value in rows.items())], more


def plan_of(checked: Checked, run_id: str | None) -> tuple[dict[str, str], dict[str, object]]:
    """What the run will do, each in a line under its name, and as facts."""
    # Here, as it loads libraries of statistics, which an event loop must not.
    from workflows.rules.statistics.detectable_effect import assumed_plan

    request = checked.known
    assert request is not None
    costs = estimate(checked)
    data = checked.dataset
    given = request.dataset
    stored = f"{given.name} of the store" if given.id is None else f"dataset {given.id[:12]}… of the store"
    unknown = f"what {given.ref} gives when the run begins" if given.ref is not None else stored
    dataset = f"{data.count} samples" if data else unknown
    if data and data.duplicates_dropped:
        dataset += f" ({counted(data.duplicates_dropped, 'duplicate')} left out)"
    if checked.counting is not None:
        dataset += f", which count as {checked.counting:,}"
    splits = ", ".join(f"{name} {size}" for name, size in checked.splits.items())
    rows = {
        "Dataset": f"{dataset}: {splits}" if splits else dataset,
        **({} if request.prompt is None else {"Prompt": described_prompt(request)}),
        "Factors": ", ".join(request.changeable) or ("none may change" if is_read(request) else "those of the prompt"),
        "Optimizer": _optimizer(request),
        "Objective": f"{request.objective.direction.value} {request.objective.kind} of {request.metric}",
        "A trial": _trial(request.replicates, costs) if data else "as the data says",
        "At most": _at_most(costs),
    }
    if costs.expected_tokens:
        rows["Tokens"] = f"about {costs.expected_tokens:,} expected, {costs.tokens or 0:,} at worst"
    if costs.expected_cached_tokens:
        saving = f", which saves about {costs.expected_saving:.2f}" if costs.expected_saving > 0 else ""
        rows["Caches"] = f"hold about {costs.expected_cached_tokens:,} of the tokens expected{saving}"
    if costs.costs_money:
        rows["Cost"] = _cost(costs, request.budget.cost)
    if checked.default_prices.source is not None:
        rows["Prices"] = checked.default_prices.source
    if checked.in_batches:
        rows["Batches"] = _batches(checked)
    held_back = checked.splits.get("test") or None
    plan = assumed_plan(request, costs.samples_per_trial, held_back) if data and costs.trials != 1 else None
    if plan is not None:
        rows["Can find"] = plan.words
    if run_id is not None:
        rows["Run"] = run_id
    more: dict[str, object] = {
        "run_id": run_id,
        "samples": data.count if data else None,
        "duplicates_dropped": data.duplicates_dropped if data else None,
        "counting": checked.counting if checked.counting is not None or data is None else data.count,
        "dataset_id": data.dataset_id if data else request.dataset.id,
        "splits": checked.splits,
        "prompt": None if request.prompt is None else prompt_facts(request),
        "factors": list(request.changeable),
        "optimizer": {"name": request.optimizer.name, "why": request.why_its_optimizer},
        "estimate": costs.as_json(),
        "default_prices": checked.default_prices.source,
        **({"hours_per_trial_at_most": _hours(checked)} if checked.batched else {}),
        "plan": plan.model_dump(mode="json") if plan else None,
    }
    return rows, more
