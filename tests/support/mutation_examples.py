"""A policy with factors of every kind, for mutations."""

from __future__ import annotations

from typing import Any

from tests.support.spec_building import request
from workflows.model.spec.factors import Configuration, Factor

POLICY: dict[str, Any] = {
    "health_threshold": {"value": 0.3, "change": "structured", "type": "number", "min": 0, "max": 1},
    "hunger_threshold": {"value": 0.5, "change": "structured", "type": "number", "min": 0, "max": 1},
    "max_exploration_steps": {"value": 100, "change": "structured", "type": "integer", "min": 10, "max": 1000},
    "max_combat_attempts": {"value": 3, "change": "structured", "type": "integer", "min": 1, "max": 50},
    "risk_tolerance": {"value": 0.5, "change": "structured", "type": "number", "min": 0, "max": 1},
    "skill_priority": {
        "value": ["explore", "fight", "eat", "use_item", "flee"],
        "change": "structured",
        "type": "order",
    },
    "model": "small",
}
FACTORS: dict[str, Factor] = request(
    configuration=POLICY, target={"kind": "python", "ref": "a:t"}, optimizer="none"
).configuration
PARAMETERS: Configuration = {name: factor.value for name, factor in FACTORS.items()}
