"""A part of a spec that is of one of several kinds, told apart by a word: optimizers, targets, scorers.

Which kinds there are is looked up when a part is read, not when this is imported: each kind brings its own code along, which
imports the model. It also lets a test add a kind for a while.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextvars import ContextVar
from functools import lru_cache
from operator import or_
from typing import Annotated, Any, ClassVar

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from ratchet._frozen import SpecPart


class Various(SpecPart):
    """A part that is read as one of several kinds. Each kind is a class derived from the one that lists them."""

    told_by: ClassVar[str]
    """The field whose word tells the kind."""

    @classmethod
    @abstractmethod
    def kinds(cls) -> Mapping[str, type[SpecPart]]:
        """Every kind by its word, in the order in which they are described."""

    @classmethod
    def _is_listing(cls) -> bool:
        return "kinds" in vars(cls)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if not cls._is_listing():
            return super().__get_pydantic_core_schema__(source, handler)
        return core_schema.no_info_plain_validator_function(cls._read)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        if not cls._is_listing():
            return super().__get_pydantic_json_schema__(schema, handler)
        union: Any = cls._union().core_schema
        if cls in _DESCRIBED.get():  # by one of its own kinds, which has parts of every kind
            union = union["schema"] if union["type"] == "definitions" else union
            union = {**union, "choices": {word: _reference(kind) for word, kind in union["choices"].items()}}
            return handler(union)
        token = _DESCRIBED.set(_DESCRIBED.get() | {cls})
        try:
            return handler(union)
        finally:
            _DESCRIBED.reset(token)

    @classmethod
    def _read(cls, value: Any) -> Any:
        depth = _DEPTH.get()
        if depth == DEEPEST:
            raise PydanticCustomError("too_deep", "is nested too deep")
        token = _DEPTH.set(depth + 1)
        try:
            return cls._union().validate_python(value)
        finally:
            _DEPTH.reset(token)

    @classmethod
    def _union(cls) -> TypeAdapter[Any]:
        return _union_of(cls.told_by, tuple(dict.fromkeys(cls.kinds().values())))


DEEPEST = 20
"""How deep parts are read that have parts of the same sort within."""

_DEPTH: ContextVar[int] = ContextVar("depth", default=0)
"""How deep the part is that is being read."""

_DESCRIBED: ContextVar[frozenset[type]] = ContextVar("described", default=frozenset())
"""The parts whose kinds are being described for editors."""


def _reference(kind: Any) -> CoreSchema:
    return core_schema.definition_reference_schema(kind.get("schema_ref") or kind["ref"])


@lru_cache(maxsize=32)
def _union_of(told_by: str, kinds: tuple[type[SpecPart], ...]) -> TypeAdapter[Any]:
    together: Any = kinds[0]
    for kind in kinds[1:]:
        together = or_(together, kind)
    return TypeAdapter(Annotated[together, Field(discriminator=told_by)] if len(kinds) > 1 else together)
