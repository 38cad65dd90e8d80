"""Programs that stand apart find a model's replicas by the names that components give services."""

from __future__ import annotations

import runpy
from pathlib import Path

from components.serving.services import SUFFIXES, service_of
from slipway.plan.platform import PROTOCOLS

SERVICES = Path(__file__).parents[2] / "services"


def test_every_protocol_of_the_plan_has_a_service() -> None:
    assert tuple(SUFFIXES) == PROTOCOLS


def test_gates_wait_for_the_services_that_replicas_register() -> None:
    (path,) = SERVICES.glob("*/gates/protocols.py")
    gates = runpy.run_path(str(path))
    for protocol in PROTOCOLS:
        assert gates["service_of"]("model-a-1", protocol) == service_of("model-a-1", protocol)


def test_the_control_plane_routes_to_the_services_that_replicas_register() -> None:
    routing = runpy.run_path(str(SERVICES / "xds/control_plane/routing.py"))
    backend = routing["Backend"](service="model-a-1")
    for protocol in PROTOCOLS:
        assert backend.cluster(protocol) == service_of("model-a-1", protocol)
