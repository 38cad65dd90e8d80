"""Waits for a registered Nomad job: its evaluations, then its deployment if it has one."""

import json
import time
from typing import Any

from toolchain.plugins.json_api import JsonApi
from toolchain.plugins.resource import Operation, ProviderError
from toolchain.plugins.wire import Properties

DEFAULT_TIMEOUT_S = 300.0
# The time of one blocking query; short, because interrupts are only noticed between queries.
QUERY_WAIT_S = 2


def wait_for_deployment(
    api: JsonApi, namespace: str, evaluation_id: str, operation: Operation
) -> Properties:
    """The deployment's id and status as outputs, once it is successful.

    A job without a deployment (system, batch, `max_parallel = 0`) is done once it is scheduled.

    Raises:
        ProviderError: it failed, was interrupted, or took longer than the operation's timeout.
    """
    timeout_s = operation.timeout_s or DEFAULT_TIMEOUT_S
    deadline = time.monotonic() + timeout_s

    def settled(path: str, pending: set[str]) -> dict[str, Any]:
        """The object at `path` once its Status is not one of `pending`."""
        index = "0"
        while True:
            query = {"namespace": namespace, "index": index, "wait": f"{QUERY_WAIT_S}s"}
            content, headers = api.call("GET", path, query)
            found: dict[str, Any] = json.loads(content)
            if found["Status"] not in pending:
                return found
            index = headers.get("X-Nomad-Index", "0")
            description = found.get("StatusDescription") or found["Status"]
            if operation.cancelled.is_set():
                raise ProviderError(f"interrupted; last seen: {description}")
            if time.monotonic() > deadline:
                raise ProviderError(f"not done after {timeout_s:g} s: {description}")

    evaluation: dict[str, Any] = {"NextEval": evaluation_id}
    while evaluation.get("NextEval"):
        evaluation = settled(f"/v1/evaluation/{evaluation['NextEval']}", {"pending", "blocked"})
        if evaluation["Status"] != "complete":
            raise ProviderError(f"evaluation failed: {evaluation.get('StatusDescription')}")
    deployment_id = evaluation.get("DeploymentID")
    if not deployment_id:
        return {"deploymentId": "", "deploymentStatus": ""}
    deployment = settled(
        f"/v1/deployment/{deployment_id}",
        {"initializing", "pending", "blocked", "unblocking", "running", "paused"},
    )
    if deployment["Status"] != "successful":
        raise ProviderError(
            f"deployment {deployment_id!r} terminated with status {deployment['Status']!r}: "
            f"{deployment.get('StatusDescription')!r}"
        )
    return {"deploymentId": deployment_id, "deploymentStatus": deployment["Status"]}
