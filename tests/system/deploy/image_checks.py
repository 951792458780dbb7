"""What must hold for the image."""

from __future__ import annotations

import json
import re
import tomllib

from packaging.specifiers import SpecifierSet

from clients.embedded.temporal_server import SETTINGS
from deploy.engine_package import LIBRARY, ROOMS
from tests.system.deploy.reading import (
    ROOT,
    Files,
    documents,
    exec_form,
    image_findings,
    instructions,
    project,
    project_version,
    shipped,
    stages,
)


def bases(files: Files) -> list[str]:
    """Every stage starts from the same pinned Python that pyproject.toml allows."""
    found = []
    images = {rest.split()[0] for instruction, rest in instructions(files["Dockerfile"]) if instruction == "FROM"}
    for image in sorted(images):
        found += image_findings("Dockerfile", image)
        number = re.match(r"python:(\d+\.\d+\.\d+)-slim", image)
        if number and number[1] not in SpecifierSet(project()["requires-python"]):
            found.append(f"Dockerfile: {image} is outside requires-python {project()['requires-python']}")
    if len(images) > 1:
        found.append(f"Dockerfile: a virtual environment moves between different bases: {sorted(images)}")
    return found


def copies(files: Files) -> list[str]:
    """What is copied exists, is sent to the builder, and comes from a stage that is there; every package of ours is in."""
    found = []
    sent = {line[1:] for line in files["Dockerfile.dockerignore"].splitlines() if line.startswith("!")}
    copied = set()
    for stage, steps in stages(files["Dockerfile"]).items():
        for instruction, rest in steps:
            if instruction != "COPY":
                continue
            *sources, _ = [word for word in rest.split() if not word.startswith("--")]
            origin = re.search(r"--from=(\S+)", rest)
            if origin:
                if origin[1] not in stages(files["Dockerfile"]) or origin[1] == stage:
                    found.append(f"Dockerfile: no stage {origin[1]} to copy from")
                continue
            copied |= set(sources)
            found += [f"Dockerfile: {source} does not exist" for source in sources if not (ROOT / source).exists()]
            found += [f"Dockerfile: {source} is ignored by Dockerfile.dockerignore" for source in sources if source not in sent]
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    packages = {room if (ROOT / room).is_dir() else f"{room}.py" for room in (LIBRARY, *ROOMS)}
    needed = {*packages, wheel["hooks"]["custom"]["path"], project()["readme"], "pyproject.toml", "requirements.lock"}
    found += [f"Dockerfile: {name} is part of the wheel but not copied" for name in sorted(needed - copied)]
    found += [f"Dockerfile.dockerignore: {name} is sent but not used" for name in sorted(sent - copied)]
    if "*" not in files["Dockerfile.dockerignore"].splitlines():
        found.append("Dockerfile.dockerignore: does not ignore everything else")
    return found


def installs(files: Files) -> list[str]:
    """Whatever comes from an index is a wheel with a known hash; whatever does not, asks no index."""
    found = []
    for instruction, rest in instructions(files["Dockerfile"]):
        if instruction != "RUN":
            continue
        for command in re.findall(r"\bpip (?:install|wheel|download)\b[^&;|]*", rest):
            offline = "--no-index" in command and "--no-deps" in command
            if not offline and not ("--require-hashes" in command and "--only-binary :all:" in command):
                found.append(f"Dockerfile: takes packages without checking their hashes: {command.strip()}")
        if re.search(r"\b(curl|wget|apt-get|git clone)\b", rest):
            found.append(f"Dockerfile: fetches something that is in no lock: {rest}")
    return found


def runtime(files: Files) -> list[str]:
    """What ships runs as nobody in particular, without a shell, and stops when it is told to."""
    found = []
    ships = shipped(files)
    said = dict(ships)
    user = said.get("USER", "missing")
    if not re.fullmatch(r"[1-9]\d*:[1-9]\d*", user):
        found.append(f"Dockerfile: USER must be a number other than 0, which Kubernetes can check: {user}")
    for instruction in ("ENTRYPOINT", "CMD"):
        if exec_form(said.get(instruction, "")) is None:
            found.append(f"Dockerfile: {instruction} is not in exec form, so signals would go to a shell")
    if exec_form(said.get("HEALTHCHECK", "").partition("CMD ")[2]) is None:
        found.append("Dockerfile: HEALTHCHECK is missing or not in exec form")
    if said.get("STOPSIGNAL") != "SIGTERM":
        found.append("Dockerfile: STOPSIGNAL is not SIGTERM, which is what the worker drains on")
    if f'image.version="{project_version()}"' not in said.get("LABEL", ""):
        found.append(f"Dockerfile: the version label is not {project_version()}")
    environment = " ".join(rest for instruction, rest in ships if instruction == "ENV")
    for setting in ("PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"):
        if setting not in environment:
            found.append(f"Dockerfile: {setting} is missing")
    if any(instruction in {"ADD", "RUN"} for instruction, _ in ships):
        found.append("Dockerfile: the stage that ships runs or adds something; do it in the build stage")
    return found


def dynamic_config(files: Files) -> list[str]:
    """The settings we give Temporal are those that the embedded server runs with."""
    given = documents(files["temporal/dynamicconfig.yaml"])[0]
    found = []
    for name, entries in given.items():
        values = [json.dumps(entry["value"]) for entry in entries]
        if values != [SETTINGS.get(name)]:
            found.append(f"temporal/dynamicconfig.yaml: {name} is {values}, the embedded server has {SETTINGS.get(name)}")
    return found
