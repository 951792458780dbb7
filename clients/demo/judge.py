"""A simulated judge: grades by a rule, and never by taste.

What a rubric puts in double quotes must be in the answer; where it quotes nothing, what is expected must. The grade is the
share of it that is there.
"""

import json
import re

from clients.demo.protocol import ChatRequest

_ELEMENT = r"<{0}(?:-\w+)?>\n?(.*?)\n?</{0}(?:-\w+)?>"
_QUOTED = re.compile(r"\"([^\"]+)\"|“([^”]+)”")
_SCALE = re.compile(r"from (-?\d+)\D{1,20}?to (-?\d+)")


def judge(request: ChatRequest) -> str:
    """The verdict on the answer that the messages show, as JSON."""
    instructions = "\n".join(message.text for message in request.messages if message.role in ("system", "developer"))
    material = "\n".join(message.text for message in request.messages if message.role == "user")
    answer = _element("answer", material).casefold()
    wanted = [one or other for one, other in _QUOTED.findall(_element("rubric", instructions))] or [
        _element("expected", material)
    ]
    lacking = [text for text in wanted if text.casefold() not in answer]
    worst, best = _scale(request, instructions)
    share = 1 - len(lacking) / len(wanted)
    reason = f"It lacks {', '.join(lacking)}." if lacking else "It has all that is asked for."
    return json.dumps({"reason": reason, "score": worst + round(share * (best - worst))}, ensure_ascii=False)


def _element(name: str, text: str) -> str:
    found = re.search(_ELEMENT.format(name), text, re.DOTALL)
    return found.group(1) if found else ""


def _scale(request: ChatRequest, instructions: str) -> tuple[int, int]:
    """From the form that the verdict must have, or from what the instructions say."""
    score = request.form.json_schema.shape.get("properties", {}).get("score", {})
    if score.get("enum"):
        return min(score["enum"]), max(score["enum"])
    said = _SCALE.search(instructions)
    return (int(said.group(1)), int(said.group(2))) if said else (1, 5)
