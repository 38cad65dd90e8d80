"""What the pages of Nomad and Consul are told of the visitor's rights: reading.

The servers' own answers would show the operator's token, and offer buttons that are refused here.
"""

from __future__ import annotations

import json
from typing import Any

AUTHORIZE = "/v1/internal/acl/authorize"
POLICY = "reading"

# Resources that Consul's page reads (/v1/internal/acl/authorize); keys and tokens are not among
# them.
_SHOWN = frozenset({"node", "service", "session", "peering"})

_TOKEN = {
    "AccessorID": "slipway-ui",
    "SecretID": "",
    "Name": "slipway ui: reading only",
    "Type": "client",
    "Policies": [POLICY],
    "Roles": None,
    "Global": False,
    "CreateTime": "1970-01-01T00:00:00Z",
    "ExpirationTime": None,
    "CreateIndex": 1,
    "ModifyIndex": 1,
}
_POLICY = {
    "Name": POLICY,
    "Description": "",
    "Rules": "",
    "RulesJSON": {
        "Namespaces": [
            {"Name": "*", "Policy": "", "Capabilities": ["list-jobs", "read-job", "read-logs"]}
        ],
        "Node": {"Policy": "read"},
        "Agent": {"Policy": "read"},
    },
    "CreateIndex": 1,
    "ModifyIndex": 1,
}
_OF_NOMAD = {
    "/v1/acl/token/self": _TOKEN,
    f"/v1/acl/policy/{POLICY}": _POLICY,
    "/v1/acl/policy/anonymous": {**_POLICY, "Name": "anonymous"},
}


def own_answer(upstream: str, path: str, body: bytes) -> Any | None:
    """The answer to a question about rights, which is not sent on; None for other questions."""
    if upstream == "nomad":
        return _OF_NOMAD.get(path)
    if (upstream, path) == ("consul", AUTHORIZE):
        return _authorized(body)
    return None


def _authorized(body: bytes) -> list[dict[str, Any]]:
    """Each question again, with its answer."""
    try:
        questions = json.loads(body)
    except (ValueError, RecursionError):
        return []
    if not isinstance(questions, list):
        return []
    return [
        {**each, "Allow": _allows(each.get("Access"), each.get("Resource"))}
        for each in questions
        if isinstance(each, dict)
    ]


def _allows(access: Any, resource: Any) -> bool:
    """Of any JSON value: lists and objects cannot be looked up."""
    if not isinstance(access, str) or not isinstance(resource, str):
        return False
    return access in {"read", "list"} and resource in _SHOWN
