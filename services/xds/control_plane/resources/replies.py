"""Bodies of the gateway's own responses, in the forms that clients of OpenAI's APIs and of
Anthropic's Messages API expect."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

RETRY_AFTER_S = 5
_NAMES_SHOWN = 50
MESSAGES_PATH = "/v1/messages"  # and what is below it
STORED_PATHS = "/v1/responses/"  # of responses that were stored elsewhere

NO_HEALTHY_REPLICA = "no healthy replica of this model is available, try again shortly"
REPLICA_LOST = (
    "every replica that this request was sent to was lost before it answered, or the answer had"
    " begun; try again shortly"
)
OVERLOADED = "every replica of this model is at its request limit, try again shortly"
MODEL_MISSING = "the request body must be JSON with a 'model' of type string"
MODEL_NAMELESS = "the request's first message must name a model"
BODY_TOO_LARGE = "the request body is larger than this gateway accepts"
INFERENCE_METHODS_ONLY = "the gateway serves Triton's inference methods only"
NO_SUCH_PATH = (
    "unknown path: this gateway serves OpenAI's APIs and Anthropic's Messages API under /v1/, and"
    " Triton's gRPC API"
)
NOTHING_STORED = "responses are not stored: send the whole conversation as 'input'"


def error(message: str, *, kind: str, code: str | None, param: str | None = None) -> dict[str, Any]:
    """An OpenAI error object."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def message_error(message: str, *, kind: str) -> dict[str, Any]:
    """An error of the Messages API; its types and their statuses are those of
    https://docs.anthropic.com/en/api/errors."""
    return {"type": "error", "error": {"type": kind, "message": message}}


def nothing_stored() -> dict[str, Any]:
    kind, code = "invalid_request_error", "response_not_found"
    return error(NOTHING_STORED, kind=kind, code=code, param="response_id")


def unknown_model(served: Iterable[str]) -> str:
    """The message for a model that does not exist. It lists at most 50 of the models served over
    the client's protocol."""
    names = list(served)
    if not names:
        return "the model does not exist: no model is served over this protocol at the moment"
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"the model does not exist; served are: {', '.join(names[:_NAMES_SHOWN])}{more}"


def only_grpc(name: str) -> str:
    return f"the model '{name}' is served over Triton's gRPC API only, not over the OpenAI API"


def only_http(name: str) -> str:
    return f"the model '{name}' is served over the OpenAI API only, not over Triton's gRPC API"


def model_object(name: str) -> dict[str, Any]:
    """One entry of `GET /v1/models`. `created` is fixed, because the gateway does not know the
    time."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "slipway"}


def model_list(names: Iterable[str]) -> dict[str, Any]:
    """The body of `GET /v1/models`: models and aliases."""
    return {"object": "list", "data": [model_object(name) for name in names]}


def text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))
