"""The firewall of members in a kernel that these tests play: its settings, and its nft."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from host import firewall, systemd
from host.document import Unit, Units
from host.firewall import Loaded, kept_in_kernel, load, section_file
from host.firewall_rules import Firewall
from host.supervisors import supervisor_of
from host.systemd import Systemd
from host.unit_files import ROOT
from program.errors import HostError
from program.folders import Folders, to_json, write_private

ALONE = Firewall(members=("10.77.0.21", "10.77.0.22"), clients=(), served_ports=(20000, 31999))
# Has the transaction that it was given last, as the kernel has the table.
NFT = """#!/bin/sh
case $1 in
    -f) cat > {table} ;;
    list) cat {table} ;;
    delete) rm {table} ;;
esac
"""


IP = """#!/bin/sh
cat {addresses}
"""


class Kernel:
    def __init__(self, folder: Path) -> None:
        self.settings, self.nft, self.table = folder / "settings", folder / "nft", folder / "table"
        self.settings.mkdir(parents=True)
        self.set("ip_local_port_range", "32768\t60999")
        self.set("ip_local_reserved_ports", "")
        self.nft.write_text(NFT.format(table=self.table))
        self.nft.chmod(0o755)
        self.ip, self.addresses = folder / "ip", folder / "addresses.json"
        self.has(lo=["127.0.0.1"], eno1=["10.77.0.21"], fab0=["10.80.0.21"])
        self.ip.write_text(IP.format(addresses=self.addresses))
        self.ip.chmod(0o755)

    def has(self, **addresses: Sequence[str]) -> None:
        """The host's addresses, by interface."""
        links = [
            {"ifname": name, "addr_info": [{"family": "inet", "local": each} for each in own]}
            for name, own in addresses.items()
        ]
        self.addresses.write_text(json.dumps(links))

    def set(self, name: str, value: str) -> None:
        (self.settings / name).write_text(f"{value}\n")

    @property
    def closed(self) -> str:
        """The rule that refuses connections."""
        return self.table.read_text().partition("\t\ttcp dport {")[2].partition("}")[0].strip()


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel(tmp_path / "kernel")
    monkeypatch.setattr(firewall, "SETTINGS", made.settings)
    monkeypatch.setattr(firewall, "NFT", str(made.nft))
    monkeypatch.setattr(firewall, "IP", str(made.ip))
    return made


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    made = Folders(run=tmp_path / "metal", cache=tmp_path / "cache", scratch=tmp_path / "scratch")
    write_private(section_file(made), to_json(dataclasses.asdict(ALONE)))
    return made


def test_rules_that_are_as_they_were_are_left_alone(kernel: Kernel, folders: Folders) -> None:
    kept = kept_in_kernel(folders, Loaded())
    loaded = kernel.table.stat().st_mtime_ns
    assert kept_in_kernel(folders, kept) == kept
    assert kernel.table.stat().st_mtime_ns == loaded


def flush(kernel: Kernel) -> None:
    kernel.table.unlink()


def widen(kernel: Kernel) -> None:
    kernel.set("ip_local_port_range", "32768\t65535")


def reserve(kernel: Kernel) -> None:
    kernel.set("ip_local_reserved_ports", "60000-60999")


@pytest.mark.parametrize(
    ("change", "closed"),
    [
        (flush, "20000-31999, 32768-60999"),
        (widen, "20000-31999, 32768-65535"),
        (reserve, "20000-31999, 32768-59999"),
    ],
)
def test_rules_follow_the_table_and_the_settings_of_the_kernel(
    kernel: Kernel, folders: Folders, change: Callable[[Kernel], None], closed: str
) -> None:
    kept = kept_in_kernel(folders, Loaded())
    assert kernel.closed == "20000-31999, 32768-60999"
    change(kernel)
    kept_in_kernel(folders, kept)
    assert kernel.closed == closed


def test_a_range_that_comes_to_hold_ports_of_the_platform_is_reported_and_the_rules_stay(
    kernel: Kernel, folders: Folders
) -> None:
    kept = kept_in_kernel(folders, Loaded())
    kernel.set("ip_local_port_range", "1024\t65535")
    with pytest.raises(HostError, match="begins at 1024"):
        kept_in_kernel(folders, kept)
    assert kernel.closed == "20000-31999, 32768-60999"


def test_nobody_but_members_comes_over_the_interface_with_the_hosts_own_address(
    kernel: Kernel,
) -> None:
    load("metal", dataclasses.replace(ALONE, interfaces=("eno1",)))
    assert '"eno1"' not in kernel.table.read_text()
    load("metal", dataclasses.replace(ALONE, interfaces=("fab0",)))
    assert 'iifname { "fab0" } accept' in kernel.table.read_text()


def test_rules_follow_the_own_address_to_another_interface(
    kernel: Kernel, folders: Folders
) -> None:
    section = dataclasses.asdict(dataclasses.replace(ALONE, interfaces=("eno1",)))
    write_private(section_file(folders), to_json(section))
    kernel.has(eno1=[])  # as at a start of the machine
    kept = kept_in_kernel(folders, Loaded())
    assert 'iifname { "eno1" } accept' in kernel.table.read_text()
    kernel.has(eno1=["10.99.0.1", "10.77.0.21"])
    kept_in_kernel(folders, kept)
    assert '"eno1"' not in kernel.table.read_text()


def test_a_removal_finds_the_rules_of_an_apply_that_got_no_further(
    kernel: Kernel, folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("UNITS", "TEMPORARY_FILES"):
        monkeypatch.setattr(systemd, name, tmp_path)
    monkeypatch.setattr(systemd, "systemctl", lambda *arguments: "")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    section_file(folders).unlink()
    asked = Systemd(folders, Units({"nomad": Unit(user=ROOT, runs_tasks=True)}))
    asked.guard(ALONE)
    assert kernel.closed
    known = supervisor_of(folders)
    assert known is not None
    known.remove()
    assert not kernel.table.exists()
    assert not section_file(folders).exists()
