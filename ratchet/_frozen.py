"""The two kinds of type in this vocabulary.

Payloads ignore fields they do not know, so that an older worker reads what a newer one sent. What a person writes refuses
them, so that a misspelt key is never silently dropped. Both refuse NaN and infinity, which JSON cannot carry.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Final, Self

from pydantic import (
    VERSION,
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from ratchet._text.misspelt_names import with_what_was_meant

BUILT_WHEN_USED: Final = tuple(int(number) for number in VERSION.split(".")[:2]) >= (2, 14)
"""Most processes use few of the types they import, and a type's validator holds those of its parts: a quarter of a worker's
import. Pydantic before 2.14 builds late with no lock, so that threads get in each other's way."""


class _Described(BaseModel):
    """A type whose fields are described by the docstrings below them, in its JSON schema.

    They are read when a schema is wanted. Pydantic's own `use_attribute_docstrings` reads every source file once more as it
    is imported: 0.13 s of CPU in every process.
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        made = handler(schema)
        properties = handler.resolve_ref_schema(made).get("properties", {})
        for name, described in _field_docstrings(cls).items():
            field = cls.model_fields[name]
            for key in (name, field.alias, field.validation_alias, field.serialization_alias):
                if isinstance(key, str) and key in properties and field.description is None:
                    properties[key]["description"] = described
        return made


def _field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """What is written below each field, in the class that defines it last."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, _Described) and base.__module__ != __name__:
            found |= _docstrings_in(base.__module__).get(base.__qualname__, {})
    return {name: told for name, told in found.items() if name in model.model_fields}


@cache
def _docstrings_in(module: str) -> dict[str, dict[str, str]]:
    """Of each class of a module, by its qualified name. `inspect` would parse the whole module for every one of them."""
    found: dict[str, dict[str, str]] = {}

    def read(body: Sequence[ast.stmt], prefix: str) -> None:
        for statement in body:
            match statement:
                case ast.ClassDef(name=name):
                    found[prefix + name] = dict(_described_fields(statement))
                    read(statement.body, f"{prefix}{name}.")
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    read(statement.body, f"{prefix}{name}.<locals>.")

    read(ast.parse(inspect.getsource(sys.modules[module])).body, "")
    return found


def _described_fields(definition: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for before, after in pairwise(definition.body):
        match before, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(told))):
                yield name, inspect.cleandoc(told)


class Payload(_Described):
    """What workflows and activities hand each other. New fields always have defaults."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, defer_build=BUILT_WHEN_USED)


class SpecPart(_Described):
    """A part of the spec: written by a person, described for editors, strict about unknown keys."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, extra="forbid", defer_build=BUILT_WHEN_USED)

    @model_validator(mode="wrap")
    @classmethod
    def _tell_what_was_meant(cls, value: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return read(value)
        except ValidationError as error:
            raise with_what_was_meant(error, _names_of(cls)) from None

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


def _names_of(model: type[BaseModel]) -> list[str]:
    """What people write for its fields."""
    return [field.alias or name for name, field in model.model_fields.items()]


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
