"""The child's side of bounded matching: regular expressions and JSON Schemas, which a hostile text can make run for ever.

Run by file name, so that it imports nothing of the worker and starts fast. One JSON array per line in, one JSON object out.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any


def search(pattern: str, text: str, full_match: bool) -> bool:
    """Whether the pattern is found."""
    compiled = re.compile(pattern)
    return bool(compiled.fullmatch(text) if full_match else compiled.search(text))


def schema_problem(schema: dict[str, Any], value: Any) -> str | None:
    """The first thing about a value that a schema does not accept."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY

    validator = validator_for(schema, default=Draft202012Validator)
    validator.check_schema(schema)
    # With a registry given, remote references are refused; without one, any URL that a schema names would be fetched.
    problem = next(iter(validator(schema, registry=REGISTRY).iter_errors(value)), None)
    return None if problem is None else f"{problem.json_path}: {problem.message}"


_FUNCTIONS: dict[str, Callable[..., Any]] = {"search": search, "schema_problem": schema_problem}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        function, *arguments = json.loads(line)
        try:
            answer = {"result": _FUNCTIONS[function](*arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
