"""What commands, the page and the HTTP API are told by their environment. It is read here, each time anew, and nowhere else
in this room: a command may change it for the processes that it starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ratchet._encryption import EncryptionKeys, EncryptionSettings
from ratchet._environment import (
    DATABASE_URL,
    DEFAULT_TASK_QUEUE,
    LOG,
    OVERRIDES,
    PLUGIN_PATH,
    PLUGINS,
    TASK_QUEUE,
    Variable,
    read_entries,
    read_path,
    setting,
    settings_from,
)

if TYPE_CHECKING:
    from activities.observation_settings import ObservationSettings
    from activities.settings import DatasetSettings, OperatorSettings, RetentionSettings

DEFAULT_HOME: Final = Path(".ratchet")
TEAM: Final = "RATCHET_TEAM"
OIDC_ISSUER: Final = "RATCHET_OIDC_ISSUER"
SERVE_TOKEN: Final = "RATCHET_SERVE_TOKEN"  # noqa: S105 (its name)


@dataclass(frozen=True)
class ClientSettings:
    """What one process of this room is told."""

    temporal_address: str = setting(
        Variable(
            "TEMPORAL_ADDRESS",
            "servers",
            "embedded server",
            "Address of the Temporal server, `host:port`. Set it together with `DATABASE_URL`.",
        )
    )
    temporal_profile: str = setting(
        Variable("TEMPORAL_PROFILE", "servers", "", "Profile of Temporal's own configuration file to use.")
    )
    temporal_config_file: str = setting(
        Variable("TEMPORAL_CONFIG_FILE", "servers", "Temporal's own place", "Temporal's own configuration file.")
    )
    database_url: str = setting(DATABASE_URL)
    task_queue: str = setting(TASK_QUEUE, default=DEFAULT_TASK_QUEUE)
    overrides: str = setting(OVERRIDES, default="postgres")
    plugins: str = setting(PLUGINS)
    plugin_path: Path | None = setting(PLUGIN_PATH, default=None, read=read_path)
    home: Path = setting(
        Variable(
            "RATCHET_HOME",
            "client",
            "`.ratchet`",
            "Directory in which the embedded servers keep their data. `--home` says the same for one command.",
        ),
        default=DEFAULT_HOME,
        read=read_path,
    )
    experiments: Path | None = setting(
        Variable(
            "RATCHET_EXPERIMENTS",
            "client",
            "`experiments` beside the file that declares them",
            "Directory for the files of declared experiments: `specs`, `explorations` and `optimizations`.",
        ),
        default=None,
        read=read_path,
    )
    serve_token: str = setting(
        Variable(
            SERVE_TOKEN,
            "client",
            "made once, kept in `.ratchet/serve.token`",
            "Token of the page and the HTTP API, at least 16 characters. Needed to serve beyond this machine.",
        )
    )
    allowed_hosts: tuple[str, ...] = setting(
        Variable(
            "RATCHET_ALLOWED_HOSTS",
            "client",
            "none",
            "Names that browsers and gateways may call `ratchet serve` by, separated by commas; `--allow-host` adds more.",
        ),
        default=(),
        read=read_entries,
    )
    log: str = setting(LOG)
    team: str = setting(
        Variable(
            TEAM,
            "client",
            "`default`",
            "Team whose the runs and datasets are that commands start and add. `--team` says the same for one command.",
        ),
        default="default",
    )
    oidc_issuer: str = setting(
        Variable(
            OIDC_ISSUER,
            "client",
            "",
            "Issuer whose JWTs the HTTP API takes beside tokens, as its discovery document writes it: "
            "`https://login.example.com`. Needs the extra `oidc`.",
        )
    )
    oidc_audience: str = setting(
        Variable("RATCHET_OIDC_AUDIENCE", "client", "", "What a JWT must be made out for. Needed with an issuer.")
    )
    oidc_roles: str = setting(
        Variable(
            "RATCHET_OIDC_ROLES",
            "client",
            "",
            "Which values of the claim of roles are which role: `ml-team=run,leads=release`. Needed with an issuer.",
        )
    )
    oidc_role_claim: str = setting(
        Variable("RATCHET_OIDC_ROLE_CLAIM", "client", "`roles`", "The claim that holds them: a text, or a list of texts."),
        default="roles",
    )
    oidc_team_claim: str = setting(
        Variable(
            "RATCHET_OIDC_TEAM_CLAIM",
            "client",
            "",
            "The claim that names the team. Without one, everybody is of the team `default`.",
        )
    )
    oidc_name_claim: str = setting(
        Variable(
            "RATCHET_OIDC_NAME_CLAIM",
            "client",
            "`sub`",
            "The claim under which approvals and the audit log have somebody: one that people cannot choose for themselves.",
        ),
        default="sub",
    )
    ui_url: str | None = setting(
        Variable(
            "RATCHET_UI_URL",
            "client",
            "",
            "Address of Temporal's UI, for the links that commands print on servers of your own, and for the codec server, "
            "which answers no other site.",
        ),
        default=None,
    )
    debug: str = setting(
        Variable("RATCHET_DEBUG", "client", "", "`1` prints a traceback beside the message of a command that failed.")
    )
    state_home: Path | None = setting(
        Variable(
            "XDG_STATE_HOME",
            "client",
            "`~/.local/state`",
            "Directory below which commands note the code of runs on servers of your own.",
        ),
        default=None,
        read=read_path,
    )


def client_settings() -> ClientSettings:
    """Read what this room is told."""
    return settings_from(ClientSettings, os.environ)


def operator_settings() -> OperatorSettings:
    """Read what a worker of this environment would let specs name."""
    from activities.settings import OperatorSettings

    return settings_from(OperatorSettings, os.environ)


def dataset_settings() -> DatasetSettings:
    """Read how large datasets may be that are read here."""
    from activities.settings import DatasetSettings

    return settings_from(DatasetSettings, os.environ)


def retention_settings() -> RetentionSettings:
    """Read what a worker of this environment would remove."""
    from activities.settings import RetentionSettings

    return settings_from(RetentionSettings, os.environ)


def observation_settings() -> ObservationSettings:
    """Read what is shown of this process."""
    from activities.observation_settings import ObservationSettings

    return settings_from(ObservationSettings, os.environ)


def encryption_keys() -> EncryptionKeys | None:
    """Read the keys that contents are encrypted with; None where nothing is."""
    return settings_from(EncryptionSettings, os.environ).keys


def is_set(name: str) -> bool:
    """Tell whether a variable has a value, without reading it."""
    return bool(os.environ.get(name))


def environment_of_children(**also: str) -> dict[str, str]:
    """Return the environment for a process of ours."""
    return {**os.environ, **also}


def change_environment(changes: Mapping[str, str | None]) -> None:
    """Set variables for this process and those that it starts; None takes one away."""
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
