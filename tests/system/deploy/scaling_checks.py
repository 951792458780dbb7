"""What must hold for the overlay that scales by the backlog."""

from __future__ import annotations

from pathlib import Path

import jsonschema

from activities.settings import Settings
from tests.system.deploy.kubernetes_checks import named
from tests.system.deploy.reading import Files, Node, documents, project_version

FOLDER = "backlog-scaling"
SCALED = f"{FOLDER}/scaled-object.yaml"

_NAME: Node = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
_COUNT: Node = {"type": "string", "pattern": "^[1-9][0-9]*$"}
_TEMPORAL: Node = {
    "type": "object",
    "additionalProperties": False,
    "required": ["endpoint", "namespace", "taskQueue", "queueTypes", "targetQueueSize"],
    "properties": {
        "endpoint": {"type": "string", "pattern": "^[a-zA-Z0-9.-]+:[0-9]+$"},
        "namespace": {"type": "string"},
        "taskQueue": {"type": "string"},
        "queueTypes": {"enum": ["workflow", "activity", "workflow,activity"]},
        "targetQueueSize": _COUNT,
        "activationTargetQueueSize": _COUNT,
        "enableTLS": {"enum": ["true", "false"]},
    },
}
_SCALED: Node = {
    "type": "object",
    "additionalProperties": False,
    "required": ["scaleTargetRef", "triggers"],
    "properties": {
        "scaleTargetRef": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name"],
            "properties": {"name": _NAME},
        },
        "pollingInterval": {"type": "integer", "minimum": 1},
        "minReplicaCount": {"type": "integer", "minimum": 0},
        "maxReplicaCount": {"type": "integer", "minimum": 1},
        "fallback": {
            "type": "object",
            "additionalProperties": False,
            "required": ["failureThreshold", "replicas"],
            "properties": {
                "failureThreshold": {"type": "integer", "minimum": 1},
                "replicas": {"type": "integer", "minimum": 0},
                "behavior": {"enum": ["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"]},
            },
        },
        "advanced": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"horizontalPodAutoscalerConfig": {"type": "object", "properties": {"behavior": {"type": "object"}}}},
        },
        "triggers": {
            "type": "array",
            "items": {
                "oneOf": [
                    {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["type", "metadata"],
                        "properties": {
                            "type": {"const": "temporal"},
                            "metadata": _TEMPORAL,
                            "authenticationRef": {"type": "object", "required": ["name"], "properties": {"name": _NAME}},
                        },
                    },
                    {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["type", "metricType", "metadata"],
                        "properties": {
                            "type": {"const": "cpu"},
                            "metricType": {"enum": ["Utilization", "AverageValue"]},
                            "metadata": {"type": "object", "required": ["value"], "properties": {"value": _COUNT}},
                        },
                    },
                ]
            },
        },
    },
}
_SECRET_OF_KEDA: Node = {
    "type": "object",
    "additionalProperties": False,
    "required": ["secretTargetRef"],
    "properties": {
        "secretTargetRef": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["parameter", "name", "key"],
                "properties": {
                    "parameter": {"enum": ["apiKey", "ca", "cert", "key", "keyPassword"]},
                    "name": _NAME,
                    "key": {"type": "string"},
                },
            },
        }
    },
}
SPECS = {"ScaledObject": _SCALED, "TriggerAuthentication": _SECRET_OF_KEDA}
"""Of the kinds in keda.sh/v1alpha1, as far as we use them."""


def _of_kind(files: Files) -> dict[str, Node]:
    return {thing["kind"]: thing for thing in documents(files[SCALED])}


def schema(files: Files) -> list[str]:
    """Every object is one that KEDA understands."""
    found = []
    for thing in documents(files[SCALED]):
        if thing["apiVersion"] != "keda.sh/v1alpha1" or thing["kind"] not in SPECS:
            found.append(f"{SCALED}: {thing['kind']} of {thing['apiVersion']} is none of KEDA's")
            continue
        errors = jsonschema.Draft202012Validator(SPECS[thing["kind"]]).iter_errors(thing["spec"])
        found += [f"{SCALED}: {thing['kind']}: {error.json_path}: {error.message[:200]}" for error in errors]
    return found


def overlay(files: Files) -> list[str]:
    """It is the base without the autoscaler that KEDA's own would pull against."""
    kustomization = documents(files[f"{FOLDER}/kustomization.yaml"])[0]
    found = []
    there = {Path(path).name for path in files if path.startswith(f"{FOLDER}/")} - {"kustomization.yaml"} | {"../kubernetes"}
    if {*kustomization["resources"]} != there:
        found.append(f"{FOLDER}: lists {kustomization['resources']}, there are {sorted(there)}")
    if kustomization["images"][0]["newTag"] != project_version():
        found.append(f"{FOLDER}: the image is not version {project_version()}")
    removed = [
        (part["kind"], part["metadata"]["name"]) for patch in kustomization["patches"] for part in documents(patch["patch"])
    ]
    scalers = [("HorizontalPodAutoscaler", name) for name in named(files, "HorizontalPodAutoscaler")]
    if removed != scalers:
        found.append(f"{FOLDER}: removes {removed}, the base scales by {scalers}")
    return found


def backlog(files: Files) -> list[str]:
    """It counts what waits for the very workers that it scales, and shrinks as slowly as the base."""
    found = []
    scaled = _of_kind(files)["ScaledObject"]["spec"]
    configuration = named(files, "ConfigMap")["ratchet"]["data"]
    (base,) = (thing["spec"] for thing in named(files, "HorizontalPodAutoscaler").values())
    queue = Settings.from_environment(environment={"DATABASE_URL": "postgresql://", **configuration}).evaluation_task_queue
    wanted = {
        "endpoint": configuration["TEMPORAL_ADDRESS"],
        "namespace": configuration["TEMPORAL_NAMESPACE"],
        "taskQueue": queue,
        "queueTypes": "activity",
    }
    told: Node = next((trigger["metadata"] for trigger in scaled["triggers"] if trigger["type"] == "temporal"), {})
    found += [
        f"{SCALED}: {name} is {told.get(name)}, must be {value}" for name, value in wanted.items() if told.get(name) != value
    ]
    if scaled["scaleTargetRef"]["name"] != base["scaleTargetRef"]["name"]:
        found.append(f"{SCALED}: scales {scaled['scaleTargetRef']['name']}, the base {base['scaleTargetRef']['name']}")
    if (scaled["minReplicaCount"], scaled["maxReplicaCount"]) != (base["minReplicas"], base["maxReplicas"]):
        found.append(f"{SCALED}: its bounds are not those of the base")
    if scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] != base["behavior"]:
        found.append(f"{SCALED}: shrinks otherwise than the base, and so hands back half-done shards")
    for source in _of_kind(files)["TriggerAuthentication"]["spec"]["secretTargetRef"]:
        if source["key"] not in named(files, "Secret").get(source["name"], {"stringData": {}})["stringData"]:
            found.append(f"{SCALED}: no Secret {source['name']} has {source['key']}")
    return found
