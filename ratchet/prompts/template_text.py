"""Templates as files: YAML that people write, and that they would have written."""

from __future__ import annotations

from pydantic import ValidationError

from ratchet._formats.yaml import YamlProblem, read_yaml
from ratchet._formats.yaml_text import yaml_text
from ratchet._text.explanation import explain
from ratchet.prompts.prompt_errors import InvalidTemplate
from ratchet.prompts.template import PromptTemplate

LARGEST = 4 * 1024 * 1024
"""Characters. Prompts are written by people."""

_CONSTANTS = frozenset({"prompt", "path", "kind", "name", "type"})


def template_from_yaml(text: str) -> PromptTemplate:
    if len(text) > LARGEST:
        raise InvalidTemplate(f"has {len(text):,} characters, a prompt at most {LARGEST:,}")
    try:
        content = read_yaml(text.removeprefix("\ufeff"))
    except YamlProblem as problem:
        where = "" if problem.line is None else f"line {problem.line}: "
        raise InvalidTemplate(f"{where}{problem}") from None
    if not isinstance(content, dict):
        raise InvalidTemplate("is no prompt; write `prompt: namespace/key` and `sections: [{path: …, body: …}]`")
    try:
        return PromptTemplate.model_validate(content)
    except ValidationError as error:
        raise InvalidTemplate("\n".join(explain(error))) from None


def template_as_yaml(template: PromptTemplate) -> str:
    document = template.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return yaml_text(document, bare=_CONSTANTS, spaced=frozenset({"sections"}))
