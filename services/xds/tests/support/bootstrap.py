"""The bootstrap that the platform renders, from its plan's values."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[4]


def bootstrap(address: str, *, metrics_port: int, xds_port: int) -> dict[str, Any]:
    """components/gateway/envoy_bootstrap.py applied to a gateway at this address.

    The one place where this service's tests read the rest of the repository: what Envoy runs with
    in the tests is what it runs with in production.
    """
    for folder in (_ROOT, _ROOT / "src"):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    plan = importlib.import_module("slipway.plan.platform")
    endpoint = importlib.import_module("slipway.plan.endpoint")
    renderer = importlib.import_module("components.gateway.envoy_bootstrap")
    here = endpoint.Endpoint(scheme="http", host=address, port=0)
    envoy = plan.EnvoyPlan(
        name="envoy",
        xds_name="xds",
        pool="edge",
        listener=here,
        metrics=dataclasses.replace(here, port=metrics_port),
        xds=dataclasses.replace(here, port=xds_port),
        xds_http=here,
    )
    return dict(renderer.envoy_bootstrap(envoy))
