"""What is searched in the benchmark of structured search: the BBOB functions, and mixed spaces of our own making.

Nothing of the product is imported here: the peers' process uses it, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

Factors = dict[str, dict[str, Any]]
Loss = Callable[[Mapping[str, Any]], float]

DIMENSION = 5
MODELS = ("small", "medium", "large")
TONES = ("plain", "formal", "friendly", "terse")
STEPS = ("plan", "search", "answer", "check")


@dataclass(frozen=True)
class Task:
    """A space with its baseline, as a spec writes it; what is lost at each place is computed in the peers' process."""

    kind: str
    """`bbob` or `mixed`."""
    function: int
    instance: int

    @property
    def factors(self) -> Factors:
        random = Random(f"{self.kind} {self.function} {self.instance} baseline")
        return _numbers(random) if self.kind == "bbob" else _mixed(random)


def _numbers(random: Random) -> Factors:
    return {f"x{place}": _structured("number", random.uniform(-5, 5), min=-5.0, max=5.0) for place in range(DIMENSION)}


def _mixed(random: Random) -> Factors:
    """Two numbers, one of them by its logarithm, an integer, two choices, a flag, an order, and what counts with one model."""
    return {
        "temperature": _structured("number", random.random(), min=0.0, max=1.0),
        "rate": _structured("number", 10 ** random.uniform(-5, 0), min=1e-5, max=1.0, scale="log"),
        "documents": _structured("integer", random.randint(1, 40), min=1, max=40),
        "model": _structured("choice", random.choice(MODELS), choices=list(MODELS)),
        "tone": _structured("choice", random.choice(TONES), choices=list(TONES)),
        "strict": _structured("flag", random.random() < 0.5),
        "steps": _structured("order", random.sample(STEPS, len(STEPS))),
        "effort": _structured("number", random.random(), min=0.0, max=1.0, when={"model": ["large"]}),
    }


def _structured(kind: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"change": "structured", "type": kind, "value": value, **more}


def mixed_loss(task: Task) -> Loss:
    """A generated world: every model has its own best numbers, tones and strictness interact, every pair of steps has a better
    order, and some of it hardly matters."""
    random = Random(f"{task.kind} {task.function} {task.instance} world")
    best = {model: {name: random.random() for name in ("temperature", "rate", "documents", "effort")} for model in MODELS}
    weight = {name: random.choice((0.2, 1.0, 3.0)) for name in ("temperature", "rate", "documents", "effort")}
    model_loss = {model: random.random() for model in MODELS}
    together = {(tone, strict): random.random() for tone in TONES for strict in (False, True)}
    before = {(one, other): random.random() * 0.2 for one in STEPS for other in STEPS if one != other}
    twist = random.uniform(-1.5, 1.5)

    def loss(values: Mapping[str, Any]) -> float:
        model = values["model"]
        at = {
            "temperature": float(values["temperature"]),
            "rate": 1 + math.log10(values["rate"]) / 5,
            "documents": (values["documents"] - 1) / 39,
            "effort": float(values["effort"]) if model == "large" else best[model]["effort"],
        }
        apart = {name: at[name] - best[model][name] for name in at}
        numbers = sum(weight[name] * apart[name] ** 2 for name in apart) + twist * apart["temperature"] * apart["rate"]
        steps = values["steps"]
        order = sum(before[one, other] for place, one in enumerate(steps) for other in steps[place + 1 :])
        found: float = abs(numbers) + model_loss[model] + together[values["tone"], bool(values["strict"])] + order
        return found

    return loss
