"""Which connections a host of a pool with groups takes, as rules of nftables. Pure.

Engines of members listen at ports that the kernel gives them, without encryption, and trust whoever
connects. So the rules are about ports that the kernel gives (docs/adr/0030), and about those that
Nomad gives: only the pool's own hosts reach the first, only they and the clients of replicas the
second. Everything else on the host is left alone.

Rules see the first packet of a connection only: no connection is tracked, and none that is open
already is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from program.errors import HostError

LATER_PACKET = "tcp flags & (fin | syn | rst | ack) != syn"


@dataclass(frozen=True)
class Ports:
    """From `first` to `last`, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def __contains__(self, port: int) -> bool:
        return self.first <= port <= self.last


@dataclass(frozen=True)
class Firewall:
    """Addresses of this pool's hosts on the control network, and of the hosts that send requests to
    replicas. `networks` are those of the pool's hosts on the fabric's `interfaces`: without any,
    everybody there is a member, unless the interface is the control network's as well.
    `served_ports` are the first and the last that Nomad gives."""

    members: tuple[str, ...]
    clients: tuple[str, ...]
    served_ports: tuple[int, int]
    control_interface: str = ""
    interfaces: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()


def read_firewall(section: Mapping[str, Any]) -> Firewall:
    """`firewall` of schemas/node.schema.json."""
    lists = {name: tuple(section.get(name, ())) for name in ("clients", "interfaces", "networks")}
    return Firewall(
        members=tuple(section["members"]),
        served_ports=tuple(section["served_ports"]),
        control_interface=section.get("control_interface", ""),
        **lists,
    )


def given_by_kernel(port_range: str, reserved: str) -> list[Ports]:
    """The ports that the kernel gives to whoever asks for any, by the host's settings
    net.ipv4.ip_local_port_range ("32768 60999") and net.ipv4.ip_local_reserved_ports
    ("40000,50000-50009")."""
    first, last = (int(number) for number in port_range.split())
    found = []
    for each in sorted(_ranges(reserved), key=lambda ports: ports.first):
        if first < each.first <= last:
            found.append(Ports(first, each.first - 1))
        first = max(first, each.last + 1)
    return [*found, Ports(first, last)] if first <= last else found


def must_be_engines_only(
    given: Sequence[Ports], firewall: Firewall, ssh_port: int | None, *, reserved: str
) -> None:
    """Raises HostError if the kernel may give an engine a port of something else: of the platform,
    or SSH's, which others than members use. Nor may SSH have a port that Nomad gives: the rules
    close those too. `reserved` is the host's setting, to which a fix adds."""
    first_served, last_served = firewall.served_ports
    lowest = min((each.first for each in given), default=last_served + 1)
    if lowest <= last_served:
        raise HostError(
            f"net.ipv4.ip_local_port_range begins at {lowest}: the kernel may give an engine a port"
            f" that this host serves others at, up to {last_served}\n"
            f"fix: sysctl -w net.ipv4.ip_local_port_range='32768 60999', or"
            f" {_reserving(Ports(lowest, last_served), reserved)}; and the same in /etc/sysctl.d"
        )
    if ssh_port is None:
        return
    if ssh_port in Ports(first_served, last_served):
        raise HostError(
            f"SSH listens at {ssh_port}, a port that Nomad may give a replica: the firewall of"
            " members would close it\n"
            f"fix: let sshd listen outside {first_served}-{last_served}"
        )
    if any(ssh_port in each for each in given):
        raise HostError(
            f"SSH listens at {ssh_port}, a port that the kernel may give an engine: the firewall of"
            " members would close it\n"
            f"fix: sysctl -w {_reserving(Ports(ssh_port, ssh_port), reserved)}, and the same in"
            " /etc/sysctl.d"
        )


def _reserving(ports: Ports, reserved: str) -> str:
    """The setting with these ports as well: a value takes the place of the one before."""
    before = reserved.strip()
    return f"net.ipv4.ip_local_reserved_ports={before}{',' if before else ''}{ports}"


def table(environment: str) -> str:
    return f"slipway-{environment}"


def rules(
    firewall: Firewall, environment: str, given: Sequence[Ports], control: Sequence[str] = ()
) -> str:
    """One transaction that puts the environment's table into the place of an earlier one. `control`
    are the interfaces of this host that have an address of `members`."""
    name = table(environment)
    lines = "".join(f"\t\t{line}\n" for line in _input(firewall, given, control))
    return (
        f"table inet {name}\n"
        f"delete table inet {name}\n"
        f"table inet {name} {{\n"
        "\tchain input {\n"
        f"{lines}"
        "\t}\n"
        "}\n"
    )


def _input(firewall: Firewall, given: Sequence[Ports], control: Sequence[str]) -> Iterator[str]:
    yield "type filter hook input priority filter; policy accept;"
    yield f"{LATER_PACKET} accept"
    # A connection to an own address comes from lo as well.
    yield 'iifname "lo" accept'
    yield from _from_members(firewall, control)
    served = Ports(*firewall.served_ports)
    if firewall.clients:
        yield f"tcp dport {served} ip saddr {_set(firewall.clients)} accept"
    closed = _set([served, *given])
    yield f"tcp dport {closed} reject with tcp reset"


def _from_members(firewall: Firewall, control: Sequence[str]) -> Iterator[str]:
    shared = () if firewall.networks else sorted({*control} & {*firewall.interfaces})
    stated = {firewall.control_interface, *shared} if firewall.control_interface else ()
    yield f"{_over(sorted(stated))}ip saddr {_set(firewall.members)} accept"
    if fabric := [each for each in firewall.interfaces if each not in shared]:
        networks = f"ip saddr {_set(firewall.networks)} " if firewall.networks else ""
        yield f"{_over(fabric)}{networks}accept"


def _over(interfaces: Sequence[str]) -> str:
    names = [f'"{each}"' for each in interfaces]
    return f"iifname {_set(names)} " if names else ""


def _ranges(text: str) -> Iterator[Ports]:
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        yield Ports(int(first), int(last or first))


def _set(elements: Sequence[object]) -> str:
    return "{ " + ", ".join(map(str, elements)) + " }"
