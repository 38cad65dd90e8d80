"""What a host of the test bed is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.hosts.bed import Bed
from tests.hosts.conftest import ROOT

pytestmark = pytest.mark.hosts


def test_systemd_is_the_first_process_of_every_host_and_runs_without_a_failed_unit(
    hosts: Bed,
) -> None:
    for name, host in hosts.hosts.items():
        assert host.ssh("cat /proc/1/comm") == "systemd\n"
        assert host.ssh("systemctl is-system-running") == "running\n"
        assert host.ssh("hostname") == f"{name}\n"


def test_hosts_have_identities_of_their_own(hosts: Bed) -> None:
    for command in ("cat /etc/machine-id", "cat /etc/ssh/ssh_host_ed25519_key.pub", "hostname"):
        answers = {host.ssh(command) for host in hosts.hosts.values()}
        assert len(answers) == len(hosts.hosts), command


def test_a_host_sees_its_own_processes_and_files_only(hosts: Bed) -> None:
    server, worker = hosts.hosts["server-0"], hosts.hosts["worker-0"]
    server.ssh("touch /etc/of-the-server && systemd-run --quiet --unit=waiting sleep 600")
    assert server.ssh("pgrep -x sleep").strip()
    with pytest.raises(RuntimeError):
        worker.ssh("pgrep -x sleep")
    with pytest.raises(RuntimeError):
        worker.ssh("test -e /etc/of-the-server")
    assert not Path("/etc/of-the-server").exists()
    server.ssh("systemctl stop waiting && rm /etc/of-the-server")


def test_a_host_is_bare_and_this_machine_gets_no_package(hosts: Bed) -> None:
    worker = hosts.hosts["worker-0"]
    with pytest.raises(RuntimeError):
        worker.ssh(f"test -e {ROOT}/README.md")
    with pytest.raises(RuntimeError):
        worker.ssh("test -e /root/.cache")
    installed = ["dpkg-query", "--show", "--showformat=${Status}", "openssh-server"]
    assert "install ok installed" in worker.ssh("dpkg-query --show -f '${Status}' openssh-server")
    here = subprocess.run(installed, capture_output=True, text=True, check=False)
    assert "install ok installed" not in here.stdout


def test_hosts_reach_each_other_by_name(hosts: Bed) -> None:
    address = hosts.hosts["edge-0"].address
    assert hosts.hosts["worker-0"].ssh("getent hosts edge-0").split() == [address, "edge-0"]
    connect = "exec 3<>/dev/tcp/edge-0/22 && head -c 4 <&3"
    assert hosts.hosts["worker-0"].ssh(f'bash -c "{connect}"') == "SSH-"


def test_a_unit_is_hardened_and_limited_as_it_says(hosts: Bed) -> None:
    worker = hosts.hosts["worker-0"]
    properties = (
        "DynamicUser=yes",
        "ProtectSystem=strict",
        "PrivateTmp=yes",
        "NoNewPrivileges=yes",
        "StateDirectory=tried",
        "MemoryMax=64M",
        "LimitNOFILE=4096",
    )
    options = " ".join(f"--property={each}" for each in properties)
    program = "touch /var/lib/tried/here; ! touch /etc/there; ulimit -n; id -u"
    printed = worker.ssh(f"systemd-run --quiet --pipe --wait {options} sh -c '{program}'")
    limit, user = printed.split()
    assert limit == "4096"
    assert int(user) > 0
    worker.ssh("test -e /var/lib/tried/here && ! test -e /etc/there")


def test_settings_of_the_whole_machine_are_out_of_a_hosts_reach(hosts: Bed) -> None:
    before = Path("/proc/sys/vm/max_map_count").read_text()
    with pytest.raises(RuntimeError):
        hosts.hosts["worker-0"].ssh("sysctl -w vm.max_map_count=262145")
    hosts.hosts["worker-0"].ssh("sysctl -w net.ipv4.ip_local_reserved_ports=4646-4648")
    assert Path("/proc/sys/vm/max_map_count").read_text() == before
    assert "4646" not in Path("/proc/sys/net/ipv4/ip_local_reserved_ports").read_text()


def test_a_host_whose_power_is_cut_comes_back_with_its_disk_or_as_a_new_one(hosts: Bed) -> None:
    edge = hosts.hosts["edge-0"]
    edge.ssh("touch /var/lib/kept /run/lost")
    edge.end()
    hosts.start("edge-0", same_disk=True)
    hosts.wait_until_ready()
    hosts.hosts["edge-0"].ssh("test -e /var/lib/kept && ! test -e /run/lost")
    hosts.hosts["edge-0"].end()
    hosts.start("edge-0")
    hosts.wait_until_ready()
    with pytest.raises(RuntimeError):
        hosts.hosts["edge-0"].ssh("test -e /var/lib/kept")
