"""What a model's endpoint means that says no, whoever's it is, and however it was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from activities.endpoints.endpoint_policy import (
    KEY_NAMES,
    KEY_REFUSED,
    LONGEST_RETRY_AFTER_SECONDS,
    OPENAI,
    THROTTLING,
    URL_NAMES,
    ModelPlace,
    fault_of_status,
    retry_after,
)
from activities.secret_texts import without_secrets
from activities.targets.faults import CandidateFault, Fault, Refused, Throttled
from workflows.model.failures import shorten

OUT_OF_MONEY: Final = frozenset(("insufficient_quota", "billing_not_active", "billing_hard_limit_reached", "billing_error"))
NO_SUCH_MODEL: Final = frozenset(("model_not_found", "invalid_model", "deployment_not_found"))
OVERLOAD: Final = frozenset(
    (
        *("overloaded_error", "rate_limit_error", "RESOURCE_EXHAUSTED", "UNAVAILABLE"),
        *("ThrottlingException", "ServiceUnavailableException", "ModelNotReadyException", "ServiceQuotaExceededException"),
    )
)
NOT_FOR_THIS_KEY: Final = frozenset(
    (
        *("API_KEY_INVALID", "API_KEY_EXPIRED", "authentication_error", "FAILED_PRECONDITION"),
        *("AccessDeniedException", "ExpiredTokenException", "IncompleteSignatureException", "UnrecognizedClientException"),
    )
)
"""What providers call their refusals, beside the status. Where it says more than the status does, it counts."""


@dataclass(frozen=True, slots=True)
class ModelRefusal:
    """What a model endpoint said in place of an answer."""

    status: int
    said: str
    labels: tuple[str, ...]
    """The words by which it names what is wrong, for programs."""
    headers: Mapping[str, str]
    retry_after: float | None = None
    """Seconds, where it says them in the body."""


def fault_of_refusal(refusal: ModelRefusal, model: str, place: ModelPlace, key: str) -> Fault:
    """What a refusal means. Shows nothing that looks like a key: some endpoints quote it."""
    said = shorten(without_secrets(" ".join(refusal.said.split()), key), 500)
    return fault_of_model(
        refusal.status,
        said,
        refusal.headers,
        codes=refusal.labels,
        model=model,
        url=place.url,
        provider=place.provider,
        told_delay=refusal.retry_after,
    )


def fault_of_model(
    status: int,
    said: str,
    headers: Mapping[str, str],
    *,
    codes: tuple[object, ...],
    model: str,
    url: str,
    provider: str = OPENAI,
    told_delay: float | None = None,
) -> Fault:
    """The fault that a status is, with the `codes` by which the error's body names it, and the delay that it tells."""
    known = {code for code in codes if isinstance(code, str)}
    key_name, at, kind = KEY_NAMES[provider], f"model {model!r} at {url}", f"http {status}"
    where = f"{at}: HTTP {status}: {said}"
    check_the_key = f"check {key_name} in the worker's environment, and that it may use this model"
    check_the_model = f"check the model's name and the URL ({URL_NAMES[provider]} or base_url)"
    if OUT_OF_MONEY & known or status == 402:
        return Refused(f"{where}; the account has no credit left, add some or use another {key_name}", kind=kind)
    if OVERLOAD & known or status in THROTTLING:
        asked = retry_after(headers)
        told = None if told_delay is None else min(told_delay, LONGEST_RETRY_AFTER_SECONDS)
        return Throttled(where, told if asked is None else asked, kind=kind)
    advice = check_the_key if status in KEY_REFUSED else check_the_model
    fault = fault_of_status(status, said, headers, place=at, advice=advice, candidate="the model")
    if isinstance(fault, CandidateFault) and NOT_FOR_THIS_KEY & known:
        return Refused(f"{where}; {check_the_key}", kind=kind)
    if isinstance(fault, CandidateFault) and NO_SUCH_MODEL & known:
        return Refused(f"{where}; {check_the_model}", kind=kind)
    return fault
