"""A worker reads its environment in one place, and hands on what it says."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from activities.settings import DatasetSettings, OperatorSettings, RetentionSettings, Settings, secrets_in_environment
from clients.checks.environment import VARIABLES
from ratchet._environment import BadSetting, settings_from
from tests.support.documents import ROOT
from workflows.model.spec.limits import RateLimit
from workflows.rules.retention_policy import parse_retention

URL = "postgresql://user@host/db"
ENVIRONMENT = re.compile(r"\bos\.environ\b|\bgetenv\(|import environ\b")
PYTHON_ITSELF = {"clients/own_modules.py"}
"""Reads what Python's own PYTHONPATH is."""


def modules_with(pattern: re.Pattern[str], room: str) -> set[str]:
    return {
        str(path.relative_to(ROOT)) for path in (ROOT / room).rglob("*.py") if pattern.search(path.read_text(encoding="utf-8"))
    }


@pytest.mark.parametrize("room", ["activities", "clients"])
def test_nobody_else_in_a_room_reads_the_environment(room: str) -> None:
    assert modules_with(ENVIRONMENT, room) - PYTHON_ITSELF == {f"{room}/settings.py"}


def test_keys_are_among_what_is_hidden_in_texts() -> None:
    environment = {"OPENAI_API_KEY": "sk-1", "RATCHET_ENCRYPTION_KEYS": f"new:{'A' * 43}=, old:{'b/+' * 14}c="}
    assert set(secrets_in_environment(environment)) == {"sk-1", f"{'A' * 43}=", f"{'b/+' * 14}c="}


@pytest.mark.parametrize("room", ["store", "workflows"])
def test_rooms_that_are_told_everything_read_no_environment(room: str) -> None:
    assert modules_with(ENVIRONMENT, room) == set()


def test_no_call_is_told_anything_behind_its_back() -> None:
    """Threads and loops of plug-ins copy a context. What is in it serves the user's own code, which cannot be handed anything:
    the experiment, which is the public library's, and where it prints to."""
    assert modules_with(re.compile(r"\bContextVar\b"), "activities") == {"activities/plugins/printed_text.py"}


def test_everything_has_its_variable() -> None:
    found = Settings.from_environment(
        environment={
            "DATABASE_URL": URL,
            "RATCHET_TASK_QUEUE": "mine",
            "RATCHET_ROLE": "workflows",
            "RATCHET_PLUGINS": "a, b.c.",
            "RATCHET_PLUGIN_PATH": "/plugins",
            "RATCHET_OVERRIDES": "file:prompts",
            "RATCHET_RATE_LIMITS": '{"m": {"requests_per_minute": 60}}',
            "RATCHET_CONCURRENT_SAMPLES": " 7 ",
            "RATCHET_STATE_DIR": "/state",
            "RATCHET_LOG": "text",
            "RATCHET_DEPLOYMENT": "ratchet",
            "RATCHET_BUILD_ID": "7.1",
            "OPENAI_API_KEY": " sk-1\n",
            "OPENAI_BASE_URL": "https://models.example/v1",
            "RATCHET_MODEL_URLS": "https://one.example, ,https://two.example",
            "RATCHET_HTTP_TOKEN": "h",
            "RATCHET_RUNNER_TOKEN": "r",
            "RATCHET_ALLOWED_FILE": "/allowed.json",
            "RATCHET_DATA_DIR": "/data",
            "RATCHET_LARGEST_OBJECT_MB": "3",
            "RATCHET_LARGEST_DATASET_MB": "4",
            "RATCHET_RETENTION": "texts=30d",
        }
    )
    assert found == Settings(
        database_url=URL,
        task_queue="mine",
        role="workflows",
        evaluation_task_queue="mine-evaluation",
        plugins="a, b.c.",
        plugin_path=Path("/plugins"),
        overrides="file:prompts",
        rate_limits={"m": RateLimit(requests_per_minute=60)},
        concurrent_samples=7,
        state_dir=Path("/state"),
        log="text",
        deployment="ratchet",
        build_id="7.1",
        operator=OperatorSettings(
            model_key="sk-1",
            model_url="https://models.example/v1",
            model_urls=("https://one.example", "https://two.example"),
            http_token="h",
            runner_token="r",
            allowed_file=Path("/allowed.json"),
        ),
        datasets=DatasetSettings(Path("/data"), 3, 4),
        retention=RetentionSettings(parse_retention("texts=30d")),
    )


def test_what_is_not_set_or_blank_has_its_default() -> None:
    assert Settings.from_environment(environment={"DATABASE_URL": URL, "RATCHET_LOG": " "}) == Settings(URL)
    assert settings_from(OperatorSettings, {"OPENAI_BASE_URL": ""}).model_url == "https://api.openai.com/v1"


def test_the_command_line_has_the_last_word() -> None:
    environment = {"DATABASE_URL": URL, "RATCHET_ROLE": "workflows", "RATCHET_EVALUATION_TASK_QUEUE": "gpu"}
    found = Settings.from_environment("evaluation", timedelta(seconds=1), environment)
    assert (found.role, found.evaluation_task_queue, found.grace) == ("evaluation", "gpu", timedelta(seconds=1))


def test_what_the_worker_controller_says_of_a_version_counts_where_nobody_else_says_it() -> None:
    told = {"DATABASE_URL": URL, "TEMPORAL_DEPLOYMENT_NAME": "ratchet/ratchet", "TEMPORAL_WORKER_BUILD_ID": "0.1.0-5f"}
    found = Settings.from_environment(environment=told)
    assert (found.deployment, found.build_id) == ("ratchet/ratchet", "0.1.0-5f")
    assert Settings.from_environment(environment=told | {"RATCHET_BUILD_ID": "mine"}).build_id == "mine"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RATCHET_CONCURRENT_SAMPLES", "many"),
        ("RATCHET_CONCURRENT_SAMPLES", "0"),
        ("RATCHET_LARGEST_DATASET_MB", "1.5"),
        ("RATCHET_RATE_LIMITS", "{"),
        ("RATCHET_RATE_LIMITS", '{"m": {"requests_per_minute": 0}}'),
        ("RATCHET_ROLE", "everything"),
        ("RATCHET_RETENTION", "texts=30"),
        ("RATCHET_DEPLOYMENT", "ratchet.eu"),
    ],
)
def test_what_cannot_be_meant_is_named(name: str, value: str) -> None:
    with pytest.raises(BadSetting, match=name):
        Settings.from_environment(environment={"DATABASE_URL": URL, name: value})


def test_a_worker_without_a_database_is_told_what_to_set() -> None:
    with pytest.raises(BadSetting, match="DATABASE_URL is not set; give the PostgreSQL"):
        Settings.from_environment(environment={})


def test_a_variable_has_one_meaning() -> None:
    names = [variable.name for variable in VARIABLES]
    assert len(set(names)) == len(names)
