"""The firewall of members on this host: kept in the kernel as long as the host has a member's
engines.

    firewall.py load   puts the rules into the kernel; run before the Nomad client starts
    firewall.py keep   puts them there again whenever somebody has removed or changed them

Other programs rule over the same tables: the unit of Debian's nftables flushes all of them.

Environment: SLIPWAY_RUN, SLIPWAY_CACHE, SLIPWAY_SCRATCH (absolute paths).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from program.errors import HostError, exit_code
from program.folders import Folders
from program.waiting import say

from host.firewall_rules import (
    Firewall,
    given_by_kernel,
    must_be_engines_only,
    read_firewall,
    rules,
    table,
)

NFT, IP = "/usr/sbin/nft", "/usr/sbin/ip"
PACKAGES = {"nft": "nftables", "ip": "iproute2"}
SETTINGS = Path("/proc/sys/net/ipv4")
LOOK_S = 5


def section_file(folders: Folders) -> Path:
    """The document's `firewall`; there while the host has one."""
    return folders.supervisor / "firewall.json"


def load(environment: str, firewall: Firewall, ssh_port: int | None = None) -> None:
    """Puts the rules into the kernel. Raises HostError without nft, or where others than engines
    would be closed off."""
    port_range, reserved = _settings()
    given = given_by_kernel(port_range, reserved)
    must_be_engines_only(given, firewall, ssh_port, reserved=reserved)
    text = rules(firewall, environment, given, _control_interfaces(firewall))
    _nft("-f", "-", given=text)


def unload(environment: str) -> None:
    """Also where there are no rules, or no nft."""
    name = table(environment)
    if Path(NFT).exists() and _listed(name):
        _nft("delete", "table", "inet", name)


def port_of_ssh(environment: Mapping[str, str] = os.environ) -> int | None:
    """The port at which this program's caller has logged in; None without SSH."""
    parts = environment.get("SSH_CONNECTION", "").split()
    return int(parts[3]) if len(parts) == 4 else None


def keep(folders: Folders) -> None:
    kept, said = Loaded(), ""
    while True:
        try:
            kept, said = kept_in_kernel(folders, kept), ""
        except (HostError, OSError) as error:
            if str(error) != said:
                said = str(error)
                say(said)
        time.sleep(LOOK_S)


@dataclass(frozen=True)
class Loaded:
    """What the rules follow from, and the table that the kernel has."""

    section: str = ""
    settings: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    table: str = ""


def kept_in_kernel(folders: Folders, kept: Loaded) -> Loaded:
    """Loads the rules unless everything is as in `kept`. Returns the state afterwards."""
    name, section = table(folders.run.name), section_file(folders).read_text()
    firewall = _firewall(section)
    found = Loaded(section, _settings(), _control_interfaces(firewall), _listed(name))
    if found == kept:
        return kept
    load(folders.run.name, firewall)
    say(f"table {name} is in the kernel")
    return replace(found, table=_listed(name))


def _settings() -> tuple[str, str]:
    """The range of ports that the kernel gives, and what of it is reserved."""
    names = ("ip_local_port_range", "ip_local_reserved_ports")
    port_range, reserved = ((SETTINGS / name).read_text() for name in names)
    return port_range, reserved


def _control_interfaces(firewall: Firewall) -> tuple[str, ...]:
    """This host's interfaces with an address of the control network, where the rules differ for
    them."""
    if firewall.networks or not firewall.interfaces:
        return ()
    listed = json.loads(_done(IP, "-json", "-4", "address", "show"))
    return tuple(
        link["ifname"]
        for link in listed
        if {each.get("local") for each in link.get("addr_info", [])} & {*firewall.members}
    )


def _load_from_disk(folders: Folders) -> None:
    load(folders.run.name, _firewall(section_file(folders).read_text()))


def _firewall(section: str) -> Firewall:
    return read_firewall(json.loads(section))


def _listed(name: str) -> str:
    """The table as the kernel has it; empty if it has none."""
    done = subprocess.run(
        [NFT, "list", "table", "inet", name], capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def _nft(*arguments: str, given: str = "") -> None:
    _done(NFT, *arguments, given=given)


def _done(*command: str, given: str = "") -> str:
    """What the program prints. Raises HostError without it, and if it fails."""
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise HostError(
            f"there is no {command[0]}, which closing the ports of members to others needs\n"
            f"fix: apt install {PACKAGES[Path(command[0]).name]}"
        ) from None
    if done.returncode:
        raise HostError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(prog="firewall.py", description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["load", "keep"])
    action = {"load": _load_from_disk, "keep": keep}[parser.parse_args().action]
    return exit_code(lambda: action(Folders.from_environment()))
