"""Write a JSON Schema as Markdown: one heading and one table of fields for each object."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
Link = Callable[[str], str]
"""The address of an object's heading, by the object's name."""

LONGEST_DEFAULT = 60
"""Characters of a default that a table shows."""
ANYTHING, ANY = "JsonValue", "any value"


def name_of(reference: str) -> str:
    """Return the last part of a `$ref`."""
    return reference.rpartition("/")[2]


def cell(text: str) -> str:
    """Write text so that it stays within one cell of a table."""
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")


def references(schema: Any) -> Iterator[str]:
    """Name the objects that a schema refers to, in its order."""
    if isinstance(schema, Mapping):
        if isinstance(reference := schema.get("$ref"), str):
            yield name_of(reference)
        for key, value in schema.items():
            if key != "discriminator":
                yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def type_of(schema: Schema, link: Link) -> str:
    """Say in Markdown what a value may be."""
    if "$ref" in schema:
        name = name_of(schema["$ref"])
        return ANY if name == ANYTHING else f"[{name}]({link(name)})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            kinds = [type_of(part, link) for part in schema[key] if part.get("type") != "null"]
            return " or ".join(dict.fromkeys(kinds))
    if "allOf" in schema:
        return " and ".join(type_of(part, link) for part in schema["allOf"])
    return _plain(schema, link)


def _plain(schema: Schema, link: Link) -> str:
    match schema.get("type"):
        case "array":
            items = schema.get("items")
            return f"list of {type_of(items, link)}" if items else "list"
        case "object":
            values = schema.get("additionalProperties") or next(iter(schema.get("patternProperties", {}).values()), None)
            return f"map to {type_of(values, link)}" if isinstance(values, Mapping) and values else "map"
        case "string":
            return {"duration": "duration", "date-time": "time"}.get(schema.get("format", ""), "text")
        case "integer" | "number" as kind:
            return f"{kind}{_range(schema)}"
        case "boolean":
            return "`true` or `false`"
        case "null":
            return "nothing"
    return ANY


def _range(schema: Schema) -> str:
    limits = (("≥", "minimum"), (">", "exclusiveMinimum"), ("≤", "maximum"), ("<", "exclusiveMaximum"))
    said = ", ".join(f"{sign} {_number(schema[key])}" for sign, key in limits if key in schema)
    return f" {said}" if said else ""


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def default_of(schema: Schema, required: bool) -> str:
    """Say in Markdown what a field is when it is left out."""
    if required:
        return "required"
    if schema.get("default") is None:
        return ""
    text = json.dumps(schema["default"], ensure_ascii=False)
    return f"`{text}`" if len(text) <= LONGEST_DEFAULT else "see the schema"


def fields(schema: Schema, link: Link, definitions: Mapping[str, Schema]) -> list[str]:
    """Write the fields of an object as the lines of a table."""
    required = schema.get("required", [])
    rows = ["| field | what it may be | default | meaning |", "|---|---|---|---|"]
    for name, field in schema.get("properties", {}).items():
        parts = [f"`{name}`", type_of(field, link), default_of(field, name in required), _meaning(field, definitions)]
        rows.append("| " + " | ".join(cell(part) for part in parts) + " |")
    return rows if len(rows) > 2 else []


def _meaning(field: Schema, definitions: Mapping[str, Schema]) -> str:
    """Take the field's own words, or those of the object that it holds."""
    said = field.get("description") or definitions.get(name_of(field.get("$ref", "")), {}).get("description", "")
    return str(said)


def objects(definitions: Mapping[str, Schema], names: list[str], link: Link) -> list[str]:
    """Write objects, each under a heading of its own."""
    lines: list[str] = []
    for name in names:
        schema = definitions[name]
        lines += ["", f"### {name}", ""]
        if description := schema.get("description"):
            lines += [re.sub(r"\s*\n\s*", " ", description.strip()), ""]
        table = fields(schema, link, definitions)
        lines += table or [f"{type_of(schema, link)}."]
    return lines


def reached(definitions: Mapping[str, Schema], root: Any) -> list[str]:
    """Name every object that is reached from a schema, each once, in the order in which a reader meets them."""
    found: list[str] = []
    waiting = list(references(root))
    while waiting:
        name = waiting.pop(0)
        if name in definitions and name not in found and name != ANYTHING:
            found.append(name)
            waiting = [*references(definitions[name]), *waiting]
    return found
