"""List the environment variables that Ratchet reads: who reads each, its default, and what it means.

This is the one table of them. `docs/reference/environment.md` is made from it, and a test compares it with the code, so a
variable that is read and not listed here does not pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Side = Literal["servers", "worker", "client", "prompts", "internal"]
"""Who reads a variable: everything that connects, workers, commands and the HTTP side, code that renders prompts, or only
processes that Ratchet starts itself."""


@dataclass(frozen=True)
class Variable:
    """One environment variable."""

    name: str
    side: Side
    default: str
    """As Markdown; empty where nothing is the default."""
    meaning: str


SIDES: Final[dict[Side, str]] = {
    "servers": "Read by everything that connects to servers",
    "worker": "Read by workers",
    "client": "Read by commands, the page and the HTTP API",
    "prompts": "Read by code that renders prompts, by workers and by commands",
    "internal": "Set by Ratchet for processes that it starts",
}

VARIABLES: Final = (
    Variable(
        "TEMPORAL_ADDRESS",
        "servers",
        "embedded server",
        "Address of the Temporal server, `host:port`. Set it together with `DATABASE_URL`.",
    ),
    Variable("TEMPORAL_NAMESPACE", "servers", "`default`", "Temporal namespace."),
    Variable("TEMPORAL_API_KEY", "servers", "", "Key for Temporal Cloud or another server that asks for one."),
    Variable("TEMPORAL_PROFILE", "servers", "", "Profile of Temporal's own configuration file to use."),
    Variable("TEMPORAL_CONFIG_FILE", "servers", "Temporal's own place", "Temporal's own configuration file."),
    Variable(
        "TEMPORAL_TLS_…",
        "servers",
        "",
        "Temporal's own TLS settings. Ratchet reads all of Temporal's client variables, as the Temporal CLI does.",
    ),
    Variable(
        "DATABASE_URL",
        "servers",
        "embedded server",
        "PostgreSQL 14 or newer that keeps runs, datasets and answers, as `postgresql://user:password@host/database`.",
    ),
    Variable(
        "RATCHET_TASK_QUEUE",
        "servers",
        "`optimization`",
        "Task queue of the workflows. Evaluations use the same name with `-evaluation`.",
    ),
    Variable("RATCHET_ROLE", "worker", "`all`", "What a worker serves: `all`, `workflows` or `evaluation`."),
    Variable(
        "RATCHET_EVALUATION_TASK_QUEUE",
        "worker",
        "`RATCHET_TASK_QUEUE` with `-evaluation`",
        "Task queue on which this worker evaluates. `ratchet run` sets it for the worker that serves one spec's plug-ins.",
    ),
    Variable(
        "RATCHET_PLUGINS",
        "worker",
        "none",
        "Module prefixes from which plug-ins may be imported, separated by commas.",
    ),
    Variable("RATCHET_PLUGIN_PATH", "worker", "", "Directory in which plug-in modules are found."),
    Variable("RATCHET_DATA_DIR", "worker", "none", "Directory that `dataset: {path: …}` and `prompt: {file: …}` may read."),
    Variable("OPENAI_API_KEY", "worker", "", "Key for the model endpoint. It is sent only to origins that the operator names."),
    Variable("OPENAI_BASE_URL", "worker", "OpenAI's address", "Address of the OpenAI-compatible model endpoint."),
    Variable(
        "RATCHET_MODEL_URLS",
        "worker",
        "none",
        "Further origins that may be sent the key, separated by commas. A spec's `base_url` elsewhere is refused.",
    ),
    Variable("RATCHET_HTTP_URLS", "worker", "none", "Origins that `target: {kind: http}` may call, separated by commas."),
    Variable("RATCHET_HTTP_TOKEN", "worker", "", "Token for HTTP targets that say `auth:`."),
    Variable("RATCHET_RUNNER_URLS", "worker", "none", "Origins of external runners that may be called, separated by commas."),
    Variable("RATCHET_RUNNER_TOKEN", "worker", "", "Token for external runners; only they are sent it."),
    Variable(
        "RATCHET_OBJECTS",
        "worker",
        "none",
        "`s3://bucket/prefix` from which `dataset: {path: s3://…}` may be read, separated by commas.",
    ),
    Variable("RATCHET_LARGEST_OBJECT_MB", "worker", "`256`", "Largest object that is read as a dataset, in MB."),
    Variable(
        "RATCHET_LARGEST_DATASET_MB",
        "worker",
        "`1024`",
        "Most that a dataset may unfold to, in MB: inputs and expected values together, copies included.",
    ),
    Variable(
        "RATCHET_ACTIVITY_QUEUES",
        "worker",
        "none",
        "Task queues on which `target: {kind: activity}` may call activities; `agents-*` names all that begin so.",
    ),
    Variable(
        "RATCHET_EVALUATION_QUEUES",
        "worker",
        "none",
        "Task queues that `execution.evaluation_task_queue` may name, beyond the worker's own.",
    ),
    Variable(
        "RATCHET_RATE_LIMITS",
        "worker",
        "none",
        "JSON: what all runs together may ask of each model or URL, over all workers. Same form as `execution.rate_limits`.",
    ),
    Variable("RATCHET_CONCURRENT_SAMPLES", "worker", "no limit", "Target calls in flight on this worker, over all runs."),
    Variable(
        "RATCHET_STATE_DIR",
        "worker",
        "a private temporary directory per user",
        "Directory in which each worker notes the calls that it begins (numbers only). Let all workers of the same servers "
        "share it: then the calls that a killed worker lost are known exactly.",
    ),
    Variable("RATCHET_LOG", "worker", "`json`", "Form of the worker's log: `json` or `text`."),
    Variable("AWS_ACCESS_KEY_ID", "prompts", "", "Credentials for S3, for datasets and prompts."),
    Variable("AWS_SECRET_ACCESS_KEY", "prompts", "", "Credentials for S3, for datasets and prompts."),
    Variable("AWS_ENDPOINT_URL", "prompts", "AWS", "Address of an S3-compatible store, for datasets and prompts."),
    Variable(
        "RATCHET_OVERRIDES",
        "prompts",
        "`postgres`",
        "Where prompts are kept: `postgres` (the database of `DATABASE_URL`), `s3://bucket/prefix`, `file:dir` or `redis://…`.",
    ),
    Variable(
        "RATCHET_HOME",
        "client",
        "`.ratchet`",
        "Directory in which the embedded servers keep their data. `--home` says the same for one command.",
    ),
    Variable(
        "RATCHET_SERVE_TOKEN",
        "client",
        "made once, kept in `.ratchet/serve.token`",
        "Token of the page and the HTTP API, at least 16 characters. Needed to serve beyond this machine.",
    ),
    Variable(
        "RATCHET_UI_URL", "client", "", "Address of Temporal's UI, for the links that commands print on servers of your own."
    ),
    Variable("RATCHET_DEBUG", "client", "", "`1` prints a traceback beside the message of a command that failed."),
    Variable(
        "RATCHET_ALLOWED_FILE",
        "internal",
        "",
        "File with what `ratchet run` allowed specs to name on embedded servers (`.ratchet/allowed.json`).",
    ),
)
