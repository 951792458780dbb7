"""Runs in Temporal programs of one's own: a plug-in for client and worker, and a run's interface with its types.

It needs the engine (`pip install "ratchet-optimizer[engine]"`). In a workflow, importing it costs no more than the interface:
what connects and serves is loaded when the plug-in is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clients.programs.program_plugin import RatchetPlugin as RatchetPlugin
    from clients.programs.run_interface import TASK_QUEUE as TASK_QUEUE
    from clients.programs.run_interface import Adjustment as Adjustment
    from clients.programs.run_interface import BudgetChange as BudgetChange
    from clients.programs.run_interface import Graph as Graph
    from clients.programs.run_interface import Newest as Newest
    from clients.programs.run_interface import Optimization as Optimization
    from clients.programs.run_interface import OptimizationRequest as OptimizationRequest
    from clients.programs.run_interface import OptimizationResult as OptimizationResult
    from clients.programs.run_interface import Pending as Pending
    from clients.programs.run_interface import Progress as Progress
    from clients.programs.run_interface import UpdateAnswer as UpdateAnswer
    from clients.programs.run_requests import ask_run as ask_run
    from clients.programs.run_requests import steer_run as steer_run

_INTERFACE = (
    "TASK_QUEUE",
    "Adjustment",
    "BudgetChange",
    "Graph",
    "Newest",
    "Optimization",
    "OptimizationRequest",
    "OptimizationResult",
    "Pending",
    "Progress",
    "UpdateAnswer",
)
_REQUESTS = ("ask_run", "steer_run")
_PLUGIN = ("RatchetPlugin",)


if not TYPE_CHECKING:  # a type checker shall tell a misspelt name

    def __getattr__(name: str) -> Any:
        """Return a name that is loaded when it is asked for."""
        if name not in (*_INTERFACE, *_REQUESTS, *_PLUGIN):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        engine = import_module("ratchet._engine")
        if name in _PLUGIN:
            return getattr(engine.program_plugin(f"temporal.{name}"), name)
        if name in _REQUESTS:
            return getattr(engine.run_requests(f"temporal.{name}"), name)
        return getattr(engine.run_interface(f"temporal.{name}"), name)


def __dir__() -> list[str]:
    """List the public names, those that are not loaded yet among them."""
    return sorted({*globals(), *_INTERFACE, *_REQUESTS, *_PLUGIN})
