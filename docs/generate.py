"""Write the pages under `docs/reference`: `make docs`.

Each page is made from what the product itself says: the JSON Schema of the spec, the definitions of the command line, the
OpenAPI document of the HTTP API, the tables of environment variables and of metrics. A test fails when a page differs from what
this module would write.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from docs.schema_pages import ANYTHING, cell, fields, objects, reached, type_of

REFERENCE = Path(__file__).parent / "reference"
EXIT_CODES = {
    "DONE": "done",
    "FAILED": "failed",
    "BAD_INPUT": "bad input; nothing was started",
    "GATE_NOT_MET": "the run ended, and what `--gate` asks of it does not hold",
    "CANCELLED": "cancelled",
    "UNREACHABLE": "cannot reach a server",
    "DETACHED": "Ctrl-C: the command left, and the run goes on, or sleeps with the embedded servers",
}
DEFAULT_IN_WORDS = re.compile(r"\s*\[default: (.*?)\]")
NOTE = "<!-- Made by `make docs`; change the code that it is made from. -->"


def pages() -> dict[str, str]:
    """Return the text of every page, by file name."""
    made = {
        "spec.md": spec_page(),
        "cli.md": cli_page(),
        "http.md": http_page(),
        "environment.md": environment_page(),
        "metrics.md": metrics_page(),
    }
    return {name: "\n".join(lines).rstrip() + "\n" for name, lines in made.items()}


def spec_page() -> list[str]:
    """Describe every field of a spec."""
    from workflows.model.spec.request import spec_schema

    schema = cast("dict[str, Any]", spec_schema())
    definitions = schema["$defs"]
    lines = [
        "# The spec, field by field",
        "",
        NOTE,
        "",
        "A spec is one object, written as YAML or JSON. `ratchet schema` prints its JSON Schema, by which editors complete it;",
        "`ratchet check SPEC` checks one. Unknown fields are errors. A duration is written as `90s`, `10m` or `2h`.",
        "[The quickstart](../quickstart.md) has a spec to start from.",
        "",
        "## Fields of a spec",
        "",
    ]
    lines += _root_table(schema)
    for name, field in schema["properties"].items():
        own = [found for found in reached(definitions, field) if _first_home(schema, found) == name]
        if own:
            lines += ["", f"## Field `{name}`", *_said(field), *_kinds(field)]
            lines += objects(definitions, own, _here)
    return lines


def _root_table(schema: Mapping[str, Any]) -> list[str]:
    shown = {**schema, "properties": {**schema["properties"]}}
    for name, field in schema["properties"].items():
        if list(_kinds(field)):
            shown["properties"][name] = {**field, "oneOf": [{"const": "one of the kinds below"}]}
            shown["properties"][name].pop("items", None)
            shown["properties"][name].pop("anyOf", None)
    return [
        line.replace("`one of the kinds below`", "one of the kinds below") for line in fields(shown, _here, schema["$defs"])
    ]


def _first_home(schema: Mapping[str, Any], wanted: str) -> str:
    """Name the field of the spec from which an object is reached first; each object is described once."""
    return next(str(name) for name, field in schema["properties"].items() if wanted in reached(schema["$defs"], field))


def _said(field: Mapping[str, Any]) -> Iterator[str]:
    if description := field.get("description"):
        yield ""
        yield " ".join(str(description).split())


def _kinds(field: Mapping[str, Any]) -> Iterator[str]:
    """List the alternatives of a field whose kinds have names."""
    found = field if "discriminator" in field else field.get("items", {})
    discriminator = found.get("discriminator") if isinstance(found, Mapping) else None
    if discriminator and "mapping" in discriminator:
        yield ""
        for kind, reference in discriminator["mapping"].items():
            name = reference.rpartition("/")[2]
            yield f"- `{discriminator['propertyName']}: {kind}`: [{name}]({_here(name)})"


def _here(name: str) -> str:
    return f"#{name.lower()}"


def cli_page() -> list[str]:
    """Describe every command."""
    import typer.main

    from clients.cli import app
    from clients.commands.context import ExitCode

    group: Any = typer.main.get_command(app)
    lines = [
        "# The command line",
        "",
        NOTE,
        "",
        "Every command has `--help`, `--json` (print one JSON object on stdout, and nothing else) and `--home DIR` (where the",
        "embedded servers keep their data; default: `RATCHET_HOME`, else `.ratchet`).",
        "",
        "| exit code | meaning |",
        "|---|---|",
    ]
    lines += [f"| {int(code)} | {EXIT_CODES[code.name]} |" for code in ExitCode]
    for panel in dict.fromkeys(command.rich_help_panel or "More" for command in group.commands.values()):
        lines += ["", f"## {panel}"]
        for name, command in group.commands.items():
            if (command.rich_help_panel or "More") == panel:
                lines += _command(f"ratchet {name}", command)
    return lines


def _command(path: str, command: Any) -> list[str]:
    subcommands = getattr(command, "commands", None)
    if subcommands:
        lines = ["", f"### {path}", "", _prose(command.help)]
        return lines + [line for name, part in subcommands.items() for line in _command(f"{path} {name}", part)]
    own = [given for given in command.params if given.name not in {"json", "home"}]
    arguments = [given for given in own if not given.opts[0].startswith("-")]
    options = [given for given in own if given.opts[0].startswith("-")]
    usage = " ".join([path, *(_argument(given) for given in arguments), *["[OPTIONS]"] * bool(options)])
    lines = ["", f"### {path}", "", _prose(command.help), "", "```console", f"$ {usage}", "```"]
    if own:
        lines += ["", "| argument or option | default | meaning |", "|---|---|---|"]
        for given in [*arguments, *options]:
            names = f"`{_option(given) if given in options else _argument(given)}`"
            lines.append(f"| {cell(names)} | {cell(_default(given))} | {cell(_meaning(given))} |")
    return lines


def _prose(text: str | None) -> str:
    return " ".join((text or "").split())


def _argument(given: Any) -> str:
    return str(given.metavar or given.name.upper())


def _option(given: Any) -> str:
    names = ", ".join([*given.opts, *given.secondary_opts])
    if given.is_flag:
        return names
    return f"{names} {given.metavar or given.name.upper()}"


def _meaning(given: Any) -> str:
    return DEFAULT_IN_WORDS.sub("", given.help or "")


def _default(given: Any) -> str:
    if given.required:
        return "required"
    if in_words := DEFAULT_IN_WORDS.search(given.help or ""):
        return in_words[1]
    if getattr(given, "is_flag", False):
        return ""
    if given.default in (None, "", ()) or callable(given.default):
        return ""
    return f"`{given.default}`"


def http_page() -> list[str]:
    """Describe every path of the HTTP API."""
    from clients.http.app import api_of
    from workflows.model.spec.request import spec_schema

    nowhere = cast("Any", None)  # the paths are described without servers
    document = api_of(nowhere).openapi()
    definitions = document["components"]["schemas"]
    in_spec = set(cast("dict[str, Any]", spec_schema())["$defs"])

    def link(name: str) -> str:
        plain = name.removesuffix("-Input")
        if name == "OptimizationRequest":
            return "spec.md#fields-of-a-spec"
        return f"spec.md#{plain.lower()}" if plain in in_spec else f"#{name.lower()}"

    lines = [
        "# The HTTP API",
        "",
        NOTE,
        "",
        "`ratchet dev` and `ratchet serve` answer at `http://127.0.0.1:7373`. `/v1/private/openapi.json` is the same for",
        "machines. Every request under `/v1/private` and `/codec` needs a token, as `Authorization: Bearer TOKEN`; the page",
        "has a cookie. The server's own token may do everything; `ratchet tokens create` makes others, each with a role:",
        "`read`, `run`, `release` or `admin`. Each may do what those before it may; a path names the least one that it needs.",
        "An id in a path is percent-encoded, a slash in it too (`team%2Fnightly`). An error is a [Problems](#problems) object.",
    ]
    for tag in dict.fromkeys(operation["tags"][0] for _, _, operation in _operations(document)):
        lines += ["", f"## {tag.capitalize()}"]
        for path, method, operation in _operations(document):
            if operation["tags"][0] == tag:
                lines += _operation(path, method, operation, link)
    names = [name for name in sorted(definitions) if link(name).startswith("#") and name != ANYTHING]
    return [*lines, "", "## Objects", *objects(definitions, names, link)]


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def _operation(path: str, method: str, operation: Mapping[str, Any], link: Any) -> list[str]:
    from clients.http.access.roles import matched

    lines = ["", f"### {method} {path}", "", _prose(operation.get("description") or operation.get("summary"))]
    role = matched(method, path).rule.role if path != "/health" else None
    if role is not None:
        lines += ["", f"Least role: `{role.value}`."]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body:
        lines += ["", f"Body: {type_of(body, link)}."]
    good = {status: answer for status, answer in operation["responses"].items() if status.startswith("2")}
    said = []
    for status, answer in sorted(good.items()):
        content = next(iter(answer.get("content", {}).items()), None)
        if content is None:
            said.append(f"{status} without a body")
        else:
            kind = type_of(content[1].get("schema", {}), link)
            said.append(f"{status} with {kind if content[0] == 'application/json' else '`' + content[0] + '`'}")
    bad = ", ".join(sorted(status for status in operation["responses"] if not status.startswith("2")))
    lines += ["", f"Answers: {'; '.join(said)}" + (f"; errors {bad}." if bad else ".")]
    parameters = [given for given in operation.get("parameters", []) if given["name"] not in {"optimization_id"}]
    if parameters:
        lines += ["", "| parameter | in | what it may be | meaning |", "|---|---|---|---|"]
        for given in parameters:
            cells = [f"`{given['name']}`", given["in"], type_of(given["schema"], link), given.get("description", "")]
            lines.append("| " + " | ".join(cell(part) for part in cells) + " |")
    return lines


def environment_page() -> list[str]:
    """Describe every environment variable."""
    from clients.checks.environment import SIDES, VARIABLES

    lines = [
        "# Environment variables",
        "",
        NOTE,
        "",
        "Ratchet is configured by its environment, never by a spec. A list of origins, prefixes or task queues is separated by",
        "commas, and allows nothing when it is empty. [Security](../security.md) says what each list protects.",
    ]
    for side, title in SIDES.items():
        lines += ["", f"## {title}", "", "| variable | default | meaning |", "|---|---|---|"]
        for variable in VARIABLES:
            if variable.side == side:
                lines.append(f"| `{variable.name}` | {cell(variable.default)} | {cell(variable.meaning)} |")
    return lines


def metrics_page() -> list[str]:
    """Describe every metric."""
    from workflows.metrics import METRICS

    lines = [
        "# Metrics",
        "",
        NOTE,
        "",
        "What Ratchet counts, by the names under which Prometheus reads it. A collector is sent the same, without `_total`.",
        "[Operations](../operations.md#metrics) says how to turn it on, what to draw and when to be told. Temporal's SDK adds",
        "its own, which begin with `temporal_`.",
    ]
    for side in dict.fromkeys(metric.shown_by for metric in METRICS):
        lines += ["", f"## Shown by {side}", "", "| metric | kind | split by | meaning |", "|---|---|---|---|"]
        for metric in METRICS:
            if metric.shown_by == side:
                split = "; ".join(_label(name, values) for name, values in metric.labels.items())
                kind = "histogram" if metric.buckets else "counter"
                lines.append(f"| `{metric.shown_as}` | {kind} | {cell(split)} | {cell(metric.meaning)} |")
    return lines


def _label(name: str, values: Sequence[str]) -> str:
    return f"`{name}`: {', '.join(values)}" if values else f"`{name}`"


def main() -> int:
    """Write the pages."""
    os.environ.pop("RATCHET_ROLE", None)  # a default that an environment variable changes is not written down
    REFERENCE.mkdir(exist_ok=True)
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
        print(f"docs/reference/{name}: {text.count(chr(10))} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
