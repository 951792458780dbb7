"""List the environment variables that Ratchet reads: who reads each, its default, and what it means.

`docs/reference/environment.md` is made from it. The rows are those of the settings that read the variables; here stand only
those that libraries read of themselves.
"""

from __future__ import annotations

from typing import Final

from activities.observation_settings import ObservationSettings
from activities.settings import DatasetSettings, OperatorSettings, RetentionSettings, Settings
from clients.settings import ClientSettings
from ratchet._encryption import EncryptionSettings
from ratchet._environment import Side, Variable, variables_of

SIDES: Final[dict[Side, str]] = {
    "servers": "Read by everything that connects to servers",
    "worker": "Read by workers",
    "client": "Read by commands, the page and the HTTP API",
    "observation": "Read by what can be observed: workers, servers of the page, commands that start runs",
    "prompts": "Read by code that renders prompts, by workers and by commands",
    "internal": "Set by Ratchet for processes that it starts",
}

READ_BY_LIBRARIES: Final = (
    Variable("TEMPORAL_NAMESPACE", "servers", "`default`", "Temporal namespace."),
    Variable("TEMPORAL_API_KEY", "servers", "", "Key for Temporal Cloud or another server that asks for one."),
    Variable(
        "TEMPORAL_TLS_…",
        "servers",
        "",
        "Temporal's own TLS settings. Ratchet reads all of Temporal's client variables, as the Temporal CLI does.",
    ),
    Variable(
        "OTEL_TRACES_SAMPLER",
        "observation",
        "`parentbased_always_on`",
        "Which runs are traced: `parentbased_traceidratio` with `OTEL_TRACES_SAMPLER_ARG=0.1` is one in ten.",
    ),
    Variable("OTEL_TRACES_SAMPLER_ARG", "observation", "", "What the sampler is told."),
    Variable(
        "OTEL_RESOURCE_ATTRIBUTES", "observation", "", "What every trace says of its process, as `name=value,name=value`."
    ),
    Variable(
        "OTEL_…",
        "observation",
        "",
        "OpenTelemetry's further variables for traces: certificates, compression, timeouts, the size of batches.",
    ),
    Variable("AWS_ACCESS_KEY_ID", "prompts", "", "Credentials for S3, for datasets and prompts."),
    Variable("AWS_SECRET_ACCESS_KEY", "prompts", "", "Credentials for S3, for datasets and prompts."),
    Variable("AWS_SESSION_TOKEN", "prompts", "", "Belongs to credentials that are good for a while."),
    Variable("AWS_ENDPOINT_URL", "prompts", "AWS", "Address of an S3-compatible store, for datasets and prompts."),
)

_SETTINGS = (
    *(ClientSettings, Settings, EncryptionSettings, OperatorSettings, DatasetSettings),
    *(RetentionSettings, ObservationSettings),
)
VARIABLES: Final = tuple(dict.fromkeys([*(one for each in _SETTINGS for one in variables_of(each)), *READ_BY_LIBRARIES]))
