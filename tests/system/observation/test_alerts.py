"""Alerts and dashboard as their own tools see them: Prometheus's for the rules, a schema for the dashboard."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import jsonschema
import pytest
import yaml

from tests.support.documents import ROOT
from tests.support.watching import FOLDER, RULE_TESTS, RULES, dashboard, rules, runbook

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is missing (package prometheus)")

WHAT_AN_ENTRY_SAYS = ("Means", "Look at", "Do")

TARGET: dict[str, Any] = {
    "type": "object",
    "required": ["refId", "expr", "datasource"],
    "additionalProperties": False,
    "properties": {
        "refId": {"type": "string", "pattern": "^[A-Z]$"},
        "expr": {"type": "string", "minLength": 1},
        "legendFormat": {"type": "string"},
        "datasource": {"$ref": "#/$defs/datasource"},
    },
}
DASHBOARD_SCHEMA: dict[str, Any] = {
    "$defs": {
        "datasource": {
            "type": "object",
            "required": ["type", "uid"],
            "additionalProperties": False,
            "properties": {"type": {"const": "prometheus"}, "uid": {"const": "${datasource}"}},
        },
        "place": {
            "type": "object",
            "required": ["x", "y", "w", "h"],
            "additionalProperties": False,
            "properties": {name: {"type": "integer", "minimum": 0, "maximum": 200} for name in ("x", "y", "w", "h")},
        },
        "panel": {
            "type": "object",
            "required": ["id", "type", "title", "gridPos"],
            "additionalProperties": False,
            "properties": {
                "id": {"type": "integer", "minimum": 1},
                "type": {"enum": ["row", "stat", "timeseries"]},
                "title": {"type": "string", "minLength": 1},
                "description": {"type": "string"},
                "gridPos": {"$ref": "#/$defs/place"},
                "datasource": {"$ref": "#/$defs/datasource"},
                "targets": {"type": "array", "items": TARGET, "minItems": 1},
                "fieldConfig": {
                    "type": "object",
                    "required": ["defaults", "overrides"],
                    "properties": {"defaults": {"type": "object"}, "overrides": {"type": "array"}},
                },
                "options": {"type": "object"},
                "collapsed": {"type": "boolean"},
                "panels": {"type": "array", "maxItems": 0},
            },
            "if": {"properties": {"type": {"enum": ["stat", "timeseries"]}}},
            "then": {"required": ["targets", "datasource", "fieldConfig", "description"]},
        },
        "variable": {
            "type": "object",
            "required": ["name", "type", "label"],
            "properties": {"name": {"type": "string"}, "type": {"enum": ["datasource", "query"]}, "label": {"type": "string"}},
        },
    },
    "type": "object",
    "required": ["uid", "title", "schemaVersion", "panels", "templating", "time", "refresh", "tags"],
    "additionalProperties": False,
    "properties": {
        "uid": {"type": "string", "pattern": "^[a-z0-9-]{1,40}$"},
        "title": {"type": "string"},
        "description": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "schemaVersion": {"type": "integer", "minimum": 39},
        "editable": {"type": "boolean"},
        "refresh": {"type": "string", "pattern": "^[0-9]+[smh]$"},
        "time": {"type": "object", "required": ["from", "to"]},
        "templating": {
            "type": "object",
            "required": ["list"],
            "properties": {"list": {"type": "array", "items": {"$ref": "#/$defs/variable"}}},
        },
        "panels": {"type": "array", "items": {"$ref": "#/$defs/panel"}, "minItems": 1},
    },
}


def promtool(*arguments: str) -> str:
    done = subprocess.run(["promtool", *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@needs_promtool
def test_the_rules_are_rules() -> None:
    assert f"{len(rules())} rules found" in promtool("check", "rules", RULES.name)


@needs_promtool
def test_the_configuration_of_prometheus_is_one() -> None:
    promtool("check", "config", "prometheus.yaml")


@needs_promtool
def test_each_alert_fires_when_it_should_and_not_before() -> None:
    assert "SUCCESS" in promtool("test", "rules", RULE_TESTS.name)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_each_alert_is_tested_firing_and_silent(rule: dict[str, Any]) -> None:
    tests = [one for group in yaml.safe_load(RULE_TESTS.read_text("utf-8"))["tests"] for one in group["alert_rule_test"]]
    mine = [bool(one["exp_alerts"]) for one in tests if one["alertname"] == rule["alert"]]
    assert set(mine) == {True, False}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_each_alert_has_an_entry_that_says_what_it_means_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"page", "ticket"}
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert (ROOT / page).is_file()
    assert anchor == rule["alert"].lower()
    entry = runbook().partition(f"### {rule['alert']}\n")[2].partition("\n### ")[0]
    assert [word for word in WHAT_AN_ENTRY_SAYS if f"**{word}**" in entry] == list(WHAT_AN_ENTRY_SAYS)


def test_no_entry_is_about_an_alert_that_there_is_not() -> None:
    entries = [line.removeprefix("### ") for line in runbook().splitlines() if line.startswith("### ")]
    assert entries == [rule["alert"] for rule in rules()]


def test_the_dashboard_is_one() -> None:
    validator = jsonschema.Draft202012Validator(DASHBOARD_SCHEMA)
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(dashboard())] == []


def test_no_two_panels_of_the_dashboard_have_one_id_or_one_place() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
