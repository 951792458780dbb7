"""What is told of a prompt or a dataset that is not there: the same as of one that another team has."""

from __future__ import annotations


def no_prompt(name: str) -> str:
    """Return what is told of a prompt."""
    return f"there is no prompt {name[:200]!r}; GET /v1/private/prompts lists those there are"


def no_dataset(dataset_id: str) -> str:
    """Return what is told of a dataset."""
    return f"there is no dataset {dataset_id[:64]!r}; GET /v1/private/datasets lists those there are"
