"""A simulated model behind the OpenAI protocol, for the demo and the tests. It never calls a real one."""

from clients.simulated.faults import Latency, RateLimit, Rule
from clients.simulated.protocol import request_key
from clients.simulated.server import SimulatedModel, simulated_model

__all__ = ["Latency", "RateLimit", "Rule", "SimulatedModel", "request_key", "simulated_model"]
