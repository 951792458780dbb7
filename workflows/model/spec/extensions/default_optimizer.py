"""Which optimizer a spec means that names none: `reflect` where texts change, `search` where only structured factors do. One
that has a proposer which neither of them asks is `refine`.

What it asks is completed, too, so that a spec is the same run whether it leaves this to us or writes it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ratchet._text.placeholders import placeholders, whole_placeholder

NONE_GIVEN: Mapping[str, Any] = MappingProxyType({})

CHAT_MODEL = "{{factors.model}}"
"""What a chat target asks where it says nothing."""


class Undecided(ValueError):
    """No optimizer goes without saying; what to write is told."""


def default_optimizer(spec: Mapping[str, Any], options: Mapping[str, Any] = NONE_GIVEN) -> dict[str, Any]:
    """Complete the optimizer of a spec that names none, but may have options for it. Raises Undecided."""
    factors = spec.get("configuration")
    given = factors if isinstance(factors, Mapping) else {}
    changing = [factor for factor in given.values() if _part(factor, "change") in ("text", "structured")]
    texts = spec.get("prompt") is not None or any(_part(factor, "change") == "text" for factor in changing)
    proposer = options.get("proposer")
    if proposer is not None and (not texts or _part(proposer, "kind") in ("step", "noop")):
        return {"name": "refine", **options}
    if texts:
        return {"name": "reflect", **options, "proposer": _proposer(spec, given) if proposer is None else proposer}
    if any(_part(factor, "type") != "json" for factor in changing):
        return {"name": "search", **options}
    raise Undecided(
        "is missing, and nothing may change that one is taken for by itself; let a factor change as text or as a number, a "
        "choice, an order or a flag, or name few_shot for examples, none to measure what is there"
    )


def _proposer(spec: Mapping[str, Any], factors: Mapping[str, Any]) -> dict[str, Any]:
    """The model that is to be improved rewrites its own texts."""
    target = spec.get("target")
    written = _part(target, "model") or CHAT_MODEL
    factor = (whole_placeholder(written) or "").removeprefix("factors.") if isinstance(written, str) else ""
    found = factors.get(factor, written)
    model = found if isinstance(found, str) else _part(found, "value")
    if _part(target, "kind") != "chat" or not isinstance(model, str) or not model or placeholders(model):
        raise Undecided(
            "is missing. It would be reflect, since texts may change, but the target names no model that could rewrite them; "
            "write {name: reflect, proposer: {kind: model, model: …}}"
        )
    base_url = _part(target, "base_url")
    return {"kind": "model", "model": model} | ({} if base_url is None else {"base_url": base_url})


def why_default(spec: Mapping[str, Any], optimizer: Mapping[str, Any]) -> str | None:
    """Why a spec has its optimizer, in words, where it is the one that goes without saying."""
    try:
        default = default_optimizer(spec)
    except Undecided:
        return None
    if default != optimizer:
        return None
    if default["name"] == "search":
        return "the default where only structured factors may change"
    return f"the default where texts may change; {default['proposer']['model']} rewrites them"


def _part(value: Any, name: str) -> Any:
    """A field of what may be written or read already."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
