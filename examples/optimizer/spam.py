"""What the optimizer tunes: a filter with two numbers."""

from collections.abc import Mapping
from typing import Any

from ratchet import ExperimentContext, Sample


def is_spam(configuration: Mapping[str, Any], sample: Sample, context: ExperimentContext) -> str:
    score = sample.input["score"] - configuration["trust"] * sample.input["known_sender"]
    return "spam" if score >= configuration["cut"] else "fine"
