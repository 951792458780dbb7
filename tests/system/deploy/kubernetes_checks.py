"""What must hold for the Kubernetes manifests."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import jsonschema
import kubernetes_validate  # type: ignore[import-untyped]

from activities.settings import HEALTH_FILE
from clients.http import DEFAULT_PORT
from clients.http.app import CLOSING_TAKES_AT_MOST
from tests.system.deploy.reading import (
    IMAGE,
    SECRET,
    Files,
    Node,
    image_findings,
    kustomization,
    objects,
    pods,
    project_version,
    shipped,
    worker_grace,
    workers,
)

VERSIONS = ("1.30.0", "1.37.0")
"""The oldest Kubernetes that the manifests are for, and the newest whose schemas we have."""

ALLOWED_HOSTS = "RATCHET_ALLOWED_HOSTS"
EXAMPLE = "kubernetes/secret.example.yaml"
PLACEHOLDER = re.compile(r"<[a-z]+>")

KUSTOMIZATION_SCHEMA: Node = {
    "type": "object",
    "required": ["apiVersion", "kind", "namespace", "resources", "images"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "kustomize.config.k8s.io/v1beta1"},
        "kind": {"const": "Kustomization"},
        "namespace": {"type": "string"},
        "resources": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "labels": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pairs"],
                "additionalProperties": False,
                "properties": {
                    "pairs": {"type": "object", "additionalProperties": {"type": "string"}},
                    "includeSelectors": {"type": "boolean"},
                    "includeTemplates": {"type": "boolean"},
                },
            },
        },
        "images": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "newTag"],
                "additionalProperties": False,
                "properties": {key: {"type": "string"} for key in ("name", "newName", "newTag", "digest")},
            },
        },
    },
}


def named(files: Files, kind: str) -> dict[str, Node]:
    return {thing["metadata"]["name"]: thing for _, thing in objects(files) if thing["kind"] == kind}


def schema(files: Files) -> list[str]:
    found = []
    for path, thing in objects(files):
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(thing, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                found.append(f"{path}: {thing['kind']}, Kubernetes {version}: {error.message[:200]}")
    validator = jsonschema.Draft202012Validator(KUSTOMIZATION_SCHEMA)
    found += [f"kubernetes/kustomization.yaml: {error.message[:200]}" for error in validator.iter_errors(kustomization(files))]
    return found


def complete(files: Files) -> list[str]:
    """Every manifest is applied, every one that is applied exists, the Secret's example is not."""
    listed = {f"kubernetes/{name}" for name in kustomization(files)["resources"]}
    there = {path for path in files if path.startswith("kubernetes/") and Path(path).name != "kustomization.yaml"}
    found = [f"kustomization.yaml: {path} does not exist" for path in sorted(listed - there)]
    found += [f"kustomization.yaml: does not list {path}" for path in sorted(there - listed - {EXAMPLE})]
    if kustomization(files)["namespace"] not in named(files, "Namespace"):
        found.append("kustomization.yaml: the namespace is not one of the manifests")
    identities = [(thing["kind"], thing["metadata"]["name"]) for _, thing in objects(files)]
    found += [
        f"kubernetes: twice {kind} {name}" for kind, name in sorted(set(identities)) if identities.count((kind, name)) > 1
    ]
    return found


def images(files: Files) -> list[str]:
    """One place says which image: kustomization.yaml, and it is this version."""
    found = []
    replaced = {entry["name"]: entry for entry in kustomization(files)["images"]}
    for where, _, container in pods(files):
        entry = replaced.get(container["image"])
        if entry is None:
            found.append(f"{where}: image {container['image']} is not pinned by kustomization.yaml")
            continue
        found += image_findings(where, f"{entry.get('newName', entry['name'])}:{entry['newTag']}")
        if entry["newTag"] != project_version():
            found.append(f"kustomization.yaml: {IMAGE} {entry['newTag']} is not version {project_version()}")
    return found


def isolation(files: Files) -> list[str]:
    """What the restricted pod security standard asks for, and a read-only root filesystem."""
    found = []
    user, _, group = dict(shipped(files))["USER"].partition(":")
    for where, template, container in pods(files):
        pod, own = template["spec"].get("securityContext", {}), container.get("securityContext", {})
        wanted = {
            "runAsNonRoot": (pod.get("runAsNonRoot"), True),
            "runAsUser, as the image has it": (str(pod.get("runAsUser")), user),
            "runAsGroup, as the image has it": (str(pod.get("runAsGroup")), group),
            "seccompProfile": (pod.get("seccompProfile", {}).get("type"), "RuntimeDefault"),
            "allowPrivilegeEscalation": (own.get("allowPrivilegeEscalation"), False),
            "readOnlyRootFilesystem": (own.get("readOnlyRootFilesystem"), True),
            "capabilities": (own.get("capabilities"), {"drop": ["ALL"]}),
            "automountServiceAccountToken": (template["spec"].get("automountServiceAccountToken"), False),
        }
        found += [f"{where}: {what} is {given}, must be {must}" for what, (given, must) in wanted.items() if given != must]
        if len(template["spec"]["containers"]) != 1 or "initContainers" in template["spec"]:
            found.append(f"{where}: has containers that these checks do not look at")
        if "/tmp" not in {mount["mountPath"] for mount in container.get("volumeMounts", [])}:
            found.append(f"{where}: nowhere to write, not even /tmp")
        resources = container.get("resources", {})
        if not {"cpu", "memory"} <= resources.get("requests", {}).keys() or "memory" not in resources.get("limits", {}):
            found.append(f"{where}: no resources")
    if named(files, "Namespace")["ratchet"]["metadata"]["labels"].get("pod-security.kubernetes.io/enforce") != "restricted":
        found.append("Namespace: does not enforce the restricted pod security standard")
    return found


def references(files: Files) -> list[str]:
    """Names and selectors meet what they mean."""
    found = []
    example = {thing["metadata"]["name"] for path, thing in objects(files) if path == EXAMPLE}
    for where, template, container in pods(files):
        spec = template["spec"]
        if spec["serviceAccountName"] not in named(files, "ServiceAccount"):
            found.append(f"{where}: no ServiceAccount {spec['serviceAccountName']}")
        for source in container["envFrom"]:
            if "configMapRef" in source and source["configMapRef"]["name"] not in named(files, "ConfigMap"):
                found.append(f"{where}: no ConfigMap {source['configMapRef']['name']}")
            if "secretRef" in source and source["secretRef"]["name"] not in example:
                found.append(f"{where}: no example of Secret {source['secretRef']['name']}")
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        if mounted != {volume["name"] for volume in spec["volumes"]}:
            found.append(f"{where}: volumes and mounts differ")
        selected = [
            policy
            for policy in named(files, "NetworkPolicy").values()
            if policy["spec"]["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        ]
        if not selected:
            found.append(f"{where}: no NetworkPolicy applies")
    deployments = named(files, "Deployment")
    for name, deployment in deployments.items():
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        selectors = {"its own selector": deployment["spec"]["selector"]["matchLabels"]}
        budget = named(files, "PodDisruptionBudget").get(name)
        selectors["PodDisruptionBudget"] = budget["spec"]["selector"]["matchLabels"] if budget else {"": "missing"}
        for spread in deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]:
            selectors["topologySpreadConstraints"] = spread["labelSelector"]["matchLabels"]
        for what, selector in selectors.items():
            if selector != labels:
                found.append(f"Deployment {name}: {what} does not select exactly its pods")
    for name, service in named(files, "Service").items():
        served = [
            {port["name"] for port in container["ports"]}
            for _, template, container in pods(files)
            if service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        ]
        if len(served) != 1 or not {port["targetPort"] for port in service["spec"]["ports"]} <= served[0]:
            found.append(f"Service {name}: leads to no port of one Deployment")
        if f"{name}.{kustomization(files)['namespace']}.svc" not in named(files, "ConfigMap")["ratchet"]["data"][ALLOWED_HOSTS]:
            found.append(f"Service {name}: is not among the names that {ALLOWED_HOSTS} admits")
    for name, scaler in named(files, "HorizontalPodAutoscaler").items():
        target = deployments.get(scaler["spec"]["scaleTargetRef"]["name"])
        if target is None:
            found.append(f"HorizontalPodAutoscaler {name}: scales nothing")
        elif "replicas" in target["spec"]:
            found.append(f"Deployment {name}: replicas would undo what the autoscaler did")
    return found


def stopping(files: Files) -> list[str]:
    """Workers get longer to stop than they need to drain, and no probe kills them in an outage they could sit out."""
    found = []
    for where, template, container in workers(files):
        grace, drain = template["spec"].get("terminationGracePeriodSeconds", 30), worker_grace(container["args"])
        if grace <= drain:
            found.append(f"{where}: is killed after {grace} s, drains for {drain:.0f} s")
        for probe in ("livenessProbe", "startupProbe"):
            if probe in container:
                found.append(f"{where}: a {probe} would kill workers, and the answers they hold, in an outage")
        ready = container.get("readinessProbe")
        if ready is None:
            found.append(f"{where}: no readinessProbe")
        elif ready.get("timeoutSeconds", 1) < 10 or ready["periodSeconds"] <= ready["timeoutSeconds"]:
            found.append(f"{where}: the probe starts Python; give it 10 s, and less than its period")
        if template["spec"].get("shareProcessNamespace") is not True:
            found.append(f"{where}: nobody reaps what isolated targets leave behind")
    if not dict(_environment_of_image(files)).get(HEALTH_FILE, "").startswith("/tmp/"):
        found.append(f"Dockerfile: without {HEALTH_FILE} in /tmp no probe sees a worker drain")
    return found


def _environment_of_image(files: Files) -> list[tuple[str, str]]:
    told = " ".join(rest for instruction, rest in shipped(files) if instruction == "ENV")
    return [(name, value) for name, _, value in (part.partition("=") for part in told.split())]


def answering(files: Files) -> list[str]:
    """Who answers is asked where it listens, by a name that it goes by, and goes on until nobody is sent to it any more."""
    found = []
    served = {where for where, _, _ in pods(files)} - {where for where, _, _ in workers(files)}
    for where, template, container in pods(files):
        if where not in served or not where.startswith("Deployment"):
            continue
        port = int(container["args"][container["args"].index("--port") + 1])
        if {"name": "http", "containerPort": port} not in container["ports"]:
            found.append(f"{where}: listens on {port}, and names another port")
        for probe in ("readinessProbe", "livenessProbe"):
            asked = container.get(probe, {}).get("httpGet", {})
            if (asked.get("path"), asked.get("port")) != ("/health", "http"):
                found.append(f"{where}: its {probe} does not ask /health at its port")
            if asked.get("httpHeaders") != [{"name": "Host", "value": "localhost"}]:
                found.append(f"{where}: its {probe} calls it by the pod's address, which it refuses")
        stays = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        grace = template["spec"].get("terminationGracePeriodSeconds", 30)
        if not stays or grace <= stays + CLOSING_TAKES_AT_MOST:
            found.append(f"{where}: is sent requests while it stops: stays for {stays} s, is killed after {grace} s")
        ready = container.get("readinessProbe", {})
        if ready.get("periodSeconds", 10) > max(stays, 1):
            found.append(f"{where}: is asked too seldom whether it drains")
    return found


def secrets(files: Files) -> list[str]:
    """The Secret is only ever an example, and nothing else holds one."""
    found = []
    for path, thing in objects(files):
        if thing["kind"] == "Secret" and path != EXAMPLE:
            found.append(f"{path}: a Secret in git")
        for key, value in (thing.get("stringData") or {}).items():
            if not PLACEHOLDER.search(urlsplit(value).password or "" if "://" in value else value):
                found.append(f"{path}: {key} is not a placeholder")
        if thing["kind"] == "Secret" and "data" in thing:
            found.append(f"{path}: encoded data cannot be told from a secret")
        if thing["kind"] == "ConfigMap":
            found += [f"{path}: {key} belongs into the Secret" for key in thing["data"] if SECRET.search(key)]
    found += [f"{where}: writes out its environment" for where, _, container in pods(files) if "env" in container]
    return found


def metrics_port(files: Files) -> int:
    """Where workers show their metrics."""
    return int(named(files, "ConfigMap")["ratchet"]["data"]["RATCHET_METRICS"].rpartition(":")[2])


def metrics(files: Files) -> list[str]:
    """What reads metrics finds every worker at the port that it shows them at."""
    found = []
    port = metrics_port(files)
    for where, template, container in pods(files):
        if not where.startswith("Deployment"):
            continue
        told = template["metadata"].get("annotations", {})
        if (told.get("prometheus.io/scrape"), told.get("prometheus.io/port")) != ("true", str(port)):
            found.append(f"{where}: its annotations do not lead to its metrics")
        if {"name": "metrics", "containerPort": port} not in container.get("ports", []):
            found.append(f"{where}: does not name the port of its metrics")
    return found


def egress(files: Files) -> list[str]:
    """The network policy lets through what the configuration names, and no private address but those ports."""
    found = []
    configuration = named(files, "ConfigMap")["ratchet"]["data"]
    database = urlsplit(named(files, "Secret")["ratchet"]["stringData"]["DATABASE_URL"])
    needed = {53, 443, int(configuration["TEMPORAL_ADDRESS"].rpartition(":")[2]), int(database.netloc.rpartition(":")[2])}
    for name, policy in named(files, "NetworkPolicy").items():
        is_of_serve = policy["spec"]["podSelector"]["matchLabels"].get("app.kubernetes.io/component") == "serve"
        if policy["spec"]["policyTypes"] != (["Ingress"] if is_of_serve else ["Ingress", "Egress"]):
            found.append(f"NetworkPolicy {name}: does not close both directions")
        for rule in policy["spec"]["ingress"]:
            selected = [peer.get("namespaceSelector", {}).get("matchLabels") for peer in rule.get("from", [])]
            if not selected or not all(isinstance(labels, dict) and labels for labels in selected):
                found.append(f"NetworkPolicy {name}: lets in whoever asks")
            if [port["port"] for port in rule.get("ports", [])] != [DEFAULT_PORT if is_of_serve else metrics_port(files)]:
                found.append(f"NetworkPolicy {name}: lets in more than what reads {'the page' if is_of_serve else 'metrics'}")
        if is_of_serve:
            continue
        allowed = {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}
        if allowed != needed:
            found.append(f"NetworkPolicy {name}: allows {sorted(allowed)}, needed are {sorted(needed)}")
        for rule in policy["spec"]["egress"]:
            blocks = [peer["ipBlock"] for peer in rule.get("to", []) if "ipBlock" in peer]
            if any("169.254.0.0/16" not in block.get("except", []) for block in blocks):
                found.append(f"NetworkPolicy {name}: a spec could ask the node's metadata address")
    return found
