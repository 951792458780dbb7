"""What must hold for compose.yaml and its .env.example."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files as package_files
from urllib.parse import urlsplit

from jsonschema.validators import validator_for

from clients.http import DEFAULT_PORT
from clients.http.app import CLOSING_TAKES_AT_MOST
from tests.system.deploy.reading import (
    DEPLOY,
    IMAGE,
    POSTGRES_PORT,
    SECRET,
    TEMPORAL_PORT,
    Files,
    Node,
    documents,
    image_findings,
    project_version,
    seconds,
    services,
    shipped,
    worker_grace,
)

LISTENS = {"postgres": POSTGRES_PORT, "temporalio/server": TEMPORAL_PORT, "temporalio/ui": 8080, IMAGE: DEFAULT_PORT}
INTERPOLATED = re.compile(r"(?<!\$)\$\{(\w+)(:?[-?][^}]*)?\}")


@cache
def compose_schema() -> Node:
    """The compose specification's own schema, as check-jsonschema ships it."""
    place = package_files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    schema: Node = json.loads(place.read_text("utf-8"))
    return schema


def _is_ours(service: Node) -> bool:
    return str(service["image"]).partition(":")[0] == IMAGE


def _is_one_shot(service: Node) -> bool:
    return str(service.get("restart", "")).startswith("on-failure")


def _is_asked(service: Node) -> bool:
    return bool(service.get("entrypoint") == ["ratchet", "serve"])


def _environment(service: Node) -> dict[str, str]:
    """What a service is given. Without a value it is what the env file has, and nothing at all where that has none."""
    given = service.get("environment") or {}
    return {name: f"${{{name}:-}}" if value is None else str(value) for name, value in given.items()}


def schema(files: Files) -> list[str]:
    validator = validator_for(compose_schema())(compose_schema())
    return [
        f"compose.yaml: {error.json_path}: {error.message[:200]}"
        for error in validator.iter_errors(documents(files["compose.yaml"])[0])
    ]


def images(files: Files) -> list[str]:
    """Pinned, from no named registry, and ours is this version."""
    found = []
    for name, service in services(files).items():
        found += image_findings(f"compose.yaml: {name}", service["image"])
        if _is_ours(service) and service["image"] != f"{IMAGE}:{project_version()}":
            found.append(f"compose.yaml: {name}: {service['image']} is not version {project_version()}")
    return found


def isolation(files: Files) -> list[str]:
    """Nobody is root, nobody can become it, and ours writes nowhere."""
    found = []
    user_of_image = dict(shipped(files)).get("USER")
    for name, service in services(files).items():
        if not re.fullmatch(r"[1-9]\d*:[1-9]\d*", str(service.get("user"))):
            found.append(f"compose.yaml: {name}: runs as {service.get('user')}, say a number other than 0")
        if service.get("cap_drop") != ["ALL"] or "no-new-privileges:true" not in service.get("security_opt", []):
            found.append(f"compose.yaml: {name}: keeps privileges")
        if _is_ours(service) and (service.get("read_only") is not True or "/tmp" not in service.get("tmpfs", [])):
            found.append(f"compose.yaml: {name}: the root filesystem is not read-only with a /tmp")
        if _is_ours(service) and service.get("user") != user_of_image:
            found.append(f"compose.yaml: {name}: the user is not the image's {user_of_image}")
    return found


def publishing(files: Files) -> list[str]:
    """Only loopback is published, and only what listens."""
    found = []
    for name, service in services(files).items():
        for port in service.get("ports", []):
            address, _, inside = str(port).rpartition(":")
            if not address.startswith("127.0.0.1:"):
                found.append(f"compose.yaml: {name}: {port} is published beyond loopback")
            if _is_ours(service) and not _is_asked(service):
                found.append(f"compose.yaml: {name}: {port} leads to a worker, which answers nobody")
            if int(inside) != LISTENS.get(service["image"].partition(":")[0]):
                found.append(f"compose.yaml: {name}: {port} leads to a port nobody listens on")
    return found


def addresses(files: Files) -> list[str]:
    """Whoever is told an address can reach it: the service is there, on a shared network, and listens on that port."""
    found = []
    known = services(files)
    for name, service in known.items():
        given = _environment(service)
        places = [given["TEMPORAL_ADDRESS"]] if "TEMPORAL_ADDRESS" in given else []
        if "DATABASE_URL" in given:
            places.append(urlsplit(INTERPOLATED.sub("secret", given["DATABASE_URL"])).netloc.rpartition("@")[2])
        for host, port in (("SQL_HOST", "SQL_PORT"), ("POSTGRES_SEEDS", "DB_PORT")):
            if host in given:
                places.append(f"{given[host]}:{given.get(port)}")
        for place in places:
            host, _, port = place.partition(":")
            if host not in known:
                found.append(f"compose.yaml: {name}: nobody is called {host}")
            elif port != str(LISTENS.get(known[host]["image"].partition(":")[0])):
                found.append(f"compose.yaml: {name}: {host} does not listen on {port}")
            elif not set(service["networks"]) & set(known[host]["networks"]):
                found.append(f"compose.yaml: {name}: shares no network with {host}")
    for name, service in known.items():
        if _is_asked(service) and f"127.0.0.1:{DEFAULT_PORT}/health" not in str(service.get("healthcheck", {}).get("test")):
            found.append(f"compose.yaml: {name}: its health is a worker's, by the image; ask its own port")
        if "temporalio/server" in service["image"] and f'"{TEMPORAL_PORT}"' not in json.dumps(service["healthcheck"]["test"]):
            found.append(f"compose.yaml: {name}: the healthcheck does not ask port {TEMPORAL_PORT}")
        ui_port = _environment(service).get("TEMPORAL_UI_PORT")
        if ui_port is not None and int(ui_port) != LISTENS["temporalio/ui"]:
            found.append(f"compose.yaml: {name}: the UI listens elsewhere than it is published")
    return found


def order(files: Files) -> list[str]:
    """Conditions can come true: who must be healthy says when, who must complete does not run for ever."""
    found = []
    known = services(files)
    image_has_check = any(instruction == "HEALTHCHECK" for instruction, _ in shipped(files))
    for name, service in known.items():
        for other, how in service.get("depends_on", {}).items():
            if other not in known:
                found.append(f"compose.yaml: {name}: waits for {other}, which is not there")
                continue
            checked = known[other].get("healthcheck") or (_is_ours(known[other]) and image_has_check)
            if how["condition"] == "service_healthy" and not checked:
                found.append(f"compose.yaml: {name}: waits for the health of {other}, which has no check")
            if how["condition"] == "service_completed_successfully" and not _is_one_shot(known[other]):
                found.append(f"compose.yaml: {name}: waits for the end of {other}, which never ends")
        if "restart" not in service:
            found.append(f"compose.yaml: {name}: no restart policy")
        if _is_ours(service) and not _is_one_shot(service) and "setup" not in service.get("depends_on", {}):
            found.append(f"compose.yaml: {name}: does not wait for the schema")
    return found


def stopping(files: Files) -> list[str]:
    """Workers get longer to stop than they need to drain."""
    found = []
    for name, service in services(files).items():
        if _is_ours(service) and not _is_one_shot(service):
            drain = CLOSING_TAKES_AT_MOST if _is_asked(service) else worker_grace(service["command"])
            grace = seconds(service.get("stop_grace_period", "10s"))
            if grace <= drain:
                found.append(f"compose.yaml: {name}: is killed after {grace:.0f} s, drains for {drain:.0f} s")
            if service.get("init") is not True:
                found.append(f"compose.yaml: {name}: no init, so a SIGTERM during start-up is lost")
    return found


def references(files: Files) -> list[str]:
    """Files, volumes and networks that are named exist."""
    found = []
    whole = documents(files["compose.yaml"])[0]
    for name, service in services(files).items():
        if "build" in service and not (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file():
            found.append(f"compose.yaml: {name}: {service['build']['dockerfile']} does not exist")
        for volume in service.get("volumes", []):
            source, target = volume.split(":")[:2] if isinstance(volume, str) else (volume["source"], volume["target"])
            if source.startswith("."):
                if not (DEPLOY / source).exists():
                    found.append(f"compose.yaml: {name}: {source} does not exist")
            elif source not in whole["volumes"]:
                found.append(f"compose.yaml: {name}: volume {source} is not declared")
            elif postgres := re.match(r"postgres:(\d+)", service["image"]):
                # Since 18 the image keeps its data one level higher; below that it would end up in an anonymous volume.
                wanted = "/var/lib/postgresql" if int(postgres[1]) >= 18 else "/var/lib/postgresql/data"
                if target != wanted:
                    found.append(f"compose.yaml: {name}: PostgreSQL {postgres[1]} keeps its data in {wanted}, not {target}")
        for script in re.findall(r"/setup/(\S+)", " ".join(map(str, service.get("command") or []))):
            if f"temporal/{script}" not in files:
                found.append(f"compose.yaml: {name}: temporal/{script} does not exist")
        found += [
            f"compose.yaml: {name}: network {network} is not declared"
            for network in service.get("networks", [])
            if network not in whole["networks"]
        ]
    return found


def env_file(files: Files) -> dict[str, str]:
    lines = [line for line in files[".env.example"].splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def secrets(files: Files) -> list[str]:
    """Secrets come from the env file, which is not in git and has no defaults worth trying."""
    found = []
    for name, service in services(files).items():
        for variable, value in _environment(service).items():
            in_url = re.fullmatch(r"\w+://[^:]+:(.*)@[^@]*", value)
            if SECRET.search(variable) and not INTERPOLATED.fullmatch(in_url[1] if in_url else value):
                found.append(f"compose.yaml: {name}: {variable} is written out")
            if SECRET.search(variable) and ("PASSWORD" in variable or "PWD" in variable) and ":?" not in value:
                found.append(f"compose.yaml: {name}: {variable} may be empty")
    given = env_file(files)
    found += [f".env.example: {name} has a value" for name, value in given.items() if SECRET.search(name) and value]
    used = {name for name, _ in INTERPOLATED.findall(files["compose.yaml"])}
    found += [f".env.example: lacks {name}" for name in sorted(used - given.keys())]
    found += [f".env.example: {name} is not used" for name in sorted(given.keys() - used)]
    if ".env" not in files[".gitignore"].splitlines():
        found.append(".gitignore: .env would be committed")
    return found
