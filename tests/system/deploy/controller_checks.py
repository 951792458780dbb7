"""What must hold for the overlay of Temporal's worker controller."""

from __future__ import annotations

from pathlib import Path

import jsonschema

from tests.system.deploy.reading import Files, Node, documents, project_version

FOLDER = "worker-controller"
WORKERS = f"{FOLDER}/worker-deployment.yaml"


def _of(properties: Node, *required: str) -> Node:
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": properties}


NAMED: Node = _of({"name": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}}, "name")
DURATION: Node = {"type": "string", "pattern": r"^(\d+(h|m|s))+$"}
ANY: Node = {"type": "object"}

SPECS: dict[str, Node] = {
    "Connection": _of(
        {
            "hostPort": {"type": "string", "pattern": "^[a-zA-Z0-9.-]+:[0-9]+$"},
            "apiKeySecretRef": _of({"name": {"type": "string"}, "key": {"type": "string"}}, "key"),
            "mutualTLSSecretRef": NAMED,
        },
        "hostPort",
    ),
    "WorkerDeployment": _of(
        {
            "workerOptions": _of({"connectionRef": NAMED, "temporalNamespace": {"type": "string"}}, "connectionRef"),
            "rollout": _of(
                {"strategy": {"enum": ["Manual", "AllAtOnce", "Progressive"]}, "steps": {"type": "array"}}, "strategy"
            ),
            "sunset": _of({"scaledownDelay": DURATION, "deleteDelay": DURATION}),
            "template": ANY,
        },
        *("workerOptions", "rollout", "template"),
    ),
    "WorkerResourceTemplate": _of(
        {"temporalWorkerDeploymentRef": NAMED, "template": ANY}, "temporalWorkerDeploymentRef", "template"
    ),
}
"""Of the kinds in temporal.io/v1alpha1, as far as we use them."""


def _objects(files: Files) -> list[tuple[str, Node]]:
    paths = [path for path in files if path.startswith(f"{FOLDER}/") and Path(path).name != "kustomization.yaml"]
    return [(path, document) for path in paths for document in documents(files[path])]


def schema(files: Files) -> list[str]:
    """Every object is one that the controller understands."""
    found = []
    for path, thing in _objects(files):
        if thing["apiVersion"] != "temporal.io/v1alpha1" or thing["kind"] not in SPECS:
            found.append(f"{path}: {thing['kind']} of {thing['apiVersion']} is none of the controller's")
            continue
        errors = jsonschema.Draft202012Validator(SPECS[thing["kind"]]).iter_errors(thing["spec"])
        found += [f"{path}: {thing['kind']}: {error.message[:200]}" for error in errors]
    return found


def overlay(files: Files) -> list[str]:
    """It is the base without the workers, and with everything that lies beside it."""
    kustomization = documents(files[f"{FOLDER}/kustomization.yaml"])[0]
    found = []
    there = {Path(path).name for path, _ in _objects(files)} | {"../kubernetes"}
    if {*kustomization["resources"]} != there:
        found.append(f"{FOLDER}: lists {kustomization['resources']}, there are {sorted(there)}")
    if kustomization["images"][0]["newTag"] != project_version():
        found.append(f"{FOLDER}: the image is not version {project_version()}")
    removed = {
        (part["kind"], part["metadata"]["name"]) for patch in kustomization["patches"] for part in documents(patch["patch"])
    }
    workers = {
        (thing["kind"], thing["metadata"]["name"])
        for name in ("worker", "evaluation-worker")
        for thing in documents(files[f"kubernetes/{name}.yaml"])
    }
    if removed != workers:
        found.append(f"{FOLDER}: removes {sorted(removed)}, the base has {sorted(workers)}")
    return found


def workers(files: Files) -> list[str]:
    """Its pods are those of the base, which serve both parts."""
    of_kind = {thing["kind"]: thing for _, thing in _objects(files)}
    pod = of_kind["WorkerDeployment"]["spec"]["template"]["spec"]
    base = documents(files["kubernetes/evaluation-worker.yaml"])[0]["spec"]["template"]["spec"]
    found = []
    for part in sorted({*pod, *base} - {"containers", "topologySpreadConstraints"}):
        if pod.get(part) != base.get(part):
            found.append(f"{WORKERS}: {part} is {pod.get(part)}, in the base {base.get(part)}")
    mine, theirs = pod["containers"][0], base["containers"][0]
    for part in sorted({*mine, *theirs} - {"name", "args"}):
        if mine.get(part) != theirs.get(part):
            found.append(f"{WORKERS}: {part} of the container is {mine.get(part)}, in the base {theirs.get(part)}")
    if mine["args"] != ["--role", "all"]:
        found.append(f"{WORKERS}: {mine['args']} leaves a part to workers of another version")
    name = of_kind["WorkerDeployment"]["metadata"]["name"]
    if of_kind["WorkerResourceTemplate"]["spec"]["temporalWorkerDeploymentRef"]["name"] != name:
        found.append(f"{WORKERS}: scales no WorkerDeployment")
    if (
        of_kind["WorkerDeployment"]["spec"]["workerOptions"]["connectionRef"]["name"]
        != of_kind["Connection"]["metadata"]["name"]
    ):
        found.append(f"{WORKERS}: names no Connection")
    return found
