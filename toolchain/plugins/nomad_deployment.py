"""Waiting for a registered Nomad job: its evaluations, then its deployment where it has one."""

import json
import time
from typing import Any

from toolchain.plugins.json_api import JsonApi
from toolchain.plugins.resource import Operation, ProviderError
from toolchain.plugins.wire import Properties

DEFAULT_TIMEOUT_S = 300.0
# One blocking query; short, because an interrupted update is noticed between two of them.
QUERY_WAIT_S = 2


class DeploymentError(ProviderError):
    """The job is registered, and did not come up."""


class _Waiter:
    """Reads one thing again and again with Nomad's blocking queries until a deadline."""

    def __init__(self, api: JsonApi, namespace: str, operation: Operation) -> None:
        self._api = api
        self._namespace = namespace
        self._cancelled = operation.cancelled
        self._timeout_s = operation.timeout_s or DEFAULT_TIMEOUT_S
        self._deadline = time.monotonic() + self._timeout_s

    def until_status(self, path: str, pending: frozenset[str]) -> dict[str, Any]:
        """What is at `path` once its Status is none of `pending`."""
        index = "0"
        while True:
            query = {"namespace": self._namespace, "index": index, "wait": f"{QUERY_WAIT_S}s"}
            try:
                content, headers = self._api.call("GET", path, query)
            except ProviderError as problem:
                raise DeploymentError(str(problem)) from problem
            found: dict[str, Any] = json.loads(content)
            if found["Status"] not in pending:
                return found
            index = headers.get("X-Nomad-Index", "0")
            description = found.get("StatusDescription") or found["Status"]
            if self._cancelled.is_set():
                raise DeploymentError(f"interrupted; last seen: {description}")
            if time.monotonic() > self._deadline:
                raise DeploymentError(f"not done after {self._timeout_s:g} s: {description}")


def wait_for_deployment(
    api: JsonApi, namespace: str, evaluation_id: str, operation: Operation
) -> Properties:
    """The deployment's id and status as outputs, once it is successful.

    A job without a deployment (system, batch, `max_parallel = 0`) is done when it is scheduled.

    Raises:
        DeploymentError: it failed, was interrupted, or took longer than the operation's timeout.
    """
    waiter = _Waiter(api, namespace, operation)
    evaluation: dict[str, Any] = {"NextEval": evaluation_id}
    while evaluation.get("NextEval"):
        path = f"/v1/evaluation/{evaluation['NextEval']}"
        evaluation = waiter.until_status(path, frozenset({"pending", "blocked"}))
        if evaluation["Status"] != "complete":
            raise DeploymentError(f"evaluation failed: {evaluation.get('StatusDescription')}")
    deployment_id = evaluation.get("DeploymentID")
    if not deployment_id:
        return {"deploymentId": "", "deploymentStatus": ""}
    deployment = waiter.until_status(
        f"/v1/deployment/{deployment_id}",
        frozenset({"initializing", "pending", "blocked", "unblocking", "running", "paused"}),
    )
    if deployment["Status"] != "successful":
        raise DeploymentError(
            f"deployment {deployment_id!r} terminated with status {deployment['Status']!r}: "
            f"{deployment.get('StatusDescription')!r}"
        )
    return {"deploymentId": deployment_id, "deploymentStatus": deployment["Status"]}
