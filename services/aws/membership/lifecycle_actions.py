"""Tells the Auto Scaling group that this node has joined, is still leaving, or has left.

Amazon EC2 Auto Scaling User Guide, "Complete a lifecycle action". The calls are those of the API's
version 2011-01-01.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.parse
import urllib.request

from instance import metadata
from instance.refusal import RefusedError, refusal
from instance.signing import signed_headers
from program.errors import HostError

from membership.node import Node

TIMEOUT_S = 20
VERSION = "2011-01-01"
NO_ACTION = "No active Lifecycle Action"  # AWS's words where nothing waits for this instance


def complete(node: Node, hook: str) -> bool:
    """The group goes on. False if it was not waiting at this hook. Raises HostError."""
    return _ask(node, hook, "CompleteLifecycleAction", LifecycleActionResult="CONTINUE")


def heartbeat(node: Node, hook: str) -> bool:
    """The group waits on. False if it was not waiting at this hook. Raises HostError."""
    return _ask(node, hook, "RecordLifecycleActionHeartbeat")


def _ask(node: Node, hook: str, action: str, **members: str) -> bool:
    asked = {
        "Action": action,
        "Version": VERSION,
        "AutoScalingGroupName": node.boot.group.name,
        "LifecycleHookName": hook,
        "InstanceId": node.instance,
        **members,
    }
    try:
        _post(node.boot.region, urllib.parse.urlencode(asked).encode())
    except RefusedError as error:
        if NO_ACTION in str(error):
            return False
        raise HostError(f"{action}: {error}") from None
    except OSError as error:
        raise HostError(f"{action}: {error}") from None
    return True


def _post(region: str, body: bytes) -> None:
    base = os.environ.get("AWS_ENDPOINT_URL", f"https://autoscaling.{region}.amazonaws.com")
    url = f"{base.rstrip('/')}/"
    headers = signed_headers(
        metadata.credentials(),
        region=region,
        service="autoscaling",
        method="POST",
        url=url,
        body=body,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S):  # noqa: S310  (AWS)
            pass
    except urllib.error.HTTPError as error:
        raise refusal("", error) from None
