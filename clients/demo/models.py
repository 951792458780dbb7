"""The simulated models by id, and how each makes its answer from a request."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from clients.demo.judge import judge
from clients.demo.protocol import ChatRequest, Function, NamedTool
from clients.demo.reflector import reflect
from clients.demo.shapes import instance
from clients.demo.tool_choice import chosen_call, told_by_tools
from clients.demo.triage import LARGE, SMALL, Occasion, Skill, answer_ticket

OWNER = "ratchet-simulated"
TRIAGE_SMALL = "simulated-triage-small"
TRIAGE_LARGE = "simulated-triage-large"
REFLECTOR = "simulated-reflector"
ECHO = "simulated-echo"
JUDGE = "simulated-judge"
AGENT = "simulated-agent"
EMBEDDING = "simulated-embedding"

_PROSE_KEY = re.compile(r"reason|rational|expla|why|comment|thought|feedback", re.IGNORECASE)


@dataclass(frozen=True)
class Ask:
    """A chat request together with what its answer's noise depends on."""

    request: ChatRequest
    world_seed: int
    replicate: str

    @property
    def instructions(self) -> str:
        """Everything but the last user message: the system prompt, and examples given as a conversation."""
        last = self.request.last_user_index
        return "\n".join(message.text for index, message in enumerate(self.request.messages) if index != last)

    @property
    def user_text(self) -> str:
        """The last user message."""
        last = self.request.last_user_index
        return self.request.messages[last].text if last is not None else ""

    @property
    def whole_text(self) -> str:
        """All messages in their order."""
        return "\n\n".join(message.text for message in self.request.messages)


def _triage(skill: Skill) -> Callable[[Ask], str]:
    def answer(ask: Ask) -> str:
        request = ask.request
        structured = request.form.type != "text"
        temperature = 1.0 if request.temperature is None else request.temperature
        occasion = Occasion(ask.world_seed, request.model, temperature, ask.replicate)
        instructions = ask.instructions or ask.user_text  # one message that holds the prompt and the ticket
        text = answer_ticket(skill, instructions, ask.user_text, occasion, structured=structured)
        return _in_json(request, text, "label") if structured else text

    return answer


def _echo(ask: Ask) -> str:
    return _in_json(ask.request, ask.user_text, "answer") if ask.request.form.type != "text" else ask.user_text


def _reflector(ask: Ask) -> str:
    return reflect(ask.whole_text, ask.request.form, ask.world_seed, ask.whole_text, ask.replicate)


def _in_json(request: ChatRequest, text: str, key: str) -> str:
    if request.form.type == "json_object":
        return json.dumps({key: text}, ensure_ascii=False)

    def text_for(name: str) -> str:
        return "This is a simulated explanation." if _PROSE_KEY.search(name) else text

    return json.dumps(instance(request.form.json_schema.shape, text_for), ensure_ascii=False)


CHAT_MODELS: dict[str, Callable[[Ask], str]] = {
    TRIAGE_SMALL: _triage(SMALL),
    TRIAGE_LARGE: _triage(LARGE),
    REFLECTOR: _reflector,
    ECHO: _echo,
    JUDGE: lambda ask: judge(ask.request),
    AGENT: lambda ask: told_by_tools(ask.request),
}
MODEL_IDS = (*CHAT_MODELS, EMBEDDING)


def tool_call(ask: Ask) -> tuple[str, str] | None:
    """The tool to call and its arguments as JSON, or nothing.

    A tool is called if the request forces one, or if the last message is the user's and mentions the tool by its name. The
    simulated agent chooses by descriptions.
    """
    request = ask.request
    functions = [tool.function for tool in request.tools or [] if tool.function is not None]
    if not functions or request.tool_choice == "none":
        return None
    if request.model == AGENT and request.tool_choice in (None, "auto"):
        return chosen_call(request, functions)
    chosen = _forced(request, functions) or _mentioned(ask, functions)
    if chosen is None:
        return None
    arguments = instance(chosen.parameters or {"type": "object"}, lambda _name: ask.user_text)
    return chosen.name, json.dumps(arguments, ensure_ascii=False)


def _forced(request: ChatRequest, functions: list[Function]) -> Function | None:
    if request.tool_choice == "required":
        return functions[0]
    if isinstance(request.tool_choice, NamedTool):
        wanted = request.tool_choice.function.name
        return next((function for function in functions if function.name == wanted), None)
    return None


def _mentioned(ask: Ask, functions: list[Function]) -> Function | None:
    if ask.request.messages[-1].role != "user":
        return None
    return next((function for function in functions if function.name in ask.user_text), None)
