"""A model's route: where the gateway sends its requests, and what it allows them."""

from __future__ import annotations

import dataclasses

from slipway.plan.draft import ModelDraft
from slipway.plan.platform import JsonObject

ROUTE_VERSION = 4


def route_document(model: ModelDraft, service: str) -> JsonObject:
    """schemas/route.schema.json, with all requests to the replicas of `service`."""
    proxy = model.replica.proxy
    tls = {} if proxy is None else {"server_name": proxy.server_name}
    return {
        "schema_version": ROUTE_VERSION,
        "model": model.name,
        "aliases": list(model.aliases),
        "protocols": list(model.protocols),
        "backends": [{"service": service, "weight": 100, **tls}],
        **dataclasses.asdict(model.limits),
        "routing": {
            key: value
            for key, value in dataclasses.asdict(model.routing).items()
            if value is not None
        },
    }
