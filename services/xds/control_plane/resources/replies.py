"""Bodies that the gateway answers by itself, in the shape OpenAI clients expect."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..routing import Route

RETRY_AFTER_S = 5
_NAMES_SHOWN = 50

NO_HEALTHY_REPLICA = "no healthy replica of this model is available, try again shortly"
OVERLOADED = "every replica of this model is at its request limit, try again shortly"
MODEL_MISSING = "the request body must be JSON with a 'model' of type string"
BODY_TOO_LARGE = "the request body is larger than this gateway accepts"
NO_SUCH_PATH = "unknown path: this gateway serves the OpenAI API under /v1/ and Triton's gRPC API"


def error(message: str, *, kind: str, code: str | None, param: str | None = None) -> dict[str, Any]:
    """An OpenAI error object."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def unknown_model(routes: Iterable[Route]) -> str:
    """What a client reads who asked for a model that is not served. At most 50 names."""
    names = sorted(name for route in routes for name in route.names)
    if not names:
        return "the model does not exist: no model is served at the moment"
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"the model does not exist; served are: {', '.join(names[:_NAMES_SHOWN])}{more}"


def model_object(name: str) -> dict[str, Any]:
    """One entry of `GET /v1/models`. `created` is fixed: the gateway does not know the hour."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "slipway"}


def model_list(routes: Iterable[Route]) -> dict[str, Any]:
    """The body of `GET /v1/models`: every model and alias."""
    names = sorted(name for route in routes for name in route.names)
    return {"object": "list", "data": [model_object(name) for name in names]}


def text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))
