"""Waiting until the platform answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import httpx
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from cli.applied import Applied
from cli.clusters.gateway import control_plane
from cli.clusters.nomad import Nomad
from cli.errors import CliError
from cli.progress import telling

POLL_S = 0.25
LEADER_TIMEOUT_S = 60.0
ROUTE_TIMEOUT_S = 60.0  # from ready replicas to Envoy's acknowledgement, on a busy machine


def wait_for_leader(nomad: Nomad, *, timeout_s: float = LEADER_TIMEOUT_S) -> None:
    """Waits for a leader. CliError when there is none in time."""
    polling = Retrying(
        stop=stop_after_delay(timeout_s),
        wait=wait_fixed(POLL_S),
        retry=retry_if_result(lambda has_leader: not has_leader),
    )
    try:
        polling(nomad.has_leader)
    except RetryError:
        raise CliError(
            f"Nomad has no leader after {timeout_s:.0f} s",
            fix="read the newest files of .slipway/<environment>/logs, then slipway start again",
        ) from None


def wait_for_models(applied: Applied, *, timeout_s: float) -> None:
    """Waits until Envoy has the routes and endpoints of every model; says what is missing."""
    deadline_s, missing = time.monotonic() + timeout_s, "the gateway"
    with telling(lambda: f"waiting for {missing}"):
        while missing := _missing(applied):
            if time.monotonic() > deadline_s:
                raise CliError(
                    f"not ready after {timeout_s:.0f} s: {missing}",
                    fix="slipway status shows the replicas, slipway logs JOB shows their output",
                )
            time.sleep(POLL_S)  # the control plane's status can only be polled


def _missing(applied: Applied) -> str:
    """The models that are not ready, each with its last known state; empty when all are."""
    try:
        status = control_plane(applied)
    except httpx.HTTPError as error:
        places = ", ".join(applied.xds)
        return f"the control plane at {places} ({error or type(error).__name__})"
    if not status["envoys"]:
        return "Envoy to connect to the control plane (slipway logs envoy --stderr)"
    return ", ".join(
        f"{model.name} ({_seen(state)})"
        for model in applied.models
        if not (state := status["models"].get(model.name) or {}).get("ready")
    )


def _seen(state: Mapping[str, Any]) -> str:
    if not state:
        return "no route yet"
    return "its replicas" if state.get("acknowledged") else "Envoy to acknowledge its route"
