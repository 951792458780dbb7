"""Every command the workflows can give, read off their source: the guard that says so when a change adds, drops or moves one.

Replaying recorded histories only notices what lies on a recorded path. This notices the rest.
"""

from __future__ import annotations

import ast
from pathlib import Path

WORKFLOWS = Path(__file__).parents[3] / "workflows"
FINGERPRINTS = Path(__file__).parent / "commands.json"

COMMANDS = {
    "execute_activity_method",
    "execute_local_activity_method",
    "execute_activity",
    "execute_local_activity",
    "start_activity_method",
    "execute_child_workflow",
    "start_child_workflow",
    "upsert_search_attributes",
    "continue_as_new",
    "wait_condition",
    "wait",
    "sleep",
    "patched",
    "deprecate_patch",
}


def commands_of_workflows() -> dict[str, list[str]]:
    """For every function of the workflows that gives commands: which, and what they call, in the order of the source."""
    found: dict[str, list[str]] = {}
    for path in sorted(WORKFLOWS.rglob("*.py")):
        module = path.relative_to(WORKFLOWS.parent).with_suffix("").as_posix().replace("/", ".")
        found.update(commands_in(path.read_text(), module))
    return found


def commands_in(source: str, module: str) -> dict[str, list[str]]:
    """The commands of one module, by function."""
    found: dict[str, list[str]] = {}
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.AsyncFunctionDef | ast.FunctionDef):
            calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and _command(node)]
            calls.sort(key=lambda call: (call.lineno, call.col_offset))
            if calls:
                found[f"{module}.{function.name}"] = [f"{_command(call)}({_called(call)})" for call in calls]
    return found


TIMED = "self._calls.call"
"""An activity that ends with the time budget (`workflows.run.timed_calls`)."""


def _command(call: ast.Call) -> str | None:
    function = call.func
    if ast.unparse(function) == TIMED:
        return TIMED
    if not isinstance(function, ast.Attribute) or function.attr not in COMMANDS:
        return None
    return function.attr if isinstance(function.value, ast.Name) and function.value.id in {"workflow", "asyncio"} else None


def _called(call: ast.Call) -> str:
    """What is called; a condition's or a timer's own expression does not change the command."""
    return ast.unparse(call.args[0]) if call.args and isinstance(call.args[0], ast.Attribute) else ""
