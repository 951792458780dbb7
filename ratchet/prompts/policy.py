"""A structured prompt: task, rules and skills that never change, a policy of typed parameters that may, and how it came about.

`policy_template` makes a template of it, which a spec names (`prompt: {file: …}`), optimizers mutate parameter by parameter,
and releases version; the target reads its text as `{{factors.prompt}}`. `with_recent_mutations` says how it came about: people
read that, while models are shown what was measured, which knows no history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from ratchet._text.explanation import explain
from ratchet.domains import FlagDomain, IntegerDomain, NumberDomain, OrderDomain
from ratchet.prompts.overrides import TagState
from ratchet.prompts.prompt_errors import InvalidTemplate
from ratchet.prompts.store import OverrideStore
from ratchet.prompts.template import PromptTemplate

TASK, RULES, SKILLS = "TASK DEFINITION", "RULES AND CONSTRAINTS", "AVAILABLE SKILLS"
POLICY, MUTATIONS = "DECISION POLICY PARAMETERS", "RECENT MUTATIONS"

PRIORITY = "skill_priority"
"""The parameter that orders the skills, if there is one."""

MOST_MUTATIONS = 5


def policy_template(
    name: str,
    *,
    task: str,
    rules: Sequence[str],
    skills: Mapping[str, str],
    parameters: Mapping[str, Mapping[str, Any]],
    description: str = "",
) -> PromptTemplate:
    """The template: everything is frozen but the parameters, which are typed as in a spec. Raises InvalidTemplate."""
    texts = {
        "task": (TASK, task.strip()),
        "rules": (RULES, _listed(rules)),
        "skills": (SKILLS, _listed([f"{skill}: {words}" for skill, words in skills.items()])),
    }
    sections = [
        {"path": path, "body": f"{heading}\n{text}", "accepts_overrides": False}
        for path, (heading, text) in texts.items()
        if text
    ]
    try:
        typed = PromptTemplate.model_validate(
            {"prompt": name, "sections": sections, "parameters": parameters, "description": description}
        )
        shown = {"path": "policy", "body": f"{POLICY}\n{_as_json(typed)}", "accepts_overrides": False}
        made = PromptTemplate.model_validate(
            {"prompt": name, "sections": [*sections, shown], "parameters": parameters, "description": description}
        )
    except ValidationError as error:
        raise InvalidTemplate(f"{name}: {'; '.join(explain(error))}") from None
    _refuse_unknown_skills(made, skills)
    return made


async def recent_mutations(store: OverrideStore, state: TagState) -> list[str]:
    """The last steps that led to where a tag is, the newest last: `v1.0.0 → v1.0.1: Adjusted health_threshold: …`."""
    known = {version.version: version for version in await store.versions(state.name)}
    steps: list[str] = []
    at = known.pop(state.version or state.parent, None)
    while at is not None and at.parent is not None and len(steps) < MOST_MUTATIONS:
        steps.insert(0, f"v{at.parent} → v{at.version}: {at.change.why or at.change.action}")
        at = known.pop(at.parent, None)
    return steps


def with_recent_mutations(text: str, mutations: Sequence[str]) -> str:
    """A prompt's text with the last mutations that led to it, the newest last."""
    if not mutations:
        return text
    return f"{text}\n\n{MUTATIONS}\n{_listed([' '.join(each.split()) for each in mutations[-MOST_MUTATIONS:]])}"


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _as_json(template: PromptTemplate) -> str:
    """The parameters as an object whose values are filled in when the prompt is read."""
    bare = (NumberDomain, IntegerDomain, FlagDomain, OrderDomain)
    lines = [
        f'  "{name}": {placed}'
        for name, domain in template.parameters.items()
        for placed in [f"{{{{factors.{name}}}}}" if isinstance(domain, bare) else f'"{{{{factors.{name}}}}}"']
    ]
    return "{\n" + ",\n".join(lines) + "\n}"


def _refuse_unknown_skills(template: PromptTemplate, skills: Mapping[str, str]) -> None:
    ordered = template.parameters.get(PRIORITY)
    if isinstance(ordered, OrderDomain) and sorted(map(str, ordered.value)) != sorted(skills):
        raise InvalidTemplate(
            f"{template.name}: parameters.{PRIORITY} orders {', '.join(map(str, ordered.value))}, "
            f"but the skills are {', '.join(skills)}; name each skill once"
        )
