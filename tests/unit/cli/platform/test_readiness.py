"""Waiting until the platform answers."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.cli.applied import from_document
from slipway.cli.errors import CliError
from slipway.cli.platform import readiness
from slipway.cli.platform.nomad import Nomad
from tests.unit.cli.addresses import NETWORK
from tests.unit.cli.conftest import Serve
from tests.unit.cli.documents import plan_document


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "POLL_S", 0.02)


def test_models_are_waited_for_until_the_deadline_and_the_last_state_is_reported(
    serve: Serve,
) -> None:
    applied = from_document(plan_document())
    with pytest.raises(CliError, match=r"the control plane at http://127\.96\.\d+\.32"):
        readiness.wait_for_models(applied, timeout_s=0.1)
    states: dict[str, dict[str, bool]] = {
        "smollm2": {"ready": True},
        "sim-a": {"ready": False, "acknowledged": True},
    }
    status: dict[str, Any] = {"models": states, "envoys": []}
    serve({"GET /status": (200, status)}, address=f"{NETWORK}.32", port=18001)
    with pytest.raises(CliError, match="slipway logs envoy"):
        readiness.wait_for_models(applied, timeout_s=0.1)
    status["envoys"].append({"node": "edge-0"})
    with pytest.raises(CliError, match=r"sim-a \(its replicas\)"):
        readiness.wait_for_models(applied, timeout_s=0.1)
    states["sim-a"]["ready"] = True
    readiness.wait_for_models(applied, timeout_s=0.1)


def test_a_cluster_without_a_leader_is_waited_for_until_the_deadline(serve: Serve) -> None:
    leader: list[object] = [200, b'""']
    server = serve({"GET /v1/status/leader": leader})
    with Nomad(server.address, None) as nomad:
        with pytest.raises(CliError, match="no leader"):
            readiness.wait_for_leader(nomad, timeout_s=0.3)
        assert len(server.asked) > 1
        leader[1] = b'"127.96.0.2:4647"'
        readiness.wait_for_leader(nomad, timeout_s=5)
