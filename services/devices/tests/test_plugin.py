"""The plugin as a process, called as Nomad calls it."""

from __future__ import annotations

import os
import select
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from fake_nvml import FakeNvml
from google.protobuf import empty_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from nomad_plugin import messages
from plugin_process import COOKIE, HANGS_S, PLUGIN, Plugin


def started(nvml: FakeNvml, library: Path, record: Path) -> Plugin:
    return Plugin(record, LD_LIBRARY_PATH=str(library), NVML_TABLE=str(nvml.folder))


@pytest.fixture
def plugin(nvml: FakeNvml, nvml_library: Path, tmp_path: Path) -> Iterator[Plugin]:
    nvml.add(2)
    made = started(nvml, nvml_library, tmp_path / "faults.json")
    yield made
    made.close()


def health_by_uuid(response: Any) -> dict[str, bool]:
    return {each.ID: each.healthy for group in response.device_group for each in group.devices}


def test_the_handshake_names_a_socket_that_only_its_user_can_reach(plugin: Plugin) -> None:
    assert plugin.handshake.startswith("1|2|unix|/")
    assert plugin.handshake.endswith("|grpc")
    assert stat.S_IMODE(plugin.socket.parent.stat().st_mode) == 0o700
    channel = grpc.insecure_channel(f"unix:{plugin.socket}")
    stub: Any = health_pb2_grpc.HealthStub(channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(service="plugin"), timeout=HANGS_S)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    channel.close()


def test_it_says_that_it_is_a_device_plugin(plugin: Plugin) -> None:
    service = f"{messages.BASE}.BasePlugin"
    info = plugin.call(
        service, "PluginInfo", messages.PluginInfoRequest(), messages.PluginInfoResponse
    )
    assert (info.type, info.name) == (3, "slipway-devices")
    assert list(info.plugin_api_versions) == ["v0.1.0"]


def test_devices_are_announced_and_again_when_one_turns_bad(plugin: Plugin, nvml: FakeNvml) -> None:
    stream = plugin.stream(
        "Fingerprint", messages.FingerprintRequest(), messages.FingerprintResponse
    )
    first = next(stream)
    (group,) = first.device_group
    assert (group.vendor, group.device_type) == ("nvidia", "gpu")
    assert group.device_name == "NVIDIA H100 80GB HBM3"
    assert group.attributes["memory"].int_val == 81559
    assert group.attributes["memory"].unit == "MiB"
    assert group.attributes["driver_version"].string_val == "580.95.05"
    assert group.devices[0].hw_locality.pci_bus_id == "0000:10:00.0"
    uuids = list(health_by_uuid(first))
    assert health_by_uuid(first) == dict.fromkeys(uuids, True)
    nvml.xid(1, 79)
    second = next(stream)
    assert health_by_uuid(second) == {uuids[0]: True, uuids[1]: False}
    assert "XID 79" in second.device_group[0].devices[1].health_description


def test_a_task_gets_the_devices_that_it_reserved(plugin: Plugin) -> None:
    stream = plugin.stream(
        "Fingerprint", messages.FingerprintRequest(), messages.FingerprintResponse
    )
    _, second = health_by_uuid(next(stream))
    assert dict(plugin.reserve(second).envs) == {
        "CUDA_VISIBLE_DEVICES": second,
        "NVIDIA_VISIBLE_DEVICES": second,
    }


def test_a_device_that_the_host_does_not_have_is_refused_by_name(plugin: Plugin) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        plugin.reserve("GPU-of-another-host")
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    assert "GPU-of-another-host" in str(refused.value.details())


def test_statistics_have_the_memory_in_use(plugin: Plugin, nvml: FakeNvml) -> None:
    nvml.set(0, used=1 << 30)
    stream = plugin.stream(
        "Fingerprint", messages.FingerprintRequest(), messages.FingerprintResponse
    )
    first, _ = health_by_uuid(next(stream))
    request = messages.StatsRequest()
    request.collection_interval.seconds = 1
    (group,) = next(plugin.stream("Stats", request, messages.StatsResponse)).groups
    summary = group.instance_stats[first].summary
    assert (summary.float_numerator_val, summary.float_denominator_val) == (1024, 81559)


def test_a_plugin_that_is_only_asked_who_it_is_touches_no_driver(
    plugin: Plugin, nvml: FakeNvml, tmp_path: Path
) -> None:
    service = f"{messages.BASE}.BasePlugin"
    plugin.call(service, "PluginInfo", messages.PluginInfoRequest(), messages.PluginInfoResponse)
    assert not (tmp_path / "faults.json").exists()


def test_nomad_reads_the_level_of_what_it_says(plugin: Plugin, nvml: FakeNvml) -> None:
    stream = plugin.stream(
        "Fingerprint", messages.FingerprintRequest(), messages.FingerprintResponse
    )
    next(stream)
    nvml.xid(0, 79)
    next(stream)
    assert plugin.process.stderr is not None
    line = next(each for each in plugin.process.stderr if "XID 79" in each)
    assert line.startswith("[WARN] ")


def test_it_ends_when_it_is_told_to_and_leaves_no_socket(plugin: Plugin) -> None:
    stream = plugin.stream(
        "Fingerprint", messages.FingerprintRequest(), messages.FingerprintResponse
    )
    next(stream)
    plugin.call("plugin.GRPCController", "Shutdown", empty_pb2.Empty(), empty_pb2.Empty)
    assert plugin.process.wait(HANGS_S) == 0
    assert not plugin.socket.parent.exists()


def test_it_ends_with_the_process_that_started_it(
    nvml: FakeNvml, nvml_library: Path, tmp_path: Path
) -> None:
    nvml.add()
    starter = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, {str(PLUGIN)!r}, '--vendor', 'nvidia',"
        f" '--record', {str(tmp_path / 'faults.json')!r}], stdout=subprocess.PIPE, text=True)\n"
        "print(child.pid, child.stdout.readline().strip(), flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", starter],
        env={**os.environ, **COOKIE, "LD_LIBRARY_PATH": str(nvml_library)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    pid, handshake = parent.stdout.readline().split(maxsplit=1)
    child = os.pidfd_open(int(pid))
    parent.kill()
    parent.wait()
    poll = select.poll()
    poll.register(child, select.POLLIN)
    assert poll.poll(HANGS_S * 1000)
    os.close(child)
    assert not Path(handshake.split("|")[3]).parent.exists()


def test_sockets_of_plugins_that_were_killed_are_deleted(
    nvml: FakeNvml, nvml_library: Path, tmp_path: Path
) -> None:
    nvml.add()
    killed = started(nvml, nvml_library, tmp_path / "faults.json")
    killed.close()
    assert killed.socket.exists()
    started(nvml, nvml_library, tmp_path / "faults.json").close()
    assert not killed.socket.parent.exists()


def test_started_by_hand_it_says_what_it_is() -> None:
    environment = {name: value for name, value in os.environ.items() if name not in COOKIE}
    done = subprocess.run(
        [sys.executable, PLUGIN, "--vendor", "nvidia", "--record", "faults.json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "its agent starts" in done.stderr
