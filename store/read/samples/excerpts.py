"""The beginning of contents, for tables that show many of them: no more is read than is shown."""

# ruff: noqa: S608 (only columns that our own code names are put into statements)

from __future__ import annotations

from typing import Any, Final

from ratchet._formats.canonical import canonical_json
from store.connection import Connection
from store.encoding import from_json
from store.encrypted_contents import contents_of

LONGEST_EXCERPT: Final = 300
"""Characters."""
MOST_STORED_BYTES: Final = 32 * 1024
"""What takes more, as it is stored, is not looked into: a page of a thousand of them would be a gigabyte."""


def excerpt_column(connection: Connection, column: str) -> str:
    """Return SQL for the beginning of a JSON content, as text; hand it to `excerpt_of`.

    One that is encrypted can only be cut by who reads it.
    """
    if contents_of(connection).encrypts:
        return f"CASE WHEN pg_column_size({column}) <= {MOST_STORED_BYTES} THEN {column} END"
    fields = (
        "SELECT CASE count(*) WHEN 1 THEN min(value) ELSE string_agg(name || ': ' || value, E'\\n') END"
        f" FROM json_each_text({column}) AS given (name, value)"
    )
    return (
        f"CASE WHEN pg_column_size({column}) > {MOST_STORED_BYTES} THEN NULL ELSE left(CASE json_typeof({column})"
        f" WHEN 'string' THEN {column} #>> '{{}}' WHEN 'object' THEN ({fields}) WHEN 'null' THEN ''"
        f" ELSE {column}::text END, {LONGEST_EXCERPT + 1}) END"
    )


def excerpt_of(connection: Connection, found: str | None) -> str | None:
    """Return what such a column says: at most LONGEST_EXCERPT characters, the last of them … where there are more; None for
    what is nothing, or too long to be looked into."""
    if found is None:
        return None
    text = _readable(from_json(found)) if contents_of(connection).encrypts else found
    return text if len(text) <= LONGEST_EXCERPT else f"{text[: LONGEST_EXCERPT - 1]}…"


def _readable(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case dict() if len(value) == 1:
            return _field(next(iter(value.values())))
        case dict():
            return "\n".join(f"{name}: {_field(part)}" for name, part in value.items())
    return canonical_json(value)


def _field(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else canonical_json(value)
