"""The questions of `slipway plan --compare`, answered by a real Prometheus."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
import yaml

from cli.applied import Applied, from_document
from cli.clusters.measured import measure
from slipway.planner.engines.vllm.metrics import METRICS
from slipway.planner.reports.comparison import Measured, MeasuredDevices
from tests.binaries import find
from tests.components.nomad_agent import running, wait_for
from tests.unit.cli.clusters.test_measured import allocation
from tests.unit.cli.documents import plan_document
from tests.waiting import HANG_S, until

pytestmark = [pytest.mark.binaries]

ADDRESS = "127.85.0.1:9090"  # of no other test
MIB = 2**20


def engine(tokens: int, *, engines: int = 1) -> str:
    """A page of vLLM 0.32 with some of its labels: all engines show the sum of their blocks."""
    return "# TYPE vllm:cache_config_info gauge\n" + "".join(
        f'vllm:cache_config_info{{block_size="16",engine="{number}",gpu_memory_utilization="0.9",'
        f'kv_cache_max_concurrency="{tokens / 8192}",kv_cache_size_tokens="{tokens}",'
        f'num_gpu_blocks="{engines * tokens // 16}"}} 1.0\n'
        for number in range(engines)
    )


def devices(used_mib: Mapping[str, float]) -> str:
    """A page of services/devices: what NVML tells of a device, by UUID."""
    return "".join(
        f'slipway_device_healthy{{{_labels(uuid)},reason=""}} 1.0\n'
        f"DCGM_FI_DEV_FB_USED{{{_labels(uuid)}}} {value}\n"
        for uuid, value in used_mib.items()
    )


def _labels(uuid: str) -> str:
    return (
        f'gpu="0",UUID="{uuid}",pci_bus_id="0000:3b:00.0",modelName="NVIDIA H100 80GB HBM3",'
        'Hostname="gpu-0",DCGM_FI_DRIVER_VERSION="580.95.05"'
    )


# By the service that Prometheus finds it as, and its model; the last are the figures of devices.
PAGES = {
    ("model-chat-3f9c1a-openai", "chat"): [engine(40_000, engines=2), engine(39_984, engines=2)],
    ("model-chat-3f9c1a-triton", "chat"): ["nv_inference_request_success 3\n"],
    ("model-plain-3f9c1a-openai", "plain"): [engine(23_296)],
    ("nomad-client", ""): [devices({"GPU-1": 71_000, "GPU-2": 76_000.5, "GPU-3": 80_000})],
}
ALLOCATIONS = [
    allocation("model-chat-3f9c1a", "GPU-1"),
    allocation("model-chat-3f9c1a", "GPU-2"),
    allocation("model-large-3f9c1a", "GPU-3"),
    allocation("model-plain-3f9c1a"),
]


@contextmanager
def page(text: str) -> Iterator[str]:
    """The address of a server of one page of metrics."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Measured]]:
    """What was measured once every page had been read."""
    folder = tmp_path_factory.mktemp("prometheus")
    with ExitStack() as stack:
        targets = [
            {
                "targets": [stack.enter_context(page(text)) for text in texts],
                "labels": {"service": service} | ({"model": model} if model else {}),
            }
            for (service, model), texts in PAGES.items()
        ]
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [{"job_name": "services", "static_configs": targets}],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        stack.enter_context(_prometheus(folder))
        applied = dataclasses.replace(
            from_document(plan_document()), prometheus=f"http://{ADDRESS}"
        )
        until(lambda: _up(applied) == sum(map(len, PAGES.values())), "every target")
        models = dict.fromkeys(("chat", "large", "plain"), METRICS)
        yield measure(applied, models, ALLOCATIONS, window_s=60)


@contextmanager
def _prometheus(folder: Path) -> Iterator[None]:
    log = folder / "log"
    command = [
        str(find("prometheus")),
        "--config.file=prometheus.yml",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={ADDRESS}",
    ]
    with (
        running(command, log, folder=folder) as process,
        httpx.Client(base_url=f"http://{ADDRESS}", trust_env=False, timeout=HANG_S) as client,
    ):
        wait_for(client, "/-/ready", process, log)
        yield


def _up(applied: Applied) -> int:
    answer = httpx.get(
        f"{applied.prometheus}/api/v1/query", params={"query": "sum(up)"}, trust_env=False
    )
    found = answer.raise_for_status().json()["data"]["result"]
    return int(found[0]["value"][1]) if found else 0


def test_a_replica_has_the_tokens_of_its_engines_and_the_smallest_counts(
    seen: dict[str, Measured],
) -> None:
    assert (seen["chat"].replicas, seen["chat"].kv_tokens) == (2, 2 * 39_984)
    assert (seen["plain"].replicas, seen["plain"].kv_tokens) == (1, 23_296)
    assert (seen["large"].replicas, seen["large"].kv_tokens) == (0, None)


def test_a_model_has_the_figures_of_its_own_devices_and_the_fullest_counts(
    seen: dict[str, Measured],
) -> None:
    chat = MeasuredDevices(
        models=("NVIDIA H100 80GB HBM3",),
        drivers=("580.95.05",),
        used_bytes=round(76_000.5 * MIB),
    )
    assert seen["chat"].devices == chat
    assert seen["large"].devices == dataclasses.replace(chat, used_bytes=80_000 * MIB)
    assert seen["plain"].devices is None
