"""What lies in deploy/, read as the tools read it, and what the code says about itself."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml
from packaging.version import Version
from temporalio.envconfig import ClientConfigProfile

from activities.settings import Settings
from clients.checks.environment import VARIABLES
from clients.temporal import DEFAULT_ADDRESS

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"

Files = Mapping[str, str]
"""The text of every file in deploy/, by its path below it."""

Check = Callable[[Files], list[str]]
"""What is wrong with these files, one sentence each."""

Node = dict[str, Any]

IMAGE = "ratchet"
TEMPORAL_PORT = int(DEFAULT_ADDRESS.rpartition(":")[2])
POSTGRES_PORT = 5432
SECRET = re.compile(r"(PASSWORD|PWD|SECRET|TOKEN|API_KEY|DATABASE_URL)$")


def read_deploy() -> dict[str, str]:
    mine = (
        path for path in DEPLOY.rglob("*") if path.is_file() and path.relative_to(DEPLOY).parts[0] not in {"data", "plugins"}
    )
    wanted = (path for path in mine if path.name != ".env" and "__pycache__" not in path.parts)
    return {path.relative_to(DEPLOY).as_posix(): path.read_text("utf-8") for path in wanted}


class _Strict(yaml.SafeLoader):
    """Refuses what other tools refuse and PyYAML lets pass: the same key twice."""


def _mapping(loader: _Strict, node: yaml.MappingNode) -> Node:
    written = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
    if twice := {key for key in written if written.count(key) > 1}:
        raise yaml.constructor.ConstructorError(None, None, f"twice the same key: {sorted(twice)}", node.start_mark)
    loader.flatten_mapping(node)
    return {str(key): value for key, value in loader.construct_mapping(node, deep=True).items()}


_Strict.add_constructor("tag:yaml.org,2002:map", _mapping)


@lru_cache(maxsize=256)
def documents(text: str) -> list[Node]:
    """The YAML documents of a file, for whoever only reads them: checks ask for the same file many times."""
    return [document for document in yaml.load_all(text, Loader=_Strict) if document is not None]


def yaml_findings(files: Files) -> list[str]:
    """Every YAML file parses."""
    found = []
    for path, text in files.items():
        if path.endswith(".yaml"):
            try:
                documents(text)
            except yaml.YAMLError as error:
                found.append(f"{path}: {error}")
    return found


def services(files: Files) -> dict[str, Node]:
    found: dict[str, Node] = documents(files["compose.yaml"])[0]["services"]
    return found


def objects(files: Files) -> Iterator[tuple[str, Node]]:
    """Every object of the Kubernetes manifests, with the file it is in."""
    for path, text in files.items():
        if path.startswith("kubernetes/") and not path.endswith("kustomization.yaml"):
            for document in documents(text):
                yield path, document


def kustomization(files: Files) -> Node:
    return documents(files["kubernetes/kustomization.yaml"])[0]


def workers(files: Files) -> Iterator[tuple[str, Node, Node]]:
    """Those of the pods that stay and take work, and do not answer anybody."""
    for where, template, container in pods(files):
        if where.startswith("Deployment") and container.get("command", [])[:2] != ["ratchet", "serve"]:
            yield where, template, container


def pods(files: Files) -> Iterator[tuple[str, Node, Node]]:
    """The name, the pod template and the only container of every workload."""
    for _, thing in objects(files):
        if thing["kind"] in {"Deployment", "Job"}:
            template = thing["spec"]["template"]
            yield f"{thing['kind']} {thing['metadata']['name']}", template, template["spec"]["containers"][0]


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, in order, with their continuation lines joined."""
    lines = [line for line in dockerfile.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(line.split(None, 1)[0].upper(), line.split(None, 1)[1]) for line in joined.splitlines()]


def stages(dockerfile: str) -> dict[str, list[tuple[str, str]]]:
    """The instructions of each stage, by the stage's name; the last one is what ships."""
    found: dict[str, list[tuple[str, str]]] = {}
    for instruction, rest in instructions(dockerfile):
        if instruction == "FROM":
            found[rest.split()[-1]] = []
        list(found.values())[-1].append((instruction, rest))
    return found


def shipped(files: Files) -> list[tuple[str, str]]:
    """The instructions of the stage that ships, those of the stages that it is made from before its own."""
    written = stages(files["Dockerfile"])
    found: list[tuple[str, str]] = []
    stage = list(written)[-1]
    while stage in written:
        found = [*written[stage][1:], *found]
        stage = written[stage][0][1].split()[0]
    return found


def exec_form(value: str) -> list[str] | None:
    """The words of an instruction in exec form, or nothing when a shell would run it."""
    try:
        words = json.loads(value)
    except ValueError:
        return None
    return words if isinstance(words, list) else None


def seconds(duration: str | float) -> float:
    """A compose duration such as 1m30s."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)(ms|h|m|s)", str(duration)))


def image_findings(where: str, image: str) -> list[str]:
    """An image is named by a tag that says which release, and by no registry."""
    name, _, tag = image.partition(":")
    found = []
    if "/" in image and ("." in image.split("/")[0] or ":" in image.split("/")[0]):
        found.append(f"{where}: {image} names a registry host")
    elif not re.fullmatch(r"v?\d+\.\d+[\w.-]*(@sha256:[0-9a-f]{64})?", tag):
        found.append(f"{where}: {name} is not pinned to a release (tag {tag or 'missing'})")
    return found


def project() -> Node:
    found: Node = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def project_version() -> str:
    return str(Version(project()["version"]))


def worker_grace(arguments: list[str]) -> float:
    """How long a worker started like this drains."""
    if "--grace" in arguments:
        return float(arguments[arguments.index("--grace") + 1])
    return Settings("postgresql://").grace.total_seconds()


@cache
def read_by_code() -> frozenset[str]:
    """The environment variables that our own code reads: by their names, or as its table of variables says."""
    rooms = ("activities", "store", "clients", "ratchet")
    places = [ROOT / "worker.py", *(file for room in rooms for file in (ROOT / room).rglob("*.py"))]
    by_name = (name for place in places for name in read_by_source(place.read_text("utf-8")))
    return frozenset([*by_name, *(variable.name for variable in VARIABLES)])


def read_by_source(source: str) -> Iterator[str]:
    """`environ["NAME"]`, `environ.get("NAME")`, `os.getenv("NAME")`, whatever the environment is called."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript):
            holder, name = ast.unparse(node.value), node.slice
        elif isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute):
            if node.func.attr not in {"get", "getenv"}:
                continue
            holder, name = ast.unparse(node.func) if node.func.attr == "getenv" else ast.unparse(node.func.value), node.args[0]
        else:
            continue
        asks_environment = holder.endswith(("environ", "environment", "getenv"))
        if asks_environment and isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield name.value


@cache
def read_by_temporal(name: str) -> bool:
    """Whether the SDK's own configuration changes when this variable is set."""
    without = ClientConfigProfile.load(disable_file=True, override_env_vars={})
    return any(
        ClientConfigProfile.load(disable_file=True, override_env_vars={name: value}) != without for value in ("true", "x:1")
    )
