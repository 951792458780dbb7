"""deploy/ is checked without a container engine: what it says must hold, and each check must notice when it does not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from tests.system.deploy import agreement_checks as agreement
from tests.system.deploy import compose_checks as compose
from tests.system.deploy import controller_checks as controller
from tests.system.deploy import image_checks as image
from tests.system.deploy import kubernetes_checks as kubernetes
from tests.system.deploy import scaling_checks as scaling
from tests.system.deploy.reading import (
    ROOT,
    Check,
    project_version,
    read_by_code,
    read_by_source,
    read_by_temporal,
    read_deploy,
    worker_grace,
    yaml_findings,
)

CHECKS: tuple[Check, ...] = (
    yaml_findings,
    *(image.bases, image.copies, image.installs, image.parts, image.runtime, image.dynamic_config),
    *(compose.schema, compose.images, compose.isolation, compose.publishing, compose.addresses),
    *(compose.order, compose.stopping, compose.references, compose.secrets),
    *(kubernetes.schema, kubernetes.complete, kubernetes.images, kubernetes.isolation, kubernetes.references),
    *(kubernetes.stopping, kubernetes.answering, kubernetes.secrets, kubernetes.egress, kubernetes.metrics),
    *(controller.schema, controller.overlay, controller.workers),
    *(scaling.schema, scaling.overlay, scaling.backlog),
    *(agreement.variables, agreement.commands, agreement.hosts, agreement.readme),
)

DOCKERFILE, STEPS, COMPOSE, ENV, README = "Dockerfile", "build_image.sh", "compose.yaml", ".env.example", "README.md"
WORKER, EVALUATION, SETUP, SERVE = (f"kubernetes/{name}.yaml" for name in ("worker", "evaluation-worker", "setup-job", "serve"))
SCALED, BACKLOG = (f"backlog-scaling/{name}.yaml" for name in ("scaled-object", "kustomization"))
POLICY, SECRET, CONFIG, KUSTOMIZATION = (
    f"kubernetes/{name}.yaml" for name in ("network-policy", "secret.example", "config", "kustomization")
)
CONNECTION, VERSIONS, OVERLAY = (
    f"worker-controller/{name}.yaml" for name in ("connection", "worker-deployment", "kustomization")
)
RUN_STAGE = "FROM python:3.11.14-slim-bookworm AS run"

MUTATIONS: tuple[tuple[Check, str, str, str, str], ...] = (
    # the check, the file, what is there, what comes instead, what the check must say
    (yaml_findings, COMPOSE, "services:\n", "services: [\n", "compose.yaml"),
    (yaml_findings, CONFIG, "kind: ConfigMap", "kind: ConfigMap\nkind: ConfigMap", "twice the same key"),
    (image.bases, DOCKERFILE, "3.11.14-slim-bookworm AS run", "latest AS run", "not pinned"),
    (image.bases, DOCKERFILE, RUN_STAGE, "FROM python:3.10.1-slim AS run", "requires-python"),
    (image.bases, DOCKERFILE, RUN_STAGE, "FROM python:3.12.1-slim AS run", "different bases"),
    (image.bases, DOCKERFILE, RUN_STAGE, "FROM mirror.example:5000/python:3.11.14 AS run", "names a registry host"),
    (image.copies, DOCKERFILE, "COPY ratchet ratchet", "COPY rachet rachet", "rachet does not exist"),
    (image.copies, DOCKERFILE, "COPY ratchet ratchet\n", "", "ratchet is part of the wheel but not copied"),
    (image.copies, DOCKERFILE, "--from=wheel", "--from=wheels", "no stage wheels"),
    (image.copies, "Dockerfile.dockerignore", "!clients\n", "", "clients is ignored"),
    (image.copies, "Dockerfile.dockerignore", "!clients\n", "!clients\n!tests\n", "tests is sent but not used"),
    (image.copies, "Dockerfile.dockerignore", "\n*\n", "\n", "does not ignore everything else"),
    (image.installs, STEPS, "--require-hashes --only-binary :all: --requirement", "--requirement", "hashes"),
    (image.installs, STEPS, "--no-deps --no-index wheels", "wheels", "hashes"),
    (image.installs, STEPS, "set -eu", "set -eu\napt-get update", "in no lock"),
    (image.installs, DOCKERFILE, "RUN sh deploy/build_image.sh wheel", "RUN pip wheel .", "no step of build_image.sh"),
    (image.installs, DOCKERFILE, "build_image.sh packages full", "build_image.sh packages all", "no step of build_image.sh"),
    (image.parts, DOCKERFILE, "FROM all-packages AS full-build", "FROM packages AS full-build", "the images are made of"),
    (image.parts, DOCKERFILE, "FROM packages AS lean-build", "FROM all-packages AS lean-build", "the images are made of"),
    (image.runtime, DOCKERFILE, "USER 10001:10001", "USER ratchet", "USER must be a number"),
    (image.runtime, DOCKERFILE, "USER 10001:10001", "USER 0:0", "USER must be a number"),
    (image.runtime, DOCKERFILE, 'ENTRYPOINT ["ratchet", "worker"]', "ENTRYPOINT ratchet worker", "exec form"),
    (image.runtime, DOCKERFILE, 'CMD ["ratchet", "worker", "--check-health"]', "CMD ratchet worker", "HEALTHCHECK"),
    (image.runtime, DOCKERFILE, "STOPSIGNAL SIGTERM", "STOPSIGNAL SIGKILL", "STOPSIGNAL"),
    (image.runtime, DOCKERFILE, 'version="0.1.0"', 'version="9.9.9"', "version label"),
    (image.runtime, DOCKERFILE, "PYTHONUNBUFFERED=1", "PYTHONUNBUFFERED=", "PYTHONUNBUFFERED"),
    (image.runtime, DOCKERFILE, "WORKDIR /data", "WORKDIR /data\nRUN true", "build stage"),
    (image.dynamic_config, "temporal/dynamicconfig.yaml", "value: 500", "value: 501", "embedded server"),
    (image.dynamic_config, "temporal/dynamicconfig.yaml", "history.timer", "history.tmer", "embedded server"),
    (compose.schema, COMPOSE, "stop_grace_period: 30s", "stop_grace_time: 30s", "stop_grace_time"),
    (compose.schema, COMPOSE, "internal: true", "internal: [1]", "internal"),
    (compose.images, COMPOSE, "temporalio/ui:2.49.1", "temporalio/ui:latest", "not pinned"),
    (compose.images, COMPOSE, "temporalio/ui:2.49.1", "temporalio/ui", "not pinned"),
    (compose.images, COMPOSE, "temporalio/ui:2.49.1", "ghcr.example/temporalio/ui:2.49.1", "registry host"),
    (compose.images, COMPOSE, "image: ratchet:0.1.0", "image: ratchet:0.0.9", "is not version"),
    (compose.isolation, COMPOSE, 'user: "5000:5000"', 'user: "0:0"', "temporal-ui: runs as 0:0"),
    (compose.isolation, COMPOSE, '    user: "999:999"\n    cap_drop: [ALL]', "    cap_drop: [ALL]", "store: runs as None"),
    (compose.isolation, COMPOSE, "cap_drop: [ALL]", "cap_drop: [NET_RAW]", "keeps privileges"),
    (compose.isolation, COMPOSE, "  read_only: true\n  tmpfs", "  tmpfs", "read-only"),
    (compose.isolation, COMPOSE, 'user: "10001:10001"', 'user: "10002:10002"', "not the image's"),
    (compose.publishing, COMPOSE, "127.0.0.1:7233:7233", "7233:7233", "beyond loopback"),
    (compose.publishing, COMPOSE, "127.0.0.1:8080:8080", "127.0.0.1:8080:8081", "nobody listens"),
    (
        compose.addresses,
        COMPOSE,
        "TEMPORAL_ADDRESS: temporal:7233\n  TEMPORAL_N",
        "TEMPORAL_ADDRESS: t:7233\n  TEMPORAL_N",
        "called t",
    ),
    (compose.addresses, COMPOSE, "@store:5432/", "@store:5433/", "store does not listen on 5433"),
    (compose.addresses, COMPOSE, "networks: [ratchet, temporal-store]", "networks: [ratchet]", "shares no network"),
    (compose.addresses, COMPOSE, '"127.0.0.1", "7233"]', '"127.0.0.1", "7234"]', "healthcheck does not ask"),
    (compose.addresses, COMPOSE, 'TEMPORAL_UI_PORT: "8080"', 'TEMPORAL_UI_PORT: "8088"', "UI listens elsewhere"),
    (compose.order, COMPOSE, "temporal-schema: {condition", "temporal-scheme: {condition", "which is not there"),
    (compose.order, COMPOSE, "    healthcheck: *postgres-healthcheck\n", "", "has no check"),
    (compose.order, COMPOSE, "restart: on-failure:5\n    environment", "restart: always\n    environment", "never ends"),
    (compose.order, COMPOSE, "    setup: {condition: service_completed_successfully}\n", "", "wait for the schema"),
    (compose.order, COMPOSE, "  restart: unless-stopped\n  stop_grace", "  stop_grace", "no restart policy"),
    (compose.stopping, COMPOSE, "stop_grace_period: 60s # the", "stop_grace_period: 30s # the", "is killed after 30 s"),
    (compose.stopping, COMPOSE, "stop_grace_period: 60s # the worker drains for 30 s", "", "is killed after 10 s"),
    (compose.stopping, COMPOSE, '["--role", "workflows"]', '["--grace", "90"]', "drains for 90 s"),
    (compose.stopping, COMPOSE, "  init: true", "  init: false", "no init"),
    (compose.references, COMPOSE, "dockerfile: deploy/Dockerfile", "dockerfile: Dockerfile", "does not exist"),
    (compose.references, COMPOSE, "source: ./plugins", "source: ./plugin", "./plugin does not exist"),
    (compose.references, COMPOSE, '"store:/var', '"stores:/var', "volume stores is not declared"),
    (compose.references, COMPOSE, '"store:/var/lib/postgresql"', '"store:/var/lib/postgresql/data"', "keeps its data"),
    (compose.references, COMPOSE, "/setup/schema.sh", "/setup/schemas.sh", "temporal/schemas.sh does not exist"),
    (compose.references, COMPOSE, "networks: [temporal-store]", "networks: [temporal]", "network temporal is not declared"),
    (compose.publishing, COMPOSE, 'entrypoint: ["ratchet", "serve"]', 'entrypoint: ["ratchet", "worker"]', "answers nobody"),
    (compose.addresses, COMPOSE, "7373/health", "7374/health", "ask its own port"),
    (compose.secrets, COMPOSE, "ratchet:${STORE_PASSWORD:?set it in deploy/.env}@", "ratchet:hunter2@", "written out"),
    (compose.secrets, COMPOSE, "${OPENAI_API_KEY:-}", "sk-123", "OPENAI_API_KEY is written out"),
    (
        compose.secrets,
        COMPOSE,
        "POSTGRES_PASSWORD: ${STORE_PASSWORD:?",
        "POSTGRES_PASSWORD: ${STORE_PASSWORD:-",
        "may be empty",
    ),
    (compose.secrets, ENV, "OPENAI_API_KEY=", "OPENAI_API_KEY=sk-123", "has a value"),
    (compose.secrets, ENV, "RATCHET_PLUGINS=\n", "", "lacks RATCHET_PLUGINS"),
    (compose.secrets, ENV, "STORE_PASSWORD=\n", "STORE_PASSWORD=\nSTORE_USER=\n", "STORE_USER is not used"),
    (compose.secrets, ".gitignore", ".env\n", "", "would be committed"),
    (kubernetes.schema, WORKER, "revisionHistoryLimit: 3", "revisionHistoryLimit: three", "three"),
    (kubernetes.schema, WORKER, "revisionHistoryLimit: 3", "revisionHistory: 3", "revisionHistory"),
    (kubernetes.schema, EVALUATION, "minReplicas", "leastReplicas", "leastReplicas"),
    (kubernetes.schema, KUSTOMIZATION, "newTag", "tag", "tag"),
    (kubernetes.complete, KUSTOMIZATION, "  - worker.yaml\n", "", "does not list kubernetes/worker.yaml"),
    (kubernetes.complete, KUSTOMIZATION, "  - worker.yaml", "  - workers.yaml", "workers.yaml does not exist"),
    (kubernetes.complete, KUSTOMIZATION, "namespace: ratchet", "namespace: default", "namespace is not one"),
    (
        kubernetes.complete,
        EVALUATION,
        "kind: Deployment\nmetadata:\n  name: evaluation-",
        "kind: Deployment\nmetadata:\n  name: ",
        "twice",
    ),
    (kubernetes.images, SETUP, "image: ratchet", "image: ratchet:latest", "not pinned by kustomization.yaml"),
    (kubernetes.images, KUSTOMIZATION, "newTag: 0.1.0", "newTag: latest", "not pinned to a release"),
    (kubernetes.images, KUSTOMIZATION, "newTag: 0.1.0", "newTag: 0.0.9", "is not version"),
    (kubernetes.images, KUSTOMIZATION, "newName: ratchet", "newName: images.example/ratchet", "registry host"),
    (kubernetes.isolation, SETUP, "runAsNonRoot: true", "runAsNonRoot: false", "runAsNonRoot"),
    (kubernetes.isolation, WORKER, "runAsUser: 10001", "runAsUser: 0", "runAsUser"),
    (kubernetes.isolation, WORKER, "type: RuntimeDefault", "type: Unconfined", "seccompProfile"),
    (kubernetes.isolation, WORKER, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "readOnlyRootFilesystem"),
    (kubernetes.isolation, WORKER, "drop: [ALL]", "drop: [NET_RAW]", "capabilities"),
    (kubernetes.isolation, WORKER, "allowPrivilegeEscalation: false", "privileged: true", "allowPrivilegeEscalation"),
    (
        kubernetes.isolation,
        WORKER,
        "automountServiceAccountToken: false",
        "automountServiceAccountToken: true",
        "automountServiceAccountToken",
    ),
    (kubernetes.isolation, WORKER, "mountPath: /tmp", "mountPath: /temp", "not even /tmp"),
    (kubernetes.isolation, WORKER, "limits: {memory: 1Gi}", "limits: {}", "no resources"),
    (kubernetes.isolation, "kubernetes/namespace.yaml", "restricted", "privileged", "restricted"),
    (kubernetes.references, SETUP, "configMapRef: {name: ratchet}", "configMapRef: {name: ratchets}", "no ConfigMap"),
    (kubernetes.references, SETUP, "secretRef: {name: ratchet}", "secretRef: {name: ratchets}", "no example of Secret"),
    (kubernetes.references, SETUP, "serviceAccountName: ratchet", "serviceAccountName: root", "no ServiceAccount"),
    (kubernetes.references, SETUP, "{name: tmp, mountPath", "{name: temp, mountPath", "volumes and mounts"),
    (kubernetes.references, POLICY, "app.kubernetes.io/name: ratchet", "app.kubernetes.io/name: rachet", "no NetworkPolicy"),
    (
        kubernetes.references,
        WORKER,
        "kind: PodDisruptionBudget\nmetadata:\n  name: worker",
        "kind: PodDisruptionBudget\nmetadata:\n  name: w",
        "does not select",
    ),
    (
        kubernetes.references,
        WORKER,
        "    matchLabels:\n      app.kubernetes.io/name: ratchet",
        "    matchLabels:\n      app.kubernetes.io/name: r",
        "selector",
    ),
    (
        kubernetes.references,
        EVALUATION,
        "    kind: Deployment\n    name: evaluation-worker",
        "    kind: Deployment\n    name: e",
        "scales nothing",
    ),
    (
        kubernetes.references,
        EVALUATION,
        "  revisionHistoryLimit",
        "  replicas: 2\n  revisionHistoryLimit",
        "undo what the autoscaler",
    ),
    (
        kubernetes.stopping,
        WORKER,
        "terminationGracePeriodSeconds: 60",
        "terminationGracePeriodSeconds: 30",
        "is killed after 30 s",
    ),
    (kubernetes.stopping, WORKER, '["--role", "workflows"]', '["--grace", "75"]', "drains for 75 s"),
    (kubernetes.stopping, WORKER, "readinessProbe:", "livenessProbe:", "a livenessProbe would kill"),
    (kubernetes.stopping, WORKER, "timeoutSeconds: 15", "timeoutSeconds: 1", "starts Python"),
    (kubernetes.stopping, WORKER, "shareProcessNamespace: true", "shareProcessNamespace: false", "reaps"),
    (kubernetes.stopping, DOCKERFILE, "RATCHET_HEALTH_FILE=/tmp/", "RATCHET_HEALTH_FILE=/data/", "sees a worker drain"),
    (kubernetes.answering, SERVE, '"--port", "7373"', '"--port", "7374"', "names another port"),
    (kubernetes.answering, SERVE, "path: /health", "path: /healthz", "does not ask /health"),
    (kubernetes.answering, SERVE, ", httpHeaders: [{name: Host, value: localhost}]", "", "which it refuses"),
    (kubernetes.answering, SERVE, "{seconds: 5}", "{seconds: 0}", "sent requests while it stops"),
    (kubernetes.answering, SERVE, "            periodSeconds: 5\n", "            periodSeconds: 30\n", "too seldom"),
    (kubernetes.references, SERVE, "targetPort: http", "targetPort: https", "leads to no port"),
    (kubernetes.references, CONFIG, "serve.ratchet.svc", "ratchet.svc", "is not among the names"),
    (kubernetes.egress, SERVE, "port: 7373}\n", "port: 80}\n", "more than what reads the page"),
    (kubernetes.secrets, SECRET, "OPENAI_API_KEY: <key>", "OPENAI_API_KEY: sk-123", "not a placeholder"),
    (kubernetes.secrets, SECRET, "ratchet:<password>@", "ratchet:hunter2@", "not a placeholder"),
    (kubernetes.secrets, CONFIG, "kind: ConfigMap", "kind: Secret", "a Secret in git"),
    (kubernetes.secrets, SECRET, "stringData:", "data:", "encoded data"),
    (kubernetes.secrets, CONFIG, 'OPENAI_BASE_URL: ""', 'OPENAI_API_KEY: ""', "belongs into the Secret"),
    (kubernetes.secrets, SETUP, "          envFrom:", "          env: [{name: A, value: b}]\n          envFrom:", "writes out"),
    (kubernetes.egress, POLICY, "port: 7233", "port: 7234", "needed are"),
    (kubernetes.egress, SECRET, ":5432/", ":6432/", "needed are"),
    (kubernetes.egress, POLICY, "169.254.0.0/16, ", "", "metadata address"),
    (kubernetes.egress, POLICY, "[Ingress, Egress]", "[Egress]", "both directions"),
    (kubernetes.egress, POLICY, "port: 9464", "port: 9465", "more than what reads metrics"),
    (kubernetes.egress, POLICY, "kubernetes.io/metadata.name: monitoring", "{}", "whoever asks"),
    (kubernetes.metrics, WORKER, 'prometheus.io/port: "9464"', 'prometheus.io/port: "9090"', "do not lead to its metrics"),
    (kubernetes.metrics, EVALUATION, "containerPort: 9464", "containerPort: 9090", "does not name the port"),
    (kubernetes.metrics, CONFIG, "0.0.0.0:9464", "0.0.0.0:9000", "do not lead to its metrics"),
    (controller.schema, CONNECTION, "hostPort: temporal", "hostPort: grpc://temporal", "does not match"),
    (controller.schema, CONNECTION, "kind: Connection", "kind: TemporalConnection", "none of the controller's"),
    (controller.schema, VERSIONS, "strategy: AllAtOnce", "strategy: Sometimes", "is not one of"),
    (controller.schema, VERSIONS, "scaledownDelay: 1h", "scaledownDelay: soon", "does not match"),
    (controller.overlay, OVERLAY, "  - connection.yaml\n", "", "lists"),
    (controller.overlay, OVERLAY, "newTag: 0.1.0", "newTag: 0.0.9", "is not version"),
    (controller.overlay, OVERLAY, "kind: HorizontalPodAutoscaler", "kind: Autoscaler", "the base has"),
    (controller.workers, VERSIONS, "runAsUser: 10001", "runAsUser: 0", "securityContext is"),
    (controller.workers, VERSIONS, "limits: {memory: 2Gi}", "limits: {}", "resources of the container"),
    (controller.workers, VERSIONS, '["--role", "all"]', '["--role", "workflows"]', "leaves a part to workers of another"),
    (
        controller.workers,
        VERSIONS,
        "temporalWorkerDeploymentRef: {name: ratchet}",
        "temporalWorkerDeploymentRef: {name: r}",
        "scales no",
    ),
    (controller.workers, VERSIONS, "connectionRef: {name: ratchet}", "connectionRef: {name: r}", "names no Connection"),
    (scaling.schema, SCALED, "taskQueue:", "queue:", "triggers[0]"),
    (scaling.schema, SCALED, "kind: TriggerAuthentication", "kind: Authentication", "none of KEDA's"),
    (scaling.overlay, BACKLOG, "  - scaled-object.yaml\n", "", "lists"),
    (scaling.overlay, BACKLOG, "kind: HorizontalPodAutoscaler", "kind: Autoscaler", "the base scales by"),
    (scaling.backlog, SCALED, "taskQueue: optimization-evaluation", "taskQueue: optimization", "taskQueue is optimization,"),
    (scaling.backlog, CONFIG, "RATCHET_TASK_QUEUE: optimization", "RATCHET_TASK_QUEUE: o", "must be o-evaluation"),
    (scaling.backlog, SCALED, "queueTypes: activity", "queueTypes: workflow", "queueTypes is workflow"),
    (scaling.backlog, SCALED, "{name: evaluation-worker}", "{name: worker}", "scales worker"),
    (scaling.backlog, SCALED, "maxReplicaCount: 10", "maxReplicaCount: 100", "bounds"),
    (scaling.backlog, SCALED, "value: 1, periodSeconds: 120", "value: 4, periodSeconds: 120", "half-done shards"),
    (scaling.backlog, SCALED, "key: TEMPORAL_API_KEY", "key: API_KEY", "no Secret ratchet has API_KEY"),
    (agreement.variables, COMPOSE, "RATCHET_PLUGIN_PATH", "RATCHET_PLUGINS_PATH", "nobody there reads RATCHET_PLUGINS_PATH"),
    (agreement.variables, COMPOSE, "NUM_HISTORY_SHARDS", "HISTORY_SHARDS", "nobody there reads HISTORY_SHARDS"),
    (agreement.variables, COMPOSE, "TEMPORAL_NAMESPACE: $", "TEMPORAL_NAME_SPACE: $", "reads TEMPORAL_NAME_SPACE"),
    (agreement.variables, CONFIG, "TEMPORAL_ADDRESS", "TEMPORAL_HOST", "nobody reads TEMPORAL_HOST"),
    (agreement.variables, SECRET, "TEMPORAL_API_KEY", "TEMPORAL_KEY", "nobody reads TEMPORAL_KEY"),
    (agreement.variables, DOCKERFILE, "RATCHET_DATA_DIR", "RATCHET_DATA", "nobody reads RATCHET_DATA"),
    (agreement.variables, ENV, "RATCHET_MODEL_URLS=", "RATCHET_MODEL_URL=", "nobody reads RATCHET_MODEL_URL"),
    (agreement.variables, README, "`RATCHET_PLUGINS`", "`RATCHET_PLUGIN`", "nobody reads RATCHET_PLUGIN"),
    (agreement.commands, COMPOSE, '["--setup"]', '["--set-up"]', "No such option"),
    (agreement.commands, COMPOSE, '"evaluation"]', '"evaluator"]', "is unknown"),
    (agreement.commands, WORKER, "--check-health", "--health", "No such option"),
    (agreement.commands, SETUP, 'args: ["--setup"]', 'command: ["ratchet", "setup"]', "starts neither worker nor server"),
    (agreement.commands, SERVE, '"--host"', '"--address"', "No such option"),
    (agreement.commands, DOCKERFILE, '"worker", "--check-health"]', '"worker", "--healthy"]', "No such option"),
    (agreement.commands, README, "worker --role workflows`", "worker --roles workflow`", "README.md"),
    (agreement.hosts, STEPS, "--require-hashes", "--index-url x --require-hashes", "names a host"),
    (agreement.hosts, COMPOSE, "temporalio/ui", "docker.io/temporalio/ui", "names a host"),
    (agreement.hosts, README, "## Backups", "## Backups https://example.org", "names a host"),
    (agreement.readme, README, "deploy/plugins", "deploy/extensions", "deploy/extensions does not exist"),
    (agreement.readme, README, "`config.yaml`", "`settings.yaml`", "settings.yaml does not exist"),
    (agreement.readme, README, "--scale evaluation-worker=", "--scale evaluator=", "no service evaluator"),
    (agreement.readme, README, "job/ratchet-setup", "job/ratchet-set-up", "no Job ratchet-set-up"),
    (agreement.readme, README, "component in (shared, setup)", "component in (common, setup)", "labelled common"),
)


@pytest.fixture(scope="module")
def files() -> Mapping[str, str]:
    return read_deploy()


def _name(check: Check) -> str:
    return f"{check.__module__.rpartition('.')[2].removesuffix('_checks')}.{check.__name__}"


@pytest.mark.parametrize("check", CHECKS, ids=_name)
def test_holds(check: Check, files: Mapping[str, str]) -> None:
    assert check(files) == []


@pytest.mark.parametrize(
    ("check", "path", "there", "instead", "said"), MUTATIONS, ids=lambda part: _name(part) if callable(part) else ""
)
def test_notices(check: Check, path: str, there: str, instead: str, said: str, files: Mapping[str, str]) -> None:
    assert there in files[path], f"{path} has changed; so must this test"
    found = check({**files, path: files[path].replace(there, instead)})
    assert any(said in finding for finding in found), found


def test_every_check_has_been_seen_to_fail() -> None:
    assert {check for check, *_ in MUTATIONS} == set(CHECKS)


def test_variables_are_found_however_they_are_read() -> None:
    asked = ('os.environ["A"]', 'os.environ.get("B", "")', 'os.getenv("C")', 'self._environment.get("D")')
    others = ('settings.get("E")', "os.environ.get(F)", "os.environ[F]", "print(os.environ)")
    source = "\n".join((*asked, *others))
    assert set(read_by_source(source)) == {"A", "B", "C", "D"}
    assert {"DATABASE_URL", "OPENAI_API_KEY", "RATCHET_LOG"} <= read_by_code()


def test_temporal_itself_says_which_variables_it_reads() -> None:
    assert all(
        read_by_temporal(name) for name in ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_API_KEY", "TEMPORAL_TLS")
    )
    assert not read_by_temporal("TEMPORAL_HOST")


def test_the_worker_drains_as_long_as_its_help_says() -> None:
    command = [sys.executable, "-m", "worker", "--help"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    said = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert f"finish (default: {worker_grace([]):.0f})" in said.stdout


def test_scripts_parse() -> None:
    for script in sorted((ROOT / "deploy").rglob("*.sh")):
        subprocess.run(["sh", "-n", script], check=True)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl, which has kustomize in it, is missing")
@pytest.mark.parametrize("overlay", ["kubernetes", "backlog-scaling", "worker-controller"])
def test_kustomize_makes_of_every_overlay_what_kubernetes_takes(overlay: str) -> None:
    """By the tool itself: patches find what they are for, and what comes out is in the schemas."""
    rendered = subprocess.run(
        ["kubectl", "kustomize", ROOT / "deploy" / overlay], capture_output=True, text=True, check=True, timeout=60
    )
    there = list(yaml.safe_load_all(rendered.stdout))
    others = {*controller.SPECS, *scaling.SPECS}
    for thing in there:
        if thing["kind"] not in others:
            kubernetes_validate.validate(thing, kubernetes.VERSIONS[-1], strict=True)
    kinds = Counter(thing["kind"] for thing in there)
    assert kinds["HorizontalPodAutoscaler"] == (overlay == "kubernetes")
    assert kinds["Deployment"] == (1 if overlay == "worker-controller" else 3)
    assert kinds["Service"] == 1
    images = set(re.findall(r"image: (\S+)", rendered.stdout))
    assert f"ratchet:{project_version()}" in images


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl, which has kustomize in it, is missing")
def test_the_overlay_that_the_readme_shows_is_one(tmp_path: Path, files: Mapping[str, str]) -> None:
    (shown,) = re.findall(r"```yaml\n(.*?kind: Kustomization.*?)```", files["README.md"], re.S)
    for base in ("kubernetes", "backlog-scaling", "worker-controller"):
        shutil.copytree(ROOT / "deploy" / base, tmp_path / "deploy" / base)
        yours = tmp_path / f"on-{base}"
        yours.mkdir()
        (yours / "kustomization.yaml").write_text(shown.replace("../deploy/kubernetes]", f"../deploy/{base}]"))
        rendered = subprocess.run(
            ["kubectl", "kustomize", yours], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        assert set(re.findall(r"image: (\S+)", rendered)) == {"your-images/ratchet:0.1.0"}
        assert "TEMPORAL_ADDRESS: your-namespace.a1b2c.tmprl.cloud:7233" in rendered
        assert "OTEL_TRACES_SAMPLER: parentbased_traceidratio" in rendered, "the patch took the other values away"
