"""Items of a dataset, as a spec says them."""

from __future__ import annotations

from typing import Any

from workflows.model.spec.dataset import Item


def items(*values: dict[str, Any]) -> list[Item]:
    return [Item.model_validate(value) for value in values]
