"""Envoy's bootstrap: its content, and that a real Envoy accepts it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from components.certificates.envoy_secrets import secret_files
from components.gateway.envoy_bootstrap import RUNTIME_LAYERS, XDS_CLUSTER, envoy_bootstrap
from slipway.plan.certificate_names import peer_names
from slipway.plan.endpoint import Endpoint
from slipway.plan.platform import EnvoyPlan
from tests.components.issued import certificate_files
from tests.waiting import HANG_S


def _at(port: int) -> Endpoint:
    return Endpoint(scheme="http", host="127.94.0.5", port=port)


ENVOY = EnvoyPlan(
    name="envoy",
    xds_name="xds",
    pool="edge",
    node="edge-0",
    listener=_at(8080),
    metrics=_at(9901),
    xds=_at(18000),
    xds_http=_at(18001),
)
PEERS = peer_names("test")


def _envoy() -> str:
    explicit = os.environ.get("SLIPWAY_TEST_ENVOY")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("SLIPWAY_CACHE") or Path(home) / "slipway")
    cached = [str(path) for path in sorted(cache.glob("tools/bin/envoy-*/envoy"))]
    path = explicit or (cached[-1] if cached else shutil.which("envoy"))
    return path or pytest.skip("needs envoy: set SLIPWAY_TEST_ENVOY to its path")


@pytest.mark.binaries
def test_a_real_envoy_accepts_it(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    for file in secret_files(str(tmp_path)):
        (tmp_path / file.path).write_text(file.content, encoding="utf-8")
    for name, content in certificate_files().items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    config = tmp_path / "envoy.json"
    config.write_text(json.dumps(envoy_bootstrap(ENVOY, PEERS)), encoding="utf-8")

    result = subprocess.run(
        [_envoy(), "--mode", "validate", "-c", str(config)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    assert "OK" in result.stdout + result.stderr
    assert "[warning]" not in result.stderr


def test_the_control_plane_is_beside_the_gateway_unless_told_otherwise() -> None:
    def addresses(document: dict[str, object]) -> list[tuple[str, int]]:
        cluster, _ = document["static_resources"]["clusters"]  # type: ignore[index]
        assert cluster["name"] == XDS_CLUSTER
        (locality,) = cluster["load_assignment"]["endpoints"]
        sockets = [e["endpoint"]["address"]["socket_address"] for e in locality["lb_endpoints"]]
        return [(socket["address"], socket["port_value"]) for socket in sockets]

    replicas = envoy_bootstrap(ENVOY, PEERS, xds_addresses=("10.0.0.1", "10.0.0.2"))

    assert addresses(envoy_bootstrap(ENVOY, PEERS)) == [("127.94.0.5", 18000)]
    assert addresses(replicas) == [("10.0.0.1", 18000), ("10.0.0.2", 18000)]


def test_the_metrics_listen_on_the_gateways_own_address() -> None:
    (listener,) = envoy_bootstrap(ENVOY, PEERS)["static_resources"]["listeners"]

    assert listener["address"] == {"socket_address": {"address": "127.94.0.5", "port_value": 9901}}


def test_the_metrics_are_for_prometheus_the_operator_and_the_own_node() -> None:
    (listener,) = envoy_bootstrap(ENVOY, PEERS)["static_resources"]["listeners"]
    (chain,) = listener["filter_chains"]
    context = chain["transport_socket"]["typed_config"]
    common = context["common_tls_context"]
    names = common["combined_validation_context"]["default_validation_context"]

    assert context["require_client_certificate"] is True
    assert [each["matcher"]["exact"] for each in names["match_typed_subject_alt_names"]] == [
        "prometheus.test.slipway",
        "operator.test.slipway",
        "127.94.0.5",
    ]


def test_the_admin_interface_has_no_address_but_a_socket_in_the_tasks_folder() -> None:
    document = envoy_bootstrap(ENVOY, PEERS)
    _, admin = document["static_resources"]["clusters"]
    (endpoint,) = admin["load_assignment"]["endpoints"][0]["lb_endpoints"]

    assert document["admin"] == {"address": {"pipe": {"path": "admin.sock", "mode": 0o600}}}
    assert endpoint["endpoint"]["address"] == {"pipe": {"path": "admin.sock"}}


def test_everything_else_comes_by_delta_ads_with_a_quick_reconnect() -> None:
    document = envoy_bootstrap(ENVOY, PEERS)

    resources = document["dynamic_resources"]
    assert resources["ads_config"]["api_type"] == "DELTA_GRPC"
    (service,) = resources["ads_config"]["grpc_services"]
    assert service["envoy_grpc"]["retry_policy"]["retry_back_off"]["max_interval"] == "1s"
    (listener,) = document["static_resources"]["listeners"]
    clusters = [cluster["name"] for cluster in document["static_resources"]["clusters"]]
    assert (listener["name"], clusters) == ("metrics", [XDS_CLUSTER, "admin"])
    layers = [layer["name"] for layer in document["layered_runtime"]["layers"]]
    assert layers == ["static", *RUNTIME_LAYERS, "admin"]


def test_it_is_the_same_every_time() -> None:
    first, second = (json.dumps(envoy_bootstrap(ENVOY, PEERS)) for _ in range(2))

    assert first == second
