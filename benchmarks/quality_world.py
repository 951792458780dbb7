"""The rule task: a prompt of rules, of which some are needed, some do harm, and only so many fit; with its variants.

Only the standard library is needed here: the peers' drivers import it in environments of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

OPENING = "Answer the question."

Prompt = str
Split = str


@dataclass(frozen=True)
class Task:
    """The constants of a task."""

    useful: int = 24
    harmful: int = 12
    capacity: int = 16
    train: int = 100
    validation: int = 100
    test: int = 200
    skew: float = 0.7
    """A sample needs the rule of rank r with a weight of 1 / r ** skew."""
    hit: float = 0.92
    """How probably a sample passes whose rules are all there."""
    miss: float = 0.25
    harm: float = 0.03
    over: float = 0.02
    honest: float = 0.7
    """How probably feedback names a rule that is missing; otherwise it names any."""
    drop: float = 0.25
    slip: float = 0.15
    start: int = 0
    """Useful rules that the baseline has already."""
    interaction: float = 0.0
    """How much pairs of rules may add to what they do alone, or take from it."""
    rewritten: bool = False
    """Every reflection words all rules anew, so that no two prompts share a line."""


TASK = Task()

VARIANTS = {
    "as published": TASK,
    "capacity 6": replace(TASK, capacity=6),
    "capacity 22": replace(TASK, capacity=22),
    "interacting": replace(TASK, interaction=0.05),
    "near-noiseless": replace(TASK, hit=0.995, miss=0.005),
    "very noisy": replace(TASK, hit=0.62, miss=0.4),
    "saturated": replace(TASK, start=14, hit=0.97, miss=0.8),
    "misleading": replace(TASK, honest=0.15),
    "rewritten": replace(TASK, rewritten=True),
}

TUNING = replace(
    TASK, useful=20, harmful=10, capacity=13, hit=0.9, miss=0.3, harm=0.035, honest=0.65, drop=0.3, slip=0.2, skew=0.8
)
"""Other constants than those reported, for choosing settings; its seeds are 100 to 139."""

RULE = re.compile(r"^Rule (\d+)", re.MULTILINE)
NAMED = re.compile(r"rule (\d+)")


class RuleWorld:
    """One generated world. What is random in it comes from its seed; noise is drawn by whoever calls."""

    def __init__(self, seed: int, task: Task = TASK) -> None:
        self.task = task
        random = Random(f"world {seed}")
        ranks = range(task.useful)
        weights = [1 / (rank + 1) ** task.skew for rank in ranks]

        def needed() -> frozenset[int]:
            wanted, rules = random.randint(1, 3), set[int]()
            while len(rules) < wanted:
                rules.add(random.choices(ranks, weights)[0])
            return frozenset(rules)

        sizes = {"train": task.train, "validation": task.validation, "test": task.test}
        self.needs = {split: [needed() for _ in range(size)] for split, size in sizes.items()}
        pairs = [tuple(sorted(random.sample(range(task.useful + task.harmful), 2))) for _ in range(2 * task.useful)]
        self.interactions = {pair: random.uniform(-task.interaction, task.interaction) for pair in pairs}
        self.baseline = "\n".join([OPENING, *(_line(rule, 0) for rule in range(task.start))])

    def chance(self, rules: frozenset[int], needs: frozenset[int]) -> float:
        """How probably a sample passes."""
        task = self.task
        harmful = sum(1 for rule in rules if rule >= task.useful)
        chance = task.hit if needs <= rules else task.miss
        chance -= task.harm * harmful + task.over * max(0, len(rules) - task.capacity)
        if task.interaction:
            chance += sum(value for (one, other), value in self.interactions.items() if one in rules and other in rules)
        return min(max(chance, 0.0), 1.0)

    def call(self, prompt: Prompt, split: Split, place: int, noise: Random) -> tuple[float, str]:
        """One answer of the target: whether the sample passes, and what feedback says if it does not."""
        rules, needs = rules_of(prompt), self.needs[split][place]
        if noise.random() < self.chance(rules, needs):
            return 1.0, ""
        missing = sorted(needs - rules)
        if missing and noise.random() < self.task.honest:
            return 0.0, f"Consider rule {noise.choice(missing)}."
        return 0.0, f"Consider rule {noise.randrange(self.task.useful + self.task.harmful)}."

    def reflect(self, prompt: Prompt, feedback: Sequence[str], random: Random) -> Prompt:
        """The reflector: adds up to two rules that feedback names, sometimes drops one, sometimes adds a harmful one."""
        task, have = self.task, rules_of(prompt)
        rules, named = set(have), [int(rule) for text in feedback for rule in NAMED.findall(text)]
        for _ in range(2):
            suggested = [rule for rule in named if rule not in rules]
            if suggested:
                rules.add(random.choice(suggested))
        if have and random.random() < task.drop:
            rules.discard(random.choice(sorted(have)))
        if random.random() < task.slip:
            rules.add(task.useful + random.randrange(task.harmful))
        if task.rewritten:
            wording = random.randrange(1, 10**9)
            return "\n".join([OPENING, *(_line(rule, wording) for rule in sorted(rules))])
        kept = [line for line in prompt.split("\n") if line.strip() and rules_of(line) <= rules]
        return "\n".join([*kept, *(_line(rule, 0) for rule in sorted(rules - have))])

    def truth(self, prompt: Prompt) -> float:
        """The true accuracy on the test samples."""
        rules = rules_of(prompt)
        return sum(self.chance(rules, needs) for needs in self.needs["test"]) / self.task.test

    def best_possible(self) -> float:
        """About the best that fits: rules added greedily, with the test samples known."""
        rules, best = frozenset[int](), 0.0
        while True:
            options = {rules | {rule}: self._truth_of(rules | {rule}) for rule in range(self.task.useful) if rule not in rules}
            rules = max(options, key=lambda option: options[option], default=rules)
            if options.get(rules, 0.0) <= best:
                return best
            best = options[rules]

    def _truth_of(self, rules: frozenset[int]) -> float:
        return sum(self.chance(rules, needs) for needs in self.needs["test"]) / self.task.test


def rules_of(prompt: Prompt) -> frozenset[int]:
    return frozenset(int(rule) for rule in RULE.findall(prompt))


def _line(rule: int, wording: int) -> str:
    return f"Rule {rule}: always mind it." if not wording else f"Rule {rule}, put as {wording}: always mind it."
