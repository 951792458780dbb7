"""`ratchet init` and `ratchet schema`: where a spec begins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from clients.commands.context import CommandError, Context, ExitCode, command
from clients.templates.spec_templates import TEMPLATES, template_text

SCHEMA_FILE = "spec.schema.json"
IGNORE_FILE = ".gitignore"
SKILL_FILE = "ratchet/SKILL.md"
"""Agents find a skill by the name of its folder."""
IGNORED = ".ratchet/\noptimizations/\n"
"""What runs leave beside a spec: the servers' data, and the histories."""

OWN = {
    "chat": "in {spec}: put in your prompt (configuration), your model, and its prices",
    "chain": "in {spec}: put in your prompts (configuration) and steps (target), your model, and its prices",
    "prompt": "in {directory}/triage.yaml: put in your prompt; in {spec}: your model, and its prices",
    "python": "in {directory}/agent.py: call your own code; in {spec}: the factors that it takes",
}
"""What to change first."""


def add_to(app: typer.Typer) -> None:
    """Register the commands."""

    @command(app, "init", "Begin")
    def init(
        context: Context,
        directory: Annotated[
            Path, typer.Argument(metavar="[DIR]", help="Where to write. [default: here]", show_default=False)
        ] = Path(),
        template: Annotated[
            str,
            typer.Option(
                "--template",
                metavar="KIND",
                help="What is improved: a chat model's prompt (chat), a chain of prompts (chain), a prompt of sections in a "
                "file of its own (prompt), or a Python function (python).",
            ),
        ] = "chat",
        skill: Annotated[
            bool,
            typer.Option(
                "--skill",
                help="Write instructions for coding agents instead, as DIR/ratchet/SKILL.md: DIR is where yours looks for "
                "skills.",
            ),
        ] = False,
    ) -> None:
        """Write a commented spec and a dataset to start from; never overwrites anything."""
        if skill:
            written, kept = write_skill(directory)
            told = [
                f"{directory / name}: {'there already, left as it is' if name in kept else 'written'}"
                for name in [*kept, *written]
            ]
            context.facts({"directory": str(directory), "written": written, "kept": kept}, "\n".join(told))
            return
        written, kept = write_templates(directory, template)
        told = [f"{directory / name}: there already, left as it is" for name in kept]
        told += [f"{directory / name}: written" for name in written]
        spec = directory / "spec.yaml"
        told += [
            "",
            "Next:",
            f"  1. {OWN[template].format(spec=spec, directory=directory)}",
            f"  2. in {directory / 'tickets.jsonl'}: put in your own samples, one JSON object a line",
            "  3. set OPENAI_API_KEY, and OPENAI_BASE_URL for any other OpenAI-compatible endpoint",
            f"  4. ratchet check {spec}",
            f"  5. ratchet run {spec}",
        ]
        context.facts({"directory": str(directory), "written": written, "kept": kept}, "\n".join(told))

    @command(app, "schema", "Begin")
    def schema(context: Context) -> None:
        """Print the JSON Schema of the spec, by which editors complete and check it."""
        print(schema_text())


def write_templates(directory: Path, template: str = "chat") -> tuple[list[str], list[str]]:
    """Write what is missing; the names written, and the names that were there."""
    if template not in TEMPLATES:
        raise CommandError(f"--template: {template!r} is unknown; use one of {', '.join(TEMPLATES)}")
    contents = {path.rpartition("/")[2]: template_text(path) for path in TEMPLATES[template].files}
    contents |= {SCHEMA_FILE: schema_text() + "\n", IGNORE_FILE: IGNORED}
    return _write_missing(directory, contents)


def write_skill(directory: Path) -> tuple[list[str], list[str]]:
    """Write the instructions for coding agents, unless there are some; the names written, and the names that were there."""
    return _write_missing(directory, {SKILL_FILE: template_text("skill/SKILL.md")})


def _write_missing(directory: Path, contents: Mapping[str, str]) -> tuple[list[str], list[str]]:
    written: list[str] = []
    kept: list[str] = []
    try:
        for name, text in contents.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            try:
                with (directory / name).open("x", encoding="utf-8") as file:
                    file.write(text)
                written.append(name)
            except FileExistsError:
                kept.append(name)
    except OSError as error:
        raise CommandError(
            f"cannot write in {directory}: {error.strerror or error}; give another directory", ExitCode.BAD_INPUT
        ) from None
    return written, kept


def schema_text() -> str:
    """The schema as text."""
    import json

    from workflows.model.spec.request import spec_schema

    return json.dumps(spec_schema(), indent=2, ensure_ascii=False)
