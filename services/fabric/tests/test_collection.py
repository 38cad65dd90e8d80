"""What a host runs, when it does so again, and what it says."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from collection.commands import host_commands, measurements
from collection.host import HostCheck
from collection.measuring import take_part
from collection.running import output_of
from collection.settings import devices, key_of, settings
from fabric.planned import Planned, Thresholds, read_planned, read_thresholds
from fabric.requests import CHECK, LISTEN, MEASURE, REQUEST, Request, read_request, write_request
from jsonschema import Draft202012Validator
from reports import pool

from catalog import ROOT, thresholds

SCHEMA = Draft202012Validator(json.loads((ROOT / "schemas/fabric-host.schema.json").read_text()))
ROCE = {
    "kind": "roce",
    "devices": ["mlx5_0", "mlx5_1"],
    "rate_gbit_per_s": 100,
    "gid_index": 3,
    "gpudirect": True,
}
LOOPBACK = "127.0.0.1"


def planned(document: Mapping[str, Any]) -> tuple[Planned, Thresholds]:
    made = read_planned(document)
    return made, read_thresholds(thresholds(made.kind), made)


def tools(document: Mapping[str, Any]) -> list[str]:
    return [" ".join(each.words) for each in host_commands(planned(document)[0], "eth0")]


def test_a_host_runs_what_is_planned_and_no_more() -> None:
    assert tools({"kind": "tcp", "interface": "eth0"}) == ["ip -s link show eth0"]
    assert tools({"kind": "tcp", "interface": "eth0", "rate_gbit_per_s": 10}) == [
        "ethtool eth0",
        "ip -s link show eth0",
    ]
    assert tools(ROCE) == [
        "ibstat",
        "ibv_devinfo -v",
        "lspci -vvv",
        "sh -c ulimit -l",
        "lsmod",
        "cat /proc/driver/nvidia/version",
        "uname -r",
        "show_gids",
    ]


def test_adapters_are_measured_one_after_the_other_by_both_hosts_alike() -> None:
    made = measurements(*planned(ROCE), peer="10.0.0.2", port=20000)
    assert [(each.tool, each.device) for each in made] == [
        ("ib_write_bw", "mlx5_0"),
        ("ib_write_bw", "mlx5_1"),
        ("ib_write_lat", "mlx5_0"),
        ("ib_write_lat", "mlx5_1"),
    ]
    assert all(each.measures == (*each.listens, "10.0.0.2") for each in made)
    first = " ".join(made[0].listens)
    assert first == "ib_write_bw -d mlx5_0 -p 20000 -F -x 3 --report_gbits -s 65536"


def test_an_efa_is_measured_by_libfabric() -> None:
    efa = {"kind": "efa", "devices": ["rdmap0"], "rate_gbit_per_s": 100}
    (made,) = measurements(*planned(efa), peer="10.0.0.2", port=20000)
    assert " ".join(made.listens) == "fi_pingpong -p efa -B 20000"
    assert " ".join(made.measures) == "fi_pingpong -p efa -P 20000 10.0.0.2"


def test_a_tool_that_is_missing_has_no_output_and_one_that_fails_has_its_code() -> None:
    assert output_of("ibstat", ("no-such-tool-here",)) is None
    failed = output_of("ip_link", ("sh", "-c", "echo no; exit 3"))
    assert failed is not None
    assert (failed.text, failed.exit_code) == ("no\n", 3)
    slow = output_of("ip_link", ("sleep", "60"), within_s=0)
    assert slow is not None
    assert slow.exit_code == 124


def test_the_key_changes_with_firmware_link_and_plan_and_with_nothing_else(tmp_path: Path) -> None:
    def write(path: str, text: str) -> None:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def key(plan: Mapping[str, object] | None = None) -> str:
        return key_of(settings("eth0", tmp_path), plan or {"kind": "tcp"})

    write("sys/class/net/eth0/operstate", "up\n")
    write("sys/class/infiniband/mlx5_0/fw_ver", "28.39\n")
    first = key()
    write("sys/class/net/eth1/operstate", "down\n")
    write("sys/class/net/eth0/statistics/rx_bytes", "17\n")
    assert key() == first
    assert key({"kind": "tcp", "rate_gbit_per_s": 10}) != first
    write("sys/class/infiniband/mlx5_0/fw_ver", "28.40\n")
    second = key()
    write("sys/class/net/eth0/operstate", "down\n")
    assert len({first, second, key()}) == 3


def test_only_adapters_with_an_active_port_of_the_fabric_are_looked_at(tmp_path: Path) -> None:
    ports = {
        "rail/ports/1": ("4: ACTIVE", "InfiniBand"),
        "two-ports/ports/1": ("1: DOWN", "InfiniBand"),
        "two-ports/ports/2": ("4: ACTIVE", "InfiniBand"),
        "uncabled/ports/1": ("1: DOWN", "InfiniBand"),
        "storage/ports/1": ("4: ACTIVE", "Ethernet"),
    }
    for port, (state, layer) in ports.items():
        folder = tmp_path / "sys/class/infiniband" / port
        folder.mkdir(parents=True)
        (folder / "state").write_text(f"{state}\n")
        (folder / "link_layer").write_text(f"{layer}\n")
    assert devices("infiniband", tmp_path) == ["rail", "two-ports"]
    assert devices("roce", tmp_path) == ["storage"]


class FakeAgent:
    """Nomad's agent beside the host."""

    def __init__(self) -> None:
        self.request: Request | None = None

    def get(self, path: str) -> Any:
        assert path == "/v1/client/metadata"
        return {"Meta": {REQUEST: write_request(self.request)} if self.request else {}}


def host(folder: Path, agent: FakeAgent, port: int = 0) -> HostCheck:
    made: Any = agent
    return HostCheck(pool(), made, folder / "fabric.json", LOOPBACK, port)


def said(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "fabric.json").read_text())
    SCHEMA.validate(found)
    return found


def asked(role: str, request: str = "r1", **other: Any) -> Request:
    return Request(request, role, time.time() + 60, **other)


def test_a_host_checks_itself_when_it_joins_and_when_it_is_asked_to(tmp_path: Path) -> None:
    agent = FakeAgent()
    check = host(tmp_path, agent)
    check.look()
    first = said(tmp_path)
    assert (first["interface"], first["address"], first["request"]) == ("lo", LOOPBACK, "")
    assert [each["tool"] for each in first["outputs"]] == ["ip_link"]
    check.look()
    assert said(tmp_path) == first
    agent.request = asked(CHECK)
    check.look()
    assert said(tmp_path)["request"] == "r1"
    assert said(tmp_path)["at"] > first["at"]
    again = said(tmp_path)
    host(tmp_path, agent).look()  # the task was restarted: nothing is new
    assert said(tmp_path) == again


def test_a_request_whose_time_is_over_is_not_served(tmp_path: Path) -> None:
    agent = FakeAgent()
    agent.request = Request("old", CHECK, until=time.time() - 1)
    host(tmp_path, agent).look()
    assert said(tmp_path)["request"] == ""


@pytest.mark.parametrize("text", ["", "{", '{"id": "x"}', '{"id": 1, "color": "red"}'])
def test_a_request_of_another_version_is_none(text: str) -> None:
    assert read_request({REQUEST: text}) is None


def test_two_hosts_that_are_asked_to_measure_each_other(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    agents = FakeAgent(), FakeAgent()
    port = free_port()
    agents[0].request = asked(MEASURE, peer="two", address=LOOPBACK, port=port, peer_key="b")
    agents[1].request = asked(LISTEN, peer="one", address=LOOPBACK)
    listens = threading.Thread(target=host(tmp_path / "two", agents[1], port).look)
    listens.start()
    host(tmp_path / "one", agents[0]).look()
    (pair,) = said(tmp_path / "one")["pairs"]
    assert (pair["peer"], pair["peer_key"]) == ("two", "b")
    figures = json.loads(pair["outputs"][0]["text"])
    assert min(figures["gbit_per_s"], figures["received_gbit_per_s"]) > 0
    listens.join()
    assert (said(tmp_path / "two")["pairs"], said(tmp_path / "two")["request"]) == ([], "r1")


def test_a_host_that_finds_nobody_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collection.measuring.PATIENCE_S", 0.0)
    request = asked(MEASURE, peer="two", address=LOOPBACK, port=free_port())
    made = planned({"kind": "tcp", "interface": "lo"})
    (output,) = take_part(*made, request, LOOPBACK, 0)
    assert output.exit_code == 1
    assert output.text.startswith(f"from {LOOPBACK} to {LOOPBACK} port")


def free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as server:
        port: int = server.getsockname()[1]
        return port
