"""Which statements of a migration workers of the version before can live with: those that only add."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

NAME: Final = r"(?:IF (?:NOT )?EXISTS )?(\w+)"

ADDS: Final = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        rf"CREATE (?:UNLOGGED )?TABLE {NAME}",
        r"CREATE (OR REPLACE )?(VIEW|FUNCTION) ",
        r"CREATE (SEQUENCE|TYPE|DOMAIN) ",
        r"CREATE INDEX ",
        r"COMMENT ON ",
        r"DROP INDEX ",
        r"(INSERT INTO|UPDATE|WITH|SELECT) ",
    )
)
"""What takes nothing away. A view that is replaced keeps its columns: PostgreSQL sees to that."""

NEW_TABLE: Final = re.compile(rf"CREATE (?:UNLOGGED )?TABLE {NAME}", re.IGNORECASE)
OF_TABLE: Final = re.compile(
    rf"(?:ALTER TABLE (?:ONLY )?{NAME}|CREATE (?:UNIQUE INDEX|TRIGGER|RULE)\b.*?\bON (\w+))", re.IGNORECASE | re.DOTALL
)
ALTERED: Final = re.compile(rf"ALTER TABLE (?:ONLY )?{NAME}\s+(.*)", re.IGNORECASE | re.DOTALL)
NEW_COLUMN: Final = re.compile(r"ADD COLUMN ", re.IGNORECASE)
STORAGE: Final = re.compile(r"(RE)?SET \(", re.IGNORECASE)
"""How a table is kept, such as when it is vacuumed: no statement notices."""

FILLED: Final = re.compile(r"\b(DEFAULT|GENERATED)\b", re.IGNORECASE)
BINDS: Final = re.compile(r"\b(UNIQUE|PRIMARY KEY|CHECK|REFERENCES)\b", re.IGNORECASE)
REQUIRED: Final = re.compile(r"\bNOT NULL\b", re.IGNORECASE)

_TEXT: Final = re.compile(r"\$(\w*)\$.*?\$\1\$|'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)


def what_breaks(sql: str) -> list[str]:
    """List the statements that may refuse, or miss, what workers of the version before say to the tables."""
    statements = list(_statements(sql))
    new_tables = {found[1].lower() for statement in statements if (found := NEW_TABLE.match(statement))}
    return [statement for statement in statements if not _only_adds(statement, new_tables)]


def _statements(sql: str) -> Iterator[str]:
    """Every statement, without comments, and with nothing in its texts that could be taken for SQL."""
    plain = _TEXT.sub(lambda found: " " if found[0].startswith(("--", "/*")) else "''", sql)
    for statement in plain.split(";"):
        if words := " ".join(statement.split()):
            yield words


def _only_adds(statement: str, new_tables: set[str]) -> bool:
    of_table = OF_TABLE.match(statement)
    if of_table and (of_table[1] or of_table[2]).lower() in new_tables:
        return True
    altered = ALTERED.match(statement)
    if altered:
        return all(_adds_harmlessly(action) for action in _actions(altered[2]))
    return any(pattern.match(statement) for pattern in ADDS)


def _actions(text: str) -> list[str]:
    """Part the actions of one ALTER TABLE at commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _adds_harmlessly(action: str) -> bool:
    """A column that nobody needs to fill, and that refuses nothing; or another way to keep the table."""
    if STORAGE.match(action):
        return True
    if not NEW_COLUMN.match(action) or BINDS.search(action):
        return False
    return bool(FILLED.search(action)) or not REQUIRED.search(action)
