"""What deploy/ says must be what the code understands: variables, commands, files; and no registry is named anywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

from tests.system.deploy.reading import (
    DEPLOY,
    IMAGE,
    ROOT,
    Files,
    exec_form,
    instructions,
    objects,
    pods,
    read_by_code,
    read_by_temporal,
    services,
    shipped,
)

READ_BY_OTHERS = {
    "PATH": "the operating system",
    "PYTHONUNBUFFERED": "Python",
    "PYTHONDONTWRITEBYTECODE": "Python",
    "PYTHONSAFEPATH": "Python",
    "PIP_DISABLE_PIP_VERSION_CHECK": "pip",
    "PIP_NO_CACHE_DIR": "pip",
    "PIP_ROOT_USER_ACTION": "pip",
}
"""Variables in our own containers that our code does not read, and who does."""

READ_BY_IMAGES = {
    # The entrypoint of PostgreSQL's official image.
    "postgres": {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD"},
    # The configuration template inside Temporal's server, and its entrypoint.
    "temporalio/server": {
        *("DB", "DB_PORT", "POSTGRES_SEEDS", "POSTGRES_USER", "POSTGRES_PWD"),
        *("NUM_HISTORY_SHARDS", "BIND_ON_IP", "DYNAMIC_CONFIG_FILE_PATH"),
    },
    # temporal-sql-tool's flags, the Temporal CLI's, and what our scripts in deploy/temporal ask for.
    "temporalio/admin-tools": {"SQL_HOST", "SQL_PORT", "SQL_USER", "SQL_PASSWORD", "TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE"},
    # The configuration template of Temporal's UI.
    "temporalio/ui": {"TEMPORAL_ADDRESS", "TEMPORAL_UI_PORT", "TEMPORAL_DEFAULT_NAMESPACE"},
}

READ_BY_COMPOSE = {"STORE_PASSWORD": "part of DATABASE_URL", "TEMPORAL_STORE_PASSWORD": "Temporal's own database"}
"""Variables of .env.example that reach containers under other names."""

OUR_COMMANDS = (["ratchet", "worker"], ["ratchet", "serve"])
UNDERSTOOD = ("DATABASE_URL is not set", "needs a token", "Runtime default already set")
"""What they say without an environment once they have understood their arguments; the last one, second servers in a process."""

PARSING = """
import contextlib, io, json, os, sys
from clients.cli import main
os.environ.clear()  # without it, they give up right after they have understood their arguments
for line in sys.stdin:
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        main(json.loads(line))
    print(json.dumps(said.getvalue()), flush=True)
"""


def is_read(name: str) -> bool:
    return name in read_by_code() or name in READ_BY_OTHERS or read_by_temporal(name)


def variables(files: Files) -> list[str]:
    """Whoever is given a variable reads it."""
    found = []
    for name, service in services(files).items():
        image = str(service["image"]).partition(":")[0]
        for variable in service.get("environment") or {}:
            if not (is_read(variable) if image == IMAGE else variable in READ_BY_IMAGES.get(image, set())):
                found.append(f"compose.yaml: {name}: nobody there reads {variable}")
    for instruction, rest in instructions(files["Dockerfile"]):
        if instruction == "ENV":
            found += [f"Dockerfile: nobody reads {name}" for name in re.findall(r"(\w+)=\S+", rest) if not is_read(name)]
    for path, thing in objects(files):
        keys = (
            {**(thing.get("stringData") or {}), **(thing.get("data") or {})} if thing["kind"] in {"Secret", "ConfigMap"} else {}
        )
        found += [f"{path}: nobody reads {name}" for name in keys if not is_read(name)]
    for line in files[".env.example"].splitlines():
        name = line.partition("=")[0]
        if "=" in line and not line.startswith("#") and not is_read(name) and name not in READ_BY_COMPOSE:
            found.append(f".env.example: nobody reads {name}")
    for mentioned in sorted(set(re.findall(r"\b(?:RATCHET|TEMPORAL|OPENAI|DATABASE)_[A-Z_]+\b", files["README.md"]))):
        if not is_read(mentioned):
            found.append(f"README.md: nobody reads {mentioned}")
    return found


def our_commands(files: Files) -> Iterator[tuple[str, list[str]]]:
    """Every command line that our image is started with, and where it is written."""
    said = dict(shipped(files))
    entrypoint = exec_form(said.get("ENTRYPOINT", "")) or []
    yield "Dockerfile", entrypoint + (exec_form(said.get("CMD", "")) or [])
    yield "Dockerfile: HEALTHCHECK", exec_form(said.get("HEALTHCHECK", "").partition("CMD ")[2]) or []
    for name, service in services(files).items():
        if str(service["image"]).partition(":")[0] == IMAGE:
            yield f"compose.yaml: {name}", service.get("entrypoint", entrypoint) + service.get("command", [])
    for where, _, container in pods(files):
        yield where, container.get("command", entrypoint) + container.get("args", [])
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            if "exec" in container.get(probe, {}):
                yield f"{where}: {probe}", container[probe]["exec"]["command"]
    # A server that listens to this machine alone needs no token, and would start.
    for words in re.findall(r"`(ratchet worker[^`]*)`", files["README.md"]):
        yield "README.md", words.split()


@cache
def parsing_worker() -> subprocess.Popen[str]:
    """A worker that only parses; it ends with the end of its input, which is ours."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PARSING]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@cache
def refusal(arguments: tuple[str, ...]) -> str:
    """What `ratchet` says to these; nothing when it accepts them."""
    process = parsing_worker()
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(arguments) + "\n")
    process.stdin.flush()
    said: str = json.loads(process.stdout.readline())
    return "" if any(sign in said for sign in UNDERSTOOD) else said


def commands(files: Files) -> list[str]:
    """Every command is one that worker or server accept."""
    found = []
    for where, words in our_commands(files):
        if words[:2] not in OUR_COMMANDS:
            found.append(f"{where}: starts neither worker nor server: {words}")
        elif said := refusal(tuple(words[1:])):
            found.append(f"{where}: {said.strip().splitlines()[-1]}")
    return found


def hosts(files: Files) -> list[str]:
    """No package registry and no image registry is named, and no other place on the internet either."""
    found = []
    named = re.compile(r"index-url|find-links|trusted-host|pypi|docker\.io|ghcr|quay|gcr\.|\bregistry\.|\bmirror", re.I)
    for path, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            if named.search(line) or re.search(r"https?://(?!127\.0\.0\.1\b)", line):
                found.append(f"{path}:{number}: names a host: {line.strip()}")
    return found


def readme(files: Files) -> list[str]:
    """What the README tells people to type or to look at is there."""
    found = []
    text = files["README.md"]
    for path in sorted(set(re.findall(r"(?<![\w/.])deploy/[\w./-]*[\w]", text))):
        if path != "deploy/.env" and not (ROOT / path).exists():
            found.append(f"README.md: {path} does not exist")
    for path in sorted(set(re.findall(r"`([\w.-]+\.(?:py|yaml))`|keys: ([\w.-]+\.yaml)", text))):
        name = path[0] or path[1]
        if not any((DEPLOY / place / name).exists() for place in (".", "kubernetes", "backlog-scaling", "worker-controller")):
            found.append(f"README.md: {name} does not exist")
    for arguments in re.findall(r"docker compose --file deploy/compose\.yaml ([^`\n]*)", text):
        meant = re.findall(r"--scale ([\w-]+)=|run --rm ([\w-]+)|exec -T ([\w-]+)", arguments)
        names = {name for names in meant for name in names if name}
        found += [f"README.md: compose has no service {name}" for name in sorted(names - services(files).keys())]
    for kind, name in re.findall(r"\b(job|secret generic)[/ ](ratchet[\w-]*)", text):
        wanted = {"job": "Job", "secret generic": "Secret"}[kind]
        if not any(thing["kind"] == wanted and thing["metadata"]["name"] == name for _, thing in objects(files)):
            found.append(f"README.md: no {wanted} {name}")
    shared = {
        thing["metadata"]["labels"].get("app.kubernetes.io/component")
        for path, thing in objects(files)
        if "labels" in thing["metadata"]
    }
    for component in re.findall(r"component(?:=| in \()([\w, -]+)", text):
        found += [
            f"README.md: nothing is labelled {part.strip()}" for part in component.split(",") if part.strip() not in shared
        ]
    return found
