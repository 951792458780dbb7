"""A simulated model behind the OpenAI protocol, for the demo and the tests. It never calls a real one."""

from clients.demo.injected_faults import Latency, RateLimit, Rule
from clients.demo.model_server import SimulatedModel, simulated_model
from clients.demo.protocol import request_key

__all__ = ["Latency", "RateLimit", "Rule", "SimulatedModel", "request_key", "simulated_model"]
