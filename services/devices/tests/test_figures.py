"""The figures as Prometheus reads them."""

from __future__ import annotations

import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from accelerators.driver import Accelerator
from certificates import Authority
from figures.exposition import exposition
from health.watch import LAST_XID, Known, Standing
from program.figures_page import FiguresServer
from prometheus_client.parser import text_string_to_metric_families

HANGS_S = 60.0
PROMETHEUS = "prometheus.slipway"
DEVICE = Accelerator(
    uuid="GPU-1",
    model="NVIDIA H100 80GB HBM3",
    memory_bytes=1 << 36,
    driver="580.95.05",
    pci_address="0000:3b:00.0",
)
KNOWN = Known(
    version=1,
    standings=(Standing(accelerator=DEVICE, faults=('XID 79: it has "fallen" off the bus',)),),
    figures={"GPU-1": {"DCGM_FI_DEV_GPU_TEMP": 54.0, LAST_XID: 79.0}},
)


def samples(text: str) -> dict[str, tuple[dict[str, str], float]]:
    families = text_string_to_metric_families(text)
    return {each.name: (each.labels, each.value) for family in families for each in family.samples}


def test_figures_have_the_names_and_labels_of_dcgm_exporter() -> None:
    found = samples(exposition("gpu-0", lambda: KNOWN)().decode())
    labels, value = found["DCGM_FI_DEV_GPU_TEMP"]
    assert value == 54
    assert labels == {
        "gpu": "0",
        "UUID": "GPU-1",
        "pci_bus_id": "0000:3b:00.0",
        "modelName": "NVIDIA H100 80GB HBM3",
        "Hostname": "gpu-0",
        "DCGM_FI_DRIVER_VERSION": "580.95.05",
    }
    assert found["DCGM_FI_DEV_XID_ERRORS"][1] == 79


def test_a_device_with_a_fault_is_told_with_its_reason() -> None:
    labels, value = samples(exposition("gpu-0", lambda: KNOWN)().decode())["slipway_device_healthy"]
    assert (value, labels["reason"]) == (0, 'XID 79: it has "fallen" off the bus')


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FiguresServer]:
    authority = Authority()
    for name in ("host", "prometheus.slipway", "other"):
        (tmp_path / name).mkdir()
        for file, content in authority.issue(name, [name], ["127.0.0.1"]).items():
            (tmp_path / name / file).write_text(content)
    figures = exposition("gpu-0", lambda: KNOWN)
    made = FiguresServer(("127.0.0.1", 0), tmp_path / "host", [PROMETHEUS], figures)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def ask(server: FiguresServer, client: Path | None, path: str = "/metrics") -> str:
    context = ssl.create_default_context()
    if client is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context.load_verify_locations(client / "ca.pem")
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_cert_chain(client / "cert.pem", client / "key.pem")
    url = f"https://127.0.0.1:{server.server_address[1]}{path}"
    with urllib.request.urlopen(url, timeout=HANGS_S, context=context) as answer:
        return str(answer.read().decode())


def test_prometheus_reads_them(server: FiguresServer, tmp_path: Path) -> None:
    assert "DCGM_FI_DEV_GPU_TEMP{" in ask(server, tmp_path / PROMETHEUS)


def test_another_name_of_the_same_authority_is_refused(
    server: FiguresServer, tmp_path: Path
) -> None:
    with pytest.raises(urllib.error.HTTPError, match="403"):
        ask(server, tmp_path / "other")


def test_a_client_without_a_certificate_is_refused(server: FiguresServer) -> None:
    with pytest.raises((urllib.error.URLError, OSError)):
        ask(server, None)


def test_another_path_is_not_found(server: FiguresServer, tmp_path: Path) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        ask(server, tmp_path / PROMETHEUS, "/")


def test_a_client_that_says_nothing_holds_up_nobody(server: FiguresServer, tmp_path: Path) -> None:
    with socket.create_connection(("127.0.0.1", server.server_address[1])):
        assert "DCGM_FI_DEV_GPU_TEMP" in ask(server, tmp_path / PROMETHEUS)
