"""Ratchet's search attributes, made known to a Temporal server by whoever serves there."""

from __future__ import annotations

from typing import cast

import structlog
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError

from workflows.search_attributes import SEARCH_ATTRIBUTES

log = structlog.get_logger("search attributes")


async def register_search_attributes(client: Client) -> bool:
    """Make the server know Ratchet's search attributes. False where it may not: that costs the filter, never a run."""
    try:
        listing = await client.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace=client.namespace))
        missing = {
            key.name: cast("IndexedValueType.ValueType", int(key.indexed_value_type))
            for key in SEARCH_ATTRIBUTES
            if key.name not in listing.custom_attributes
        }
        if missing:
            await client.operator_service.add_search_attributes(
                AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
            )
            log.info("search attributes registered", names=sorted(missing))
    except RPCError as error:
        log.warning("search attributes are not available; runs cannot be filtered by them", error=str(error))
        return False
    return True
