"""The units of agents under systemd: what they may do, and paths of any form."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from host.document import Agent, Unit
from host.unit_files import agent_unit, firewall_unit, temporary_files, watcher_unit
from program.folders import Folders

FOLDERS = Folders(
    run=Path("/var/lib/slipway/dev"), cache=Path("/opt/slipway"), scratch=Path("/run/slipway/dev")
)
AGENT = Agent(
    host="cpu-0",
    name="nomad",
    stage=5,
    command=("/opt/slipway/nomad", "agent", "-config=/var/lib/slipway/dev/config.json"),
    ready_url="https://10.0.0.1:4646/",
    ready_timeout_s=120,
    stop_timeout_s=30,
)
ALONE = Unit(user="slipway-nomad", after=("consul",), limits={"open_files": 1024})
WITH_TASKS = Unit(
    user="root", after=("consul",), runs_tasks=True, limits={"locked_memory": "infinity"}
)
# systemd.exec(5): each of these gives a unit a mount namespace of its own, or rules about devices.
NOT_FOR_TASKS = (
    "BindPaths", "DeviceAllow", "DevicePolicy", "InaccessiblePaths", "MountFlags", "PrivateDevices",
    "PrivateMounts", "PrivateNetwork", "PrivateTmp", "PrivateUsers", "ProcSubset", "ProtectClock",
    "ProtectControlGroups", "ProtectHome", "ProtectKernelLogs", "ProtectKernelModules",
    "ProtectKernelTunables", "ProtectProc", "ProtectSystem", "ReadOnlyPaths", "ReadWritePaths",
    "RestrictNamespaces", "RootDirectory", "TemporaryFileSystem",
)  # fmt: skip


def options(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, separator, value in (line.partition("=") for line in text.splitlines()):
        if separator:
            found.setdefault(name, []).append(value)
    return found


def unit(
    unit: Unit, agent: Agent = AGENT, *, waits: bool = False, guarded: bool = False
) -> dict[str, list[str]]:
    return options(agent_unit(agent, unit, FOLDERS, waits=waits, guarded=guarded))


def test_an_agent_is_its_own_user_without_privileges_that_writes_only_its_data() -> None:
    found = unit(ALONE)
    assert found["User"] == ["slipway-nomad"]
    assert found["CapabilityBoundingSet"] == [""]
    assert found["ProtectSystem"] == ["strict"]
    assert found["ReadWritePaths"] == ["/var/lib/slipway/dev/nodes/cpu-0/nomad/data"]
    assert found["LimitNOFILE"] == ["1024"]
    assert "KillMode" not in found


def test_an_agent_that_runs_tasks_takes_nothing_from_them_that_they_need() -> None:
    found = unit(WITH_TASKS)
    assert [name for name in NOT_FOR_TASKS if name in found] == []
    assert "NoNewPrivileges" not in found
    assert "SystemCallFilter" not in found
    assert found["KillMode"] == ["process"]
    assert found["OOMPolicy"] == ["continue"]
    assert found["TasksMax"] == ["infinity"]
    assert found["LimitMEMLOCK"] == ["infinity"]


def test_an_agent_starts_after_others_of_its_host_and_is_tried_for_ever() -> None:
    for each in (ALONE, WITH_TASKS):
        found = unit(each)
        assert "slipway-dev-consul.service" in found["Wants"][0].split()
        assert "slipway-dev-consul.service" in found["After"][0].split()
        assert found["Restart"] == ["always"]
        assert found["StartLimitIntervalSec"] == ["0"]
        assert found["TimeoutStopSec"] == ["30"]
        assert found["WantedBy"] == ["multi-user.target"]


def test_only_the_agent_that_runs_tasks_brings_the_watcher_of_their_log_collectors() -> None:
    watcher = "slipway-dev-log-collectors.service"
    assert watcher in unit(WITH_TASKS)["Wants"][0].split()
    assert watcher not in unit(WITH_TASKS)["After"][0].split()
    assert watcher not in unit(ALONE)["Wants"][0].split()


def test_an_agent_with_prerequisites_waits_at_boot_but_starts_without_them_in_the_end() -> None:
    [waiting] = unit(WITH_TASKS, waits=True)["ExecStartPre"]
    assert waiting.startswith("-/usr/bin/env SLIPWAY_RUN=/var/lib/slipway/dev ")
    assert waiting.endswith("/supervisor/code/agents.py await nomad")
    assert "ExecStartPre" not in unit(WITH_TASKS)


def test_no_task_of_a_host_with_members_starts_before_the_firewall_is_there() -> None:
    found = unit(WITH_TASKS, waits=True, guarded=True)
    loads, waits = found["ExecStartPre"]
    assert loads.startswith("/usr/bin/env SLIPWAY_RUN=/var/lib/slipway/dev ")  # must not fail
    assert loads.endswith("/supervisor/code/firewall.py load")
    assert waits.startswith("-")
    assert "slipway-dev-firewall.service" in found["Wants"][0].split()
    for other in (unit(WITH_TASKS, waits=True), unit(ALONE, guarded=True)):
        assert not any("firewall" in each for each in other.get("ExecStartPre", []))
        assert "slipway-dev-firewall.service" not in other["Wants"][0].split()


def test_the_keeper_of_the_firewall_may_change_tables_and_nothing_else() -> None:
    found = options(firewall_unit(FOLDERS))
    assert found["ExecStart"][0].endswith("/supervisor/code/firewall.py keep")
    assert found["CapabilityBoundingSet"] == ["CAP_NET_ADMIN"]
    assert found["RestrictAddressFamilies"] == ["AF_NETLINK"]
    assert found["ProtectSystem"] == ["strict"]
    assert "ReadWritePaths" not in found


@pytest.mark.parametrize(
    ("argument", "written"),
    [
        ("-a=/a run", '"-a=/a run"'),
        ("50%", "50%%"),
        ("$HOME", "$$HOME"),
        ("o'neil", '"o\'neil"'),
        ('a "b" \\', '"a \\"b\\" \\\\"'),
        ("", '""'),
    ],
)
def test_an_argument_means_itself_to_systemd(argument: str, written: str) -> None:
    agent = dataclasses.replace(AGENT, command=("/bin/x", argument))
    assert unit(ALONE, agent)["ExecStart"] == [f"/bin/x {written}"]


def test_units_do_not_change_with_the_version_of_the_code() -> None:
    agent = agent_unit(AGENT, WITH_TASKS, FOLDERS, waits=True, guarded=True)
    for text in (watcher_unit(FOLDERS), firewall_unit(FOLDERS), agent):
        assert "bundles" not in text
        assert str(Path(__file__).parents[1]) not in text


def test_the_watcher_may_use_no_network_and_write_nothing() -> None:
    found = options(watcher_unit(FOLDERS))
    assert found["RestrictAddressFamilies"] == ["AF_UNIX"]
    assert found["ProtectSystem"] == ["strict"]
    assert "ReadWritePaths" not in found


def test_the_scratch_folder_is_made_at_boot() -> None:
    assert temporary_files(FOLDERS) == 'd "/run/slipway/dev" 0700 root root -\n'
