"""What a simulated user says after an answer of the agent: the next words of a script, or those of a model that plays him."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from activities.agents.trajectory import Trajectory, counted_apart
from activities.targets.faults import NotSent
from ratchet._formats.canonical import content_hash, derive_seed
from ratchet._text.placeholders import Filling, as_text, whole_placeholder
from workflows.model.spec.targets.simulated_users import ModelUser, ScriptedUser, User

if TYPE_CHECKING:
    from activities.endpoints.chat_protocol import ChatAnswer

END = "[end]"
LARGEST_SEED = 2**31 - 1
"""What every endpoint takes."""

INSTRUCTIONS = """\
You play a user who talks to an assistant. Stay in your part: you are the one who wants something.

Who you are: {persona}
What you want: {goal}

The next message holds the conversation so far, in an element whose name ends in "-{mark}". Say what you say next, in your own
words, and nothing else. As soon as {stop}, say {end} and nothing else.
"""


@dataclass(frozen=True, slots=True)
class PlayedUser:
    """The user of one conversation."""

    spec: User
    script: Sequence[str]
    """What a scripted one says."""
    texts: Mapping[str, str]
    """Who one is whom a model plays, and what he wants."""

    def has_left(self, said: int) -> bool:
        """Whether he says nothing more, having said something so often."""
        return said >= (self.spec.replies if isinstance(self.spec, ModelUser) else len(self.script))

    def request(self, course: Trajectory, seed: int | None) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """What the model is sent that plays him: messages and parameters."""
        assert isinstance(self.spec, ModelUser)
        talk = "\n\n".join(f"{who}: {words}" for who, words in _spoken(course))
        mark = content_hash(talk)[:8]
        told = INSTRUCTIONS.format(**self.texts, mark=mark, end=END)
        messages = [
            {"role": "system", "content": told},
            {"role": "user", "content": f"<conversation-{mark}>\n{talk}\n</conversation-{mark}>"},
        ]
        own = derive_seed(self.spec.seed, str(seed or 0), len(course.turns)) % LARGEST_SEED
        return messages, {"seed": own, **self.spec.parameters}


def played(user: User, filling: Filling) -> PlayedUser:
    """The user for one sample. Raises Unfillable and NotSent."""
    if isinstance(user, ScriptedUser):
        return PlayedUser(user, _script(user, filling), {})
    return PlayedUser(user, (), {name: filling.text(getattr(user, name)) for name in ("goal", "persona", "stop")})


def _script(user: ScriptedUser, filling: Filling) -> list[str]:
    if isinstance(user.says, list):
        return [filling.text(text) for text in user.says]
    found = filling.json(user.says) if whole_placeholder(user.says) is not None else filling.text(user.says)
    if isinstance(found, str):
        return [found]
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise NotSent(f"target.user.says: {user.says} is no list of texts")
    return list(found)


def scripted_turn(words: str) -> dict[str, Any]:
    """A turn of a scripted user, as it is kept."""
    return {"user": words, "ends": False, "calls": [], "latency_ms": 0.0}


def played_turn(answer: ChatAnswer) -> dict[str, Any]:
    """A turn that a model gave who plays the user. One that says that he leaves ends the conversation."""
    value = answer.value
    words = as_text(value.get("content") or "" if isinstance(value, Mapping) else value)
    said = words.replace(END, "").strip()
    turn = {"user": said, "ends": END in words or not said, "calls": [], "latency_ms": answer.latency_ms}
    return turn | counted_apart(answer)


def _spoken(course: Trajectory) -> list[tuple[str, str]]:
    """What both said aloud; calls of tools the user does not see."""
    opening = [("You", as_text(message.get("content") or "")) for message in course.opening if message.get("role") == "user"]
    turns = [
        ("You", turn.content["user"]) if "user" in turn.content else ("Assistant", as_text(turn.content["said"] or ""))
        for turn in course.turns
    ]
    return [(who, words) for who, words in [*opening, *turns] if words]
