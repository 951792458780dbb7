"""A test kit for optimizers: whole runs against a synthetic target, without servers, in milliseconds.

`simulate({"configuration": …, "optimizer": …, "budget": {"samples": 100}}, World(target=…, samples=…))` runs any optimizer by
the rules of real runs, and returns everything that it did. `check_protocol(MyOptimizer)` says what is wrong with one of yours.
"""

from clients.testing.protocol_check import ProtocolBroken, check_protocol
from clients.testing.simulation import Simulated, simulate, simulate_async
from clients.testing.world import Answer, World

__all__ = ["Answer", "ProtocolBroken", "Simulated", "World", "check_protocol", "simulate", "simulate_async"]
