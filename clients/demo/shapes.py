"""A valid value for a JSON schema, so that a simulated model can honour `response_format` and call tools."""

from collections.abc import Callable
from typing import Any

TextFor = Callable[[str], str]
"""What to say in the string property of the given name."""

_MAX_DEPTH = 12


def instance(schema: dict[str, Any], text_for: TextFor) -> Any:
    """The simplest value that the schema allows; strings say what `text_for` says for their property."""
    return _Shaper(schema, text_for).value(schema, "", 0)


class _Shaper:
    def __init__(self, root: dict[str, Any], text_for: TextFor) -> None:
        self._root = root
        self._text_for = text_for

    def value(self, schema: dict[str, Any], name: str, depth: int) -> Any:
        schema = self._resolved(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            text = self._text_for(name)
            return text if text in schema["enum"] else schema["enum"][0]
        for choice in ("anyOf", "oneOf"):
            if schema.get(choice):
                return self.value(_fullest(schema[choice]), name, depth + 1)
        return self._typed(schema, name, depth)

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        for _ in range(_MAX_DEPTH):
            if "$ref" not in schema:
                break
            target: Any = self._root
            for part in schema["$ref"].lstrip("#/").split("/"):
                target = target[part]
            schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
        for part in schema.get("allOf", []):
            merged = self._resolved(part)
            properties = {**merged.get("properties", {}), **schema.get("properties", {})}
            required = [*merged.get("required", []), *schema.get("required", [])]
            schema = {**merged, **schema, "properties": properties, "required": required}
        return schema

    def _typed(self, schema: dict[str, Any], name: str, depth: int) -> Any:
        kind = schema.get("type", "object" if "properties" in schema else "string")
        if isinstance(kind, list):
            kind = next((one for one in kind if one != "null"), "null")
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                count = max(int(schema.get("minItems", 1)), 0) if depth < _MAX_DEPTH else 0
                return [self.value(schema.get("items", {}), name, depth + 1) for _ in range(count)]
            case "number" | "integer":
                return _number(schema, whole=kind == "integer")
            case "boolean":
                return True
            case "null":
                return None
        text = self._text_for(name).ljust(int(schema.get("minLength", 0)), ".")
        return text[: schema["maxLength"]] if "maxLength" in schema else text

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties: dict[str, Any] = schema.get("properties", {})
        wanted = properties if depth < _MAX_DEPTH else schema.get("required", [])
        return {key: self.value(properties.get(key, {}), key, depth + 1) for key in wanted}


def _fullest(options: list[dict[str, Any]]) -> dict[str, Any]:
    """Of several allowed shapes, the first that is more than null."""
    return next((option for option in options if option.get("type") != "null"), options[0])


def _number(schema: dict[str, Any], *, whole: bool) -> float | int:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    high = schema.get("maximum", schema.get("exclusiveMaximum", low + 2))
    middle = (float(low) + float(high)) / 2
    return round(middle) if whole else middle
