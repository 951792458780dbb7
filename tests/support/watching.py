"""What is shipped for those who watch: alert rules, the dashboard, the runbook, and which metrics they name."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from tests.support.documents import ROOT

FOLDER = ROOT / "deploy" / "observation"
RULES, RULE_TESTS, DASHBOARD = FOLDER / "alerts.yaml", FOLDER / "alerts.test.yaml", FOLDER / "dashboard.json"
METRIC = re.compile(r"\b(?:ratchet|temporal)_[a-z0-9_]+\b|\bup\b(?=\{)")
LABELS = re.compile(r"\{[^}]*\}|\bby \([^)]*\)|\"[^\"]*\"")


def rules() -> list[dict[str, Any]]:
    """Every alert."""
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def rule_expressions() -> list[str]:
    return [rule["expr"] for rule in rules()]


def dashboard() -> dict[str, Any]:
    told: dict[str, Any] = json.loads(DASHBOARD.read_text("utf-8"))
    return told


def dashboard_expressions() -> list[str]:
    """Every query of the dashboard, those of its variables among them."""
    panels = [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", [])]
    return panels + [one["query"]["query"] for one in dashboard()["templating"]["list"] if one["type"] == "query"]


def runbook() -> str:
    """The part of the operations page that says what to do."""
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    return text.partition("## Alerts")[2].partition("\n## ")[0]


def metrics_in(text: str) -> set[str]:
    """The metrics that an expression, or a text, names."""
    return set(METRIC.findall(LABELS.sub("", text)))
