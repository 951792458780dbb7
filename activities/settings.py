"""What a worker is told by its environment, read here and nowhere else in this room, and handed to whoever needs it."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final, Literal, get_args
from urllib.parse import unquote

from activities.observation_settings import ObservationSettings
from ratchet._encryption import KEYS, EncryptionSettings
from ratchet._environment import (
    DATABASE_URL,
    DEFAULT_TASK_QUEUE,
    LOG,
    OVERRIDES,
    PLUGIN_PATH,
    PLUGINS,
    TASK_QUEUE,
    BadSetting,
    Variable,
    read_count,
    read_entries,
    read_path,
    setting,
    settings_from,
    values_from,
)
from workflows.model.spec.limits import RateLimit, parse_rate_limits
from workflows.rules.retention_policy import EXAMPLE, BadRetention, RetentionPolicy, parse_retention

Role = Literal["all", "workflows", "evaluation"]

DEFAULT_MODEL_URL: Final = "https://api.openai.com/v1"
DEFAULT_ANTHROPIC_URL: Final = "https://api.anthropic.com"
DEFAULT_GOOGLE_URL: Final = "https://generativelanguage.googleapis.com"
DEFAULT_OBJECT_MB: Final = 256
"""An object and what is made of it lie on this machine's disk while it is read, and a worker may have little of that."""

DEFAULT_DATASET_MB: Final = 1024

MODEL_URLS: Final = "RATCHET_MODEL_URLS"
HTTP_URLS: Final = "RATCHET_HTTP_URLS"
RUNNER_URLS: Final = "RATCHET_RUNNER_URLS"
MCP_SERVERS: Final = "RATCHET_MCP_SERVERS"
OBJECTS: Final = "RATCHET_OBJECTS"
ACTIVITY_QUEUES: Final = "RATCHET_ACTIVITY_QUEUES"
EVALUATION_QUEUES: Final = "RATCHET_EVALUATION_QUEUES"
HTTP_TOKEN: Final = "RATCHET_HTTP_TOKEN"  # noqa: S105 (the name of the variable)
RUNNER_TOKEN: Final = "RATCHET_RUNNER_TOKEN"  # noqa: S105
ALLOWED_FILE: Final = "RATCHET_ALLOWED_FILE"
OBJECT_MB: Final = "RATCHET_LARGEST_OBJECT_MB"
DATASET_MB: Final = "RATCHET_LARGEST_DATASET_MB"
ROLE: Final = "RATCHET_ROLE"
EVALUATION_TASK_QUEUE: Final = "RATCHET_EVALUATION_TASK_QUEUE"
STATE_DIR: Final = "RATCHET_STATE_DIR"
HEALTH_FILE: Final = "RATCHET_HEALTH_FILE"
DEPLOYMENT: Final = "RATCHET_DEPLOYMENT"
BUILD_ID: Final = "RATCHET_BUILD_ID"
OF_THE_CONTROLLER: Final = {"deployment": "TEMPORAL_DEPLOYMENT_NAME", "build_id": "TEMPORAL_WORKER_BUILD_ID"}
"""How Temporal's worker controller names the same to the workers that it starts."""
RATE_LIMITS: Final = "RATCHET_RATE_LIMITS"
RETENTION: Final = "RATCHET_RETENTION"

_SECRET_NAMES: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_SECRETS: Final = ("AWS_BEARER_TOKEN_BEDROCK",)
_ENCRYPTION_KEY: Final = re.compile(r"[A-Za-z0-9+/_-]{40,}=*")
_PASSWORD: Final = re.compile(r"[a-z0-9+]+://[^/@:]*:([^/@]+)@")


def _read_commands(text: str, name: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise BadSetting(f"{name} is no JSON: {error}") from None
    entries = given.items() if isinstance(given, dict) else ()
    commands = tuple((server, tuple(command)) for server, command in entries if _is_command(command))
    if not isinstance(given, dict) or len(commands) < len(given):
        raise BadSetting(f'{name}: write the command of each server, such as {{"files": ["npx", "-y", "my-server"]}}')
    return commands


def _is_command(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(part, str) and part for part in value)


@dataclass(frozen=True)
class OperatorSettings:
    """What the operator of a worker lets specs name, and the keys that only named places are sent."""

    model_key: str = setting(
        Variable(
            "OPENAI_API_KEY", "worker", "", "Key for the model endpoint. It is sent only to origins that the operator names."
        )
    )
    model_url: str = setting(
        Variable("OPENAI_BASE_URL", "worker", "OpenAI's address", "Address of the OpenAI-compatible model endpoint."),
        default=DEFAULT_MODEL_URL,
    )
    anthropic_key: str = setting(
        Variable("ANTHROPIC_API_KEY", "worker", "", "Key for models `anthropic/…`. It is sent only to Anthropic's address.")
    )
    anthropic_url: str = setting(
        Variable("ANTHROPIC_BASE_URL", "worker", "Anthropic's address", "Address at which models `anthropic/…` are asked."),
        default="",
    )
    google_key: str = setting(
        Variable("GOOGLE_API_KEY", "worker", "", "Key for models `google/…`. It is sent only to Gemini's address.")
    )
    gemini_key: str = setting(
        Variable("GEMINI_API_KEY", "worker", "", "The same by its other name; `GOOGLE_API_KEY` wins where both are set.")
    )
    google_url: str = setting(
        Variable("GOOGLE_GEMINI_BASE_URL", "worker", "Gemini's address", "Address at which models `google/…` are asked."),
        default="",
    )
    bedrock_url: str = setting(
        Variable(
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
            "worker",
            "Bedrock's address in the region",
            "Address at which models `bedrock/…` are asked. Requests are signed with AWS's own variables, or what else its SDK "
            "finds where the worker runs.",
        ),
        default="",
    )
    bedrock_token: str = setting(
        Variable("AWS_BEARER_TOKEN_BEDROCK", "worker", "", "Key of Bedrock's own, which takes the place of AWS's credentials.")
    )
    aws_region: str = setting(Variable("AWS_REGION", "worker", "", "Region of AWS in which models `bedrock/…` are asked."))
    aws_default_region: str = setting(
        Variable(
            "AWS_DEFAULT_REGION",
            "worker",
            "`us-east-1`",
            "The same by its other name; `AWS_REGION` wins where both are set.",
        )
    )
    model_urls: tuple[str, ...] = setting(
        Variable(
            MODEL_URLS,
            "worker",
            "none",
            "Further origins that may be sent a key, separated by commas: OpenAI's, or with `anthropic=`, `google=` or "
            "`bedrock=` before the origin that provider's. A spec's `base_url` elsewhere is refused.",
        ),
        default=(),
        read=read_entries,
    )
    http_urls: tuple[str, ...] = setting(
        Variable(
            HTTP_URLS,
            "worker",
            "none",
            "Origins that `target: {kind: http}`, and agents' tools over HTTP, may call, separated by commas.",
        ),
        default=(),
        read=read_entries,
    )
    mcp_servers: tuple[tuple[str, tuple[str, ...]], ...] = setting(
        Variable(
            MCP_SERVERS,
            "worker",
            "none",
            "JSON: the MCP servers over stdio that agents may call, each with its command: "
            '`{"files": ["npx", "-y", "a-server"]}`. They are started without the worker\'s environment.',
        ),
        default=(),
        read=_read_commands,
    )
    http_token: str = setting(
        Variable(HTTP_TOKEN, "worker", "", "Token for HTTP targets, and agents' tools over HTTP, that say `auth:`.")
    )
    runner_urls: tuple[str, ...] = setting(
        Variable(RUNNER_URLS, "worker", "none", "Origins of external runners that may be called, separated by commas."),
        default=(),
        read=read_entries,
    )
    runner_token: str = setting(Variable(RUNNER_TOKEN, "worker", "", "Token for external runners; only they are sent it."))
    objects: tuple[str, ...] = setting(
        Variable(
            OBJECTS,
            "worker",
            "none",
            "`s3://bucket/prefix` from which `dataset: {path: s3://…}` may be read, separated by commas.",
        ),
        default=(),
        read=read_entries,
    )
    activity_queues: tuple[str, ...] = setting(
        Variable(
            ACTIVITY_QUEUES,
            "worker",
            "none",
            "Task queues on which targets, scorers and proposers of `kind: activity` may be called; `agents-*` names all that "
            "begin so.",
        ),
        default=(),
        read=read_entries,
    )
    evaluation_queues: tuple[str, ...] = setting(
        Variable(
            EVALUATION_QUEUES,
            "worker",
            "none",
            "Task queues that `execution.evaluation_task_queue` may name, beyond the worker's own.",
        ),
        default=(),
        read=read_entries,
    )
    allowed_file: Path | None = setting(
        Variable(
            ALLOWED_FILE,
            "internal",
            "",
            "File with what `ratchet run` allowed specs to name on embedded servers (`.ratchet/allowed.json`).",
        ),
        default=None,
        read=read_path,
    )


@dataclass(frozen=True)
class DatasetSettings:
    """From where datasets are read, and how large they may be."""

    data_dir: Path | None = setting(
        Variable("RATCHET_DATA_DIR", "worker", "none", "Directory that `dataset: {path: …}` and `prompt: {file: …}` may read."),
        default=None,
        read=read_path,
    )
    largest_object_mb: int = setting(
        Variable(OBJECT_MB, "worker", f"`{DEFAULT_OBJECT_MB}`", "Largest object that is read as a dataset, in MB."),
        default=DEFAULT_OBJECT_MB,
        read=read_count,
    )
    largest_dataset_mb: int = setting(
        Variable(
            DATASET_MB,
            "worker",
            f"`{DEFAULT_DATASET_MB}`",
            "Most that a dataset may unfold to, in MB: inputs and expected values together, copies included.",
        ),
        default=DEFAULT_DATASET_MB,
        read=read_count,
    )


def _read_role(text: str, name: str) -> str:
    if text not in get_args(Role):
        raise BadSetting(f"{name} is {text!r}; use {', '.join(get_args(Role))}")
    return text


def _read_rate_limits(text: str, name: str) -> dict[str, RateLimit]:
    try:
        return parse_rate_limits(text, name)
    except ValueError as error:
        raise BadSetting(str(error)) from None


def read_retention(text: str, name: str) -> RetentionPolicy:
    """Read what is removed of runs that are over."""
    try:
        return parse_retention(text)
    except BadRetention as error:
        raise BadSetting(f"{name}: {error}") from None


@dataclass(frozen=True)
class RetentionSettings:
    """What is removed of runs that are over."""

    policy: RetentionPolicy = setting(
        Variable(
            RETENTION,
            "worker",
            "nothing is removed",
            f"What the cleanup removes of runs that are over, e.g. `{EXAMPLE}`: texts of answers, answers with their scores, "
            "whole runs, each so long after the run's end, and from the oldest on what is beyond a size. All workers that "
            "serve workflows get the same.",
        ),
        default=RetentionPolicy(),
        read=read_retention,
    )


def _read_deployment(text: str, name: str) -> str:
    if "." in text:
        raise BadSetting(f"{name} is {text!r}; leave out the dot, which parts a deployment's name from its version")
    return text


@dataclass(frozen=True)
class Settings:
    """What one worker process is told, by its environment and its command line."""

    database_url: str = setting(DATABASE_URL)
    task_queue: str = setting(TASK_QUEUE, default=DEFAULT_TASK_QUEUE)
    role: Role = setting(
        Variable(ROLE, "worker", "`all`", "What a worker serves: `all`, `workflows` or `evaluation`."),
        default="all",
        read=_read_role,
    )
    evaluation_task_queue: str = setting(
        Variable(
            EVALUATION_TASK_QUEUE,
            "worker",
            "`RATCHET_TASK_QUEUE` with `-evaluation`",
            "Task queue on which this worker evaluates. `ratchet run` sets it for the worker that serves one spec's plug-ins.",
        ),
        default=f"{DEFAULT_TASK_QUEUE}-evaluation",
    )
    plugins: str = setting(PLUGINS)
    plugin_path: Path | None = setting(PLUGIN_PATH, default=None, read=read_path)
    overrides: str = setting(OVERRIDES, default="postgres")
    rate_limits: Mapping[str, RateLimit] = field(
        default_factory=dict,
        metadata={
            "variable": Variable(
                RATE_LIMITS,
                "worker",
                "none",
                "JSON: what all runs together may ask of each model or URL, over all workers. Same form as "
                "`execution.rate_limits`.",
            ),
            "read": _read_rate_limits,
        },
    )
    concurrent_samples: int | None = setting(
        Variable("RATCHET_CONCURRENT_SAMPLES", "worker", "no limit", "Target calls in flight on this worker, over all runs."),
        default=None,
        read=read_count,
    )
    state_dir: Path | None = setting(
        Variable(
            STATE_DIR,
            "worker",
            "a private temporary directory per user",
            "Directory in which each worker notes the calls that it begins (numbers only). Let all workers of the same servers "
            "share it: then the calls that a killed worker lost are known exactly.",
        ),
        default=None,
        read=read_path,
    )
    health_file: Path | None = setting(
        Variable(
            HEALTH_FILE,
            "worker",
            "none; in the image `/tmp/worker.health`",
            "File in which a worker tells whether it serves. Where it is set, `ratchet worker --check-health` fails unless the "
            "worker that writes it serves: not while it starts, and not while it drains. One file for each worker.",
        ),
        default=None,
        read=read_path,
    )
    log: str = setting(LOG, default="json")
    deployment: str = setting(
        Variable(
            DEPLOYMENT,
            "worker",
            "none",
            "Name of the worker deployment that this worker serves a version of. Unset, it serves every run. Set, it gets "
            "work only while its version is the current one (`ratchet worker --make-current`), or of runs that began on it.",
        ),
        read=_read_deployment,
    )
    build_id: str = setting(
        Variable(
            BUILD_ID,
            "worker",
            "Ratchet's version",
            "Version of `RATCHET_DEPLOYMENT` that this worker is. Give every build of your own image another one.",
        )
    )
    operator: OperatorSettings = OperatorSettings()
    datasets: DatasetSettings = DatasetSettings()
    retention: RetentionSettings = RetentionSettings()
    observation: ObservationSettings = field(default_factory=ObservationSettings)
    encryption: EncryptionSettings = field(default_factory=EncryptionSettings)
    grace: timedelta = timedelta(seconds=30)

    @classmethod
    def from_environment(
        cls, role: Role | None = None, grace: timedelta = timedelta(seconds=30), environment: Mapping[str, str] = os.environ
    ) -> Settings:
        """Read everything but the grace period, and the role unless it is given. Raise BadSetting for what is not usable."""
        found = values_from(cls, environment)
        if "database_url" not in found:
            raise BadSetting("DATABASE_URL is not set; give the PostgreSQL to store runs in, e.g. postgresql://user@host/db")
        found.setdefault("evaluation_task_queue", f"{found.get('task_queue', DEFAULT_TASK_QUEUE)}-evaluation")
        for field_name, variable in OF_THE_CONTROLLER.items():
            found.setdefault(field_name, environment.get(variable, "").strip())
        if role is not None:
            found["role"] = role
        return cls(
            **found,
            grace=grace,
            operator=settings_from(OperatorSettings, environment),
            datasets=settings_from(DatasetSettings, environment),
            retention=settings_from(RetentionSettings, environment),
            observation=settings_from(ObservationSettings, environment),
            encryption=settings_from(EncryptionSettings, environment),
        )


def secrets_in_environment(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the values of variables whose names say that they are secret, passwords in addresses, encryption keys, and what a
    collector is sent as its key."""
    named = [value for name, value in environment.items() if name.upper().endswith(_SECRET_NAMES) or name in _SECRETS]
    for name, headers in environment.items():
        if name.startswith("OTEL_") and name.endswith("_HEADERS"):
            given = [entry.partition("=")[2].strip() for entry in headers.split(",")]
            named += [*given, *map(unquote, given)]
    passwords = [found.group(1) for value in environment.values() if (found := _PASSWORD.match(value))]
    return *named, *passwords, *_ENCRYPTION_KEY.findall(environment.get(KEYS.name, ""))


def environment_of_children() -> dict[str, str]:
    """Return the environment of processes that import what this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
