"""What must hold for the image."""

from __future__ import annotations

import json
import re
import tomllib

from packaging.specifiers import SpecifierSet

from clients.embedded.temporal_server import SETTINGS
from deploy.core_lock import EXTRAS
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

NOT_IN_IMAGES = {"embedded", "nethack"}
"""Extras that a server has no use for: servers of its own, and the game of an example."""


def bases(files: Files) -> list[str]:
    """Every stage starts from the same pinned Python that pyproject.toml allows."""
    found = []
    named = {rest.split()[0] for instruction, rest in instructions(files["Dockerfile"]) if instruction == "FROM"}
    images = named - stages(files["Dockerfile"]).keys()
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


STEP = re.compile(r"sh deploy/build_image\.sh (packages \w+|wheel|install)")


def installs(files: Files) -> list[str]:
    """All that is run is a step of the script. There, whatever comes from an index is a wheel with a known hash; whatever does
    not, asks no index."""
    found = []
    script = files["build_image.sh"]
    for instruction, rest in instructions(files["Dockerfile"]):
        if instruction == "RUN" and ((step := STEP.fullmatch(rest)) is None or step[1] not in script):
            found.append(f"Dockerfile: runs what is no step of build_image.sh: {rest}")
    for command in re.findall(r"\bpip\"? (?:install|wheel|download)\b[^&;|\n]*", script):
        offline = "--no-index" in command and "--no-deps" in command
        if not offline and not ("--require-hashes" in command and "--only-binary :all:" in command):
            found.append(f"build_image.sh: takes packages without checking their hashes: {command.strip()}")
    if re.search(r"\b(curl|wget|apt-get|git clone)\b", script):
        found.append("build_image.sh: fetches something that is in no lock")
    return found


def parts(files: Files) -> list[str]:
    """What is built unless a target is named has every extra but what servers have no use for; the lean one has the core."""
    found = []
    extras = project()["optional-dependencies"].keys()
    if missing := extras - {*EXTRAS["full"]} - NOT_IN_IMAGES:
        found.append(f"core_lock.py: the full image lacks {sorted(missing)}")
    installed = {
        stage: {rest.rpartition(" ")[2] for kind, rest in _with_origins(files, f"{stage}-build") if "packages" in rest}
        for stage in ("lean", "full")
    }
    if installed != {"lean": {"run"}, "full": {"run", "full"}} or list(stages(files["Dockerfile"]))[-1] != "full":
        found.append(f"Dockerfile: the images are made of {installed}, the last one is {list(stages(files['Dockerfile']))[-1]}")
    return found


def _with_origins(files: Files, stage: str) -> list[tuple[str, str]]:
    written = stages(files["Dockerfile"])
    if stage not in written:
        return []
    runs = [(kind, rest) for kind, rest in written[stage] if kind == "RUN"]
    return [*_with_origins(files, written[stage][0][1].split()[0]), *runs]


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
