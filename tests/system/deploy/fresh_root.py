"""What deploy/Dockerfile makes, made without a container engine: its own instructions, each in a root of its own.

A root has the machine's system read-only (`/usr`, `/etc`, the Python that runs the tests), and else only what the instructions
put there; nothing of the checkout is seen but what COPY brings. What is started in it runs as a container would: as the image's
user, without any capability, first process of its own process namespace, on a root that is mounted read-only but for /tmp.

This proves that the steps install what the roles need, for a user without rights and a place to write. It does not prove that
the base image has what the machine's system has (libraries, certificates), nor anything of an engine's network.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tests.system.deploy.reading import DEPLOY, ROOT, exec_form, stages

TOOLS = ("unshare", "nsenter", "chroot", "setpriv")
DEVICES = ("null", "zero", "random", "urandom")
LINKED = ("bin", "sbin", "lib", "lib64")
PYTHON = Path(sys.base_prefix)
PATH_OF_BASE = f"{PYTHON}/bin:/usr/bin:/bin"
WITHOUT_RIGHTS = "setpriv --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all"


@cache
def why_not() -> str:
    """Why roots cannot be made here; nothing where they can."""
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"{missing[0]} is missing"
    if os.geteuid() != 0:
        return "only root may make roots"
    tried = subprocess.run(["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "none", "/mnt"], check=False)
    return "this machine lets nobody mount" if tried.returncode else ""


@dataclass(frozen=True)
class Image:
    """A stage as it is when its instructions are done."""

    root: Path
    environment: Mapping[str, str]
    folder: str = "/"
    user: str = "0:0"
    entrypoint: tuple[str, ...] = ()
    health: tuple[str, ...] = ()

    def command(self, words: Sequence[str], told: Mapping[str, str]) -> list[str]:
        """The command line that starts a container with these words; its first process is the only child of this one."""
        steps = [f"mount --bind {self.root} {self.root}", f"mount -o remount,ro,bind {self.root}", *_mounts(self.root)]
        steps += [f"mount -t tmpfs -o mode=1777 none {self.root}/tmp", f"exec chroot {self.root} {self._started(words, told)}"]
        return ["unshare", "--mount", "--pid", "--fork", "sh", "-euc", "\n".join(steps)]

    def command_inside(self, process: int, words: Sequence[str], told: Mapping[str, str]) -> list[str]:
        """The command line that runs these words beside what runs in a container already."""
        inside = shlex.split(self._started(words, told))
        return ["nsenter", "--target", str(process), "--mount", "--pid", "--root", *inside]

    def _started(self, words: Sequence[str], told: Mapping[str, str]) -> str:
        user, _, group = self.user.partition(":")
        given = [f"{name}={value}" for name, value in {**self.environment, **told}.items()]
        line = ["env", "--chdir", self.folder, "-i", *given, *words]
        return f"{WITHOUT_RIGHTS} --reuid={user} --regid={group} {shlex.join(line)}"


ImageOf = Callable[[str], Image]
"""The image of a stage, by its name."""


def build(folder: Path, *wanted: str) -> dict[str, Image]:
    """Make these stages of the Dockerfile, and those that they are made from."""
    written = stages((DEPLOY / "Dockerfile").read_text("utf-8"))
    made: dict[str, Image] = {}

    def image_of(stage: str) -> Image:
        if stage not in made:
            origin = written[stage][0][1].split()[0]
            image = _copy(image_of(origin), folder / stage) if origin in written else _empty(folder / stage)
            for instruction, rest in written[stage][1:]:
                image = _after(image, instruction, rest, image_of)
            made[stage] = image
        return made[stage]

    return {stage: image_of(stage) for stage in wanted}


def _empty(root: Path) -> Image:
    for name in ("usr", "etc", "proc", "dev", "tmp", "opt", *map(str, _places_of_pip())):
        (root / name.lstrip("/")).mkdir(parents=True, exist_ok=True)
    (root / str(PYTHON).lstrip("/")).mkdir(parents=True, exist_ok=True)
    for name in LINKED:
        if Path("/", name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
    return Image(root, {"PATH": PATH_OF_BASE, "HOME": "/tmp"})


def _copy(image: Image, root: Path) -> Image:
    subprocess.run(["cp", "--archive", "--link", image.root, root], check=True)
    return replace(image, root=root)


def _after(image: Image, instruction: str, rest: str, image_of: ImageOf) -> Image:
    match instruction:
        case "ENV":
            told = {name: value.replace("$PATH", image.environment["PATH"]) for name, value in _pairs(rest)}
            return replace(image, environment={**image.environment, **told})
        case "WORKDIR":
            (image.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
            return replace(image, folder=rest)
        case "USER":
            return replace(image, user=rest)
        case "ENTRYPOINT":
            return replace(image, entrypoint=tuple(exec_form(rest) or ()))
        case "HEALTHCHECK":
            return replace(image, health=tuple(exec_form(rest.partition("CMD ")[2]) or ()))
        case "COPY":
            _bring(image, rest, image_of)
        case "RUN":
            _run(image, rest)
        case "CMD" | "LABEL" | "STOPSIGNAL":
            pass
        case _:
            raise ValueError(f"the Dockerfile has {instruction}, which this does not know")
    return image


def _pairs(rest: str) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (part.partition("=") for part in shlex.split(rest))]


def _bring(image: Image, rest: str, image_of: ImageOf) -> None:
    *sources, target = [word for word in rest.split() if not word.startswith("--")]
    origin = re.search(r"--from=(\S+)", rest)
    base = image_of(origin[1]).root if origin else ROOT
    place = image.root / os.path.join(image.folder, target).lstrip("/")
    for source in sources:
        found = base / source.lstrip("/")
        into = place / found.name if target.endswith("/") or len(sources) > 1 else place
        into.parent.mkdir(parents=True, exist_ok=True)
        if origin:
            subprocess.run(["cp", "--archive", "--link", found, into], check=True)
        elif found.is_dir():
            shutil.copytree(found, into, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(found, into)


def _run(image: Image, line: str) -> None:
    told = {**image.environment, **_told_to_pip(image.root)}
    given = [f"{name}={value}" for name, value in told.items()]
    command = shlex.join(["env", "--chdir", image.folder, "-i", *given, "sh", "-c", line])
    steps = [*_mounts(image.root), f"exec chroot {image.root} {command}"]
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-euc", "\n".join(steps)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def _mounts(root: Path) -> list[str]:
    """The steps that put the machine's system below a root."""
    shared = [Path("/usr"), Path("/etc"), PYTHON, *_places_of_pip()]
    steps = [f"mount --bind {place} {root}{place}\nmount -o remount,ro,bind {root}{place}" for place in shared]
    steps += [f"mount -t proc proc {root}/proc", f"mount -t tmpfs -o mode=755 none {root}/dev"]
    steps += [f"touch {root}/dev/{name}; mount --bind /dev/{name} {root}/dev/{name}" for name in DEVICES]
    return [*steps, f"mkdir -m 1777 {root}/dev/shm"]


@cache
def _places_of_pip() -> tuple[Path, ...]:
    """Folders that pip is told to take packages from, where it is told so; of an index, the whole."""
    said = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True).stdout
    named = [Path(name) for name in re.findall(r"(?<![\w/])(?:file://)?(/[^\s'\",:]+)", said)]
    places = {place.parent if place.name == "simple" else place for place in named if place.is_dir()}
    return tuple(sorted(place for place in places if not place.is_relative_to("/etc")))


def _told_to_pip(root: Path) -> dict[str, str]:
    """How pip is configured on this machine: that is no part of the image."""
    told = {name: value for name, value in os.environ.items() if name.startswith("PIP_") and name != "PIP_CONFIG_FILE"}
    for place in (os.environ.get("PIP_CONFIG_FILE"), Path.home() / ".config/pip/pip.conf", Path.home() / ".pip/pip.conf"):
        if place and Path(place).is_file():
            shutil.copy(place, root / "tmp" / "pip.conf")
            return {**told, "PIP_CONFIG_FILE": "/tmp/pip.conf"}
    return told
