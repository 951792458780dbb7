"""A test kit for optimizers: whole runs against a synthetic target, without servers, in milliseconds.

`simulate({"configuration": …, "optimizer": …, "budget": {"samples": 100}}, World(target=…, samples=…))` runs any optimizer by
the rules of real runs, and returns everything that it did.
"""

from clients.optimizer_kit.simulation import Simulated, simulate, simulate_async
from clients.optimizer_kit.world import Answer, World

__all__ = ["Answer", "Simulated", "World", "simulate", "simulate_async"]
