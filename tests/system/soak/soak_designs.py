"""The runs of a soak: every optimizer, and every kind of target, small enough that many end in an hour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.coin_runs import SKILL
from tests.support.optimizer_specs import BAKING, EVOLVING, PUBLISHED, REFLECTING, TEACHING
from tests.support.plugins.ruled import items as items_with_needs
from tests.support.rewriting_runs import spec as rewriting
from tests.support.word_runs import word_spec
from workflows.model.run.amounts import Amount

CONCURRENT = 6
EXECUTION = {"concurrent_samples": CONCURRENT, "sample_timeout": "20s", "samples_per_shard": 10}
SAMPLES = 20
OF_A_TEAM = Amount(samples=170, cost=0.16)
"""What the runs of a team may take together: two of them use it up."""

Spec = dict[str, Any]


@dataclass(frozen=True)
class Addresses:
    """Where the endpoints of a soak are."""

    endpoint: str
    simulated: str
    runner: str
    batches: str


@dataclass(frozen=True)
class Design:
    """One kind of run."""

    optimizer: str
    target: str
    spec: Callable[[str, int, Addresses], Spec]
    """The run's id, a seed and the addresses make the spec."""
    by_command: bool = False
    """Started by `ratchet run`, which is a victim as well."""
    in_team: bool = False
    """Its runs spend what a team has for a month, together with others."""

    @property
    def name(self) -> str:
        return f"{self.optimizer}-{self.target}"


def climbing(target: Spec, **parts: Any) -> Callable[[str, int, Addresses], Spec]:
    """Climbs by steps from 100 towards 700."""

    def made(run_id: str, seed: int, where: Addresses) -> Spec:
        x = {"value": 100, "change": "structured", "type": "integer", "min": 0, "max": 9000, "step": 7}
        spec = {
            "name": run_id,
            "configuration": {"x": x, "run": run_id},
            "target": {name: value.format(where=where) if isinstance(value, str) else value for name, value in target.items()},
            "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(SAMPLES)], "splits": "none"},
            "scorers": [{"kind": "python", "name": "height", "ref": "soaked:height"}],
            "objective": {"metric": "height"},
            "optimizer": {"name": "refine", "proposer": {"kind": "step"}, "candidates_per_round": 2},
            "stop": {"max_rounds": 3, "no_improvement": 0},
            "execution": EXECUTION,
            "seed": seed,
        }
        return spec | parts

    return made


def like(spec: Spec, ref: str, **parts: Any) -> Callable[[str, int, Addresses], Spec]:
    """One of the specs that all tests share, with a target that logs its calls."""

    def made(run_id: str, seed: int, where: Addresses) -> Spec:
        return {
            **spec,
            "name": run_id,
            "target": {"kind": "python", "ref": f"soaked:{ref}"},
            "execution": EXECUTION,
            "seed": seed,
        } | parts

    return made


def rewritten(run_id: str, seed: int, where: Addresses) -> Spec:
    """`meta_prompt` at the simulated model."""
    return rewriting(where.simulated, name=run_id, execution=EXECUTION, stop={"max_rounds": 2, "no_improvement": 0}, seed=seed)


def compressed(run_id: str, seed: int, where: Addresses) -> Spec:
    """`compress` at the simulated model."""
    given = rewritten(run_id, seed, where)
    lines = [f"Line {n} tells nothing that anybody who sorts tickets has to know at all." for n in range(3)]
    prompt = {"value": "\n".join(["Sort the ticket.", *lines]), "change": "text"}
    optimizer = {"name": "compress", "strategies": ["ablation"], "min_section_tokens": 5}
    return {**given, "configuration": {"prompt": prompt, "manners": "Be polite."}, "optimizer": optimizer, "stop": {}}


def agents(run_id: str, seed: int, where: Addresses) -> Spec:
    """Conversations of three turns, with a tool that may be called again and one that never may."""
    amount = {"type": "object", "properties": {"amount": {"type": "integer"}}}
    look = {"kind": "http", "name": "look", "url": f"{where.endpoint}/look", "method": "GET", "parameters": {"type": "object"}}
    pay = {"kind": "python", "name": "pay", "ref": "soaked:pay", "effects": True, "parameters": amount}
    target = {
        "kind": "agent",
        "model": "climber",
        "base_url": f"{where.endpoint}/agents/v1",
        "messages": [
            {"role": "system", "content": "{{factors.run}} {{factors.x}}"},
            {"role": "user", "content": "{{input}}"},
        ],
        "tools": [{**tool, "description": "Does it."} for tool in (look, pay)],
    }
    return climbing(target, **YES, stop={"max_rounds": 2, "no_improvement": 0})(run_id, seed, where)


HTTP = {
    "kind": "http",
    "url": "{where.endpoint}/answer",
    "body": {"run": "{{factors.run}}", "x": "{{factors.x}}", "n": "{{input}}"},
}
CHAT = {
    "kind": "chat",
    "model": "climber",
    "base_url": "{where.endpoint}/v1",
    "messages": [{"role": "user", "content": "{{factors.run}} {{factors.x}} {{input}}"}],
}
YES = {
    "dataset": {"items": [{"id": f"s{n}", "input": n, "expected": "yes"} for n in range(SAMPLES)], "splits": "none"},
    "scorers": [{"kind": "exact", "name": "right"}],
    "objective": {"metric": "right"},
}
LOOP = {"kind": "python", "ref": "soaked:hill"}
PROCESS = {"kind": "python", "ref": "soaked:hill_in_a_thread", "pool": "process", "processes": 2}
ENDLESS = {"stop": {"max_rounds": 100, "no_improvement": 0}}
COINS: Spec = {
    "configuration": {"skill": SKILL},
    "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(48)], "splits": "none"},
    "scorers": [{"kind": "python", "name": "height", "ref": "soaked:height"}],
    "objective": {"metric": "height"},
    "optimizer": {"name": "none", "configurations": [{"skill": skill} for skill in (0.05, 0.3, 0.95)]},
    "judgement": {"racing": {"block": 12}},
}
OVENS = {"dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(10)], "splits": "none"}, "stop": {"max_rounds": 6}}
RULES = {"dataset": {"items": items_with_needs(30), "splits": {"train": 0.5, "validation": 0.5}}, "budget": {"samples": 120}}
OWN = {"optimizer": {"name": "python", "ref": "own_optimizers:Stepper", "candidates_per_round": 2}}
DUNGEON = {"optimizer": {**EVOLVING["optimizer"], "classifier": "soaked:dungeon_failures"}, "stop": {"max_rounds": 2}}

BATCH = {**CHAT, "base_url": "{where.batches}", "parameters": {"max_tokens": 10}}
BATCHES = {**EXECUTION, "mode": "batch", "batches": {"poll": "200ms", "longest_poll": "1s"}}

DESIGNS = (
    Design("refine", "loop", climbing(LOOP, replicates=2)),
    Design("refine", "http", climbing(HTTP), by_command=False),
    Design("search", "loop", like(BAKING, "oven", **OVENS)),
    Design("refine", "thread", climbing({**LOOP, "ref": "soaked:hill_in_a_thread"})),
    Design("refine", "chat", climbing(CHAT, **YES), by_command=True),
    Design("evolve", "loop", like(EVOLVING, "dungeon", **DUNGEON)),
    Design("refine", "activity", climbing({"kind": "activity", "activity": "theirs", "task_queue": "theirs"})),
    Design("few_shot", "loop", like(TEACHING, "pupil", stop={"max_rounds": 3})),
    Design("refine", "process", climbing(PROCESS)),
    Design("reflect", "loop", like(REFLECTING, "follows_rules", **RULES)),
    Design("search", "http", climbing(HTTP, optimizer={"name": "search"}, stop={"max_rounds": 4, "no_improvement": 0})),
    Design(
        "gepa",
        "loop",
        like(
            REFLECTING,
            "follows_rules",
            **RULES,
            optimizer=PUBLISHED,
        ),
    ),
    Design("refine", "external", climbing({"kind": "external", "url": "{where.runner}", "poll": "2s"})),
    Design("none", "loop", like(COINS, "coin")),
    Design("python", "loop", climbing(LOOP, **OWN)),
    Design("meta_prompt", "chat", rewritten),
    Design("refine", "budget", climbing({**LOOP, "at_most": {"cost": 0.001}}, budget={"cost": 0.1}, **ENDLESS)),
    Design("refine", "words", like(word_spec(), "vocabulary", stop={"max_rounds": 2, "no_improvement": 0})),
    Design("compress", "chat", compressed, by_command=True),
    Design("refine", "samples", climbing(LOOP, budget={"samples": 90}, **ENDLESS)),
    Design("refine", "team", climbing(LOOP, **ENDLESS), in_team=True),
    Design("refine", "team_cost", climbing({**LOOP, "at_most": {"cost": 0.001}}, **ENDLESS), in_team=True),
    Design("refine", "batch", climbing(BATCH, **YES, execution=BATCHES)),
    Design("refine", "agent", agents),
)
