"""A simulated agent: it calls the tool whose description has most words of the request, and says what that gave."""

import json
import re

from clients.demo.protocol import ChatRequest, Function
from clients.demo.shapes import instance

_WORD = re.compile(r"[a-z]{4,}")
_NUMBER = re.compile(r"\b[A-Z]{1,3}-\d+\b")


def chosen_call(request: ChatRequest, functions: list[Function]) -> tuple[str, str] | None:
    """The tool and its arguments as JSON; nothing once a tool has answered. It guesses the first where none fits."""
    if request.messages[-1].role != "user":
        return None
    text = request.messages[-1].text
    words = set(_WORD.findall(text.lower()))
    fitting = [len(words & set(_WORD.findall((function.description or "").lower()))) for function in functions]
    chosen = functions[fitting.index(max(fitting))]
    number = _NUMBER.search(text)
    arguments = instance(chosen.parameters or {"type": "object"}, lambda _name: number.group() if number else text)
    return chosen.name, json.dumps(arguments, ensure_ascii=False)


def told_by_tools(request: ChatRequest) -> str:
    """What tools said since the user spoke last."""
    last = request.last_user_index
    said = [message.text for message in request.messages[(last or 0) :] if message.role == "tool"]
    return " ".join(said) or "I have no tool for that."
