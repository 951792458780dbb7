"""The two kinds of type in this vocabulary.

Payloads ignore fields they do not know, so that an older worker reads what a newer one sent. What a person writes refuses
them, so that a misspelt key is never silently dropped. Both refuse NaN and infinity, which JSON cannot carry.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


class Payload(BaseModel):
    """What workflows and activities hand each other. New fields always have defaults."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


class SpecPart(BaseModel):
    """A part of the spec: written by a person, described for editors, strict about unknown keys."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, extra="forbid", use_attribute_docstrings=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Python takes `true` for 1, and nobody who writes `replicates: true` means that."""
        schema = handler(source)
        inner: Any = schema
        while inner["type"] != "model-fields":
            if "schema" not in inner:  # built elsewhere
                return schema
            inner = inner["schema"]
        for field in inner["fields"].values():
            field["schema"] = _without_bools(field["schema"])
        return schema


_AROUND_ONE = ("default", "nullable", "function-after", "function-before", "function-wrap", "list")


def _without_bools(schema: Any) -> Any:
    """The schema of a field whose numbers are neither true nor false, unless these have a place of their own beside them."""
    kind = schema["type"]
    if schema.get("function", {}).get("function") is _no_bool:
        return schema
    if kind in ("int", "float"):
        return core_schema.no_info_before_validator_function(_no_bool, schema)
    if kind in _AROUND_ONE:
        inner = "items_schema" if kind == "list" else "schema"
        return {**schema, inner: _without_bools(schema[inner])} if inner in schema else schema
    if kind == "dict" and "values_schema" in schema:
        return {**schema, "values_schema": _without_bools(schema["values_schema"])}
    if kind == "union" and all(isinstance(choice, dict) and choice["type"] != "bool" for choice in schema["choices"]):
        return {**schema, "choices": [_without_bools(choice) for choice in schema["choices"]]}
    if kind == "tagged-union" and all(choice["type"] != "bool" for choice in schema["choices"].values()):
        return {**schema, "choices": {tag: _without_bools(choice) for tag, choice in schema["choices"].items()}}
    return schema


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("no_number", "must be a number")
    return value
