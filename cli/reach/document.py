"""The messages between a command and the keeper of an environment's forwards.

Command and keeper speak over a Unix socket, one JSON object a line. A command says hello and then
holds the connection for as long as it needs the forwards; its end, however it comes, closes it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cli.reach.forwards import Forward, forwards_of
from cli.reach.tunnels import TunnelsWanted
from slipway.plan.platform import PlatformPlan, SshHost, SshPlan

HEAD_START_S = 1.5

# States that a keeper reports.
JOINED = "joined"  # the hello is heard: `pid` of the keeper
OPEN = "open"  # a host forwards: `host`
CLOSED = "closed"  # none does: `reasons` by host; it is tried again
FORBIDDEN = "forbidden"  # to a command that ends: the sshd of `host` forbids it, for this `reason`
SHARED = "shared"  # the last word to a command that ends while others go on
REFUSED = "refused"  # not this command: `message`, `fix`, and the `pid` of a keeper that ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """An address of this machine, and the "address:port" of each host that answers for it, by this
    name in its certificate. `led` as in forwards.Forward."""

    host: str
    port: int
    server_name: str
    targets: tuple[str, ...]
    led: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarding:
    """`hosts` by name: each can forward everything. `head_start_s` is the time that a host, or a
    server, has before the next one is tried, too."""

    environment: str
    hosts: Mapping[str, SshHost]
    jump: SshHost | None
    locals: tuple[Local, ...]
    head_start_s: float
    tunnels: TunnelsWanted | None = None  # None where hosts have their own addresses here

    @property
    def digest(self) -> str:
        """A digest that is the same for commands that can share a keeper. It leaves out the names
        in certificates, because only some commands read the gateway's."""
        nameless = tuple(dataclasses.replace(local, server_name="") for local in self.locals)
        text = dataclasses.replace(self, locals=nameless).to_json()
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), sort_keys=True)


def forwarding_of(plan: PlatformPlan, ssh: SshPlan, leaving: Sequence[str] = ()) -> Forwarding:
    """Forwards through the servers whose public keys are known; none counts as known if the jump
    host's key is not. `leaving` as for forwards_of."""
    servers = {server.name: ssh.hosts[server.name] for server in plan.servers}
    entered = ssh.jump is None or ssh.jump.host_key
    return Forwarding(
        environment=plan.environment,
        hosts={name: host for name, host in servers.items() if entered and host.host_key},
        jump=ssh.jump,
        locals=_locals(forwards_of(plan, leaving)),
        head_start_s=HEAD_START_S,
        tunnels=_tunnels(plan, ssh, leaving),
    )


def _tunnels(plan: PlatformPlan, ssh: SshPlan, leaving: Sequence[str]) -> TunnelsWanted | None:
    if ssh.tunnels is None:
        return None
    addresses = [*(host.address for host in ssh.hosts.values()), *leaving]
    return TunnelsWanted(
        region=ssh.tunnels.region,
        environment=plan.environment,
        port=next(host.port for host in ssh.hosts.values()),
        hosts={address: ssh.tunnels.private(address) for address in addresses},
    )


def from_json(text: str) -> Forwarding:
    document = json.loads(text)
    jump, tunnels = document["jump"], document["tunnels"]
    return Forwarding(
        environment=document["environment"],
        hosts={name: SshHost(**host) for name, host in document["hosts"].items()},
        jump=SshHost(**jump) if jump else None,
        locals=tuple(
            Local(**{**each, "targets": tuple(each["targets"])}) for each in document["locals"]
        ),
        head_start_s=document["head_start_s"],
        tunnels=TunnelsWanted(**tunnels) if tunnels else None,
    )


def line(**values: Any) -> bytes:
    return json.dumps(values).encode() + b"\n"


def _locals(forwards: Sequence[Forward]) -> tuple[Local, ...]:
    return tuple(
        Local(
            host=forward.local.host,
            port=forward.local.port,
            server_name=forward.local.server_name,
            targets=tuple(target.authority for target in forward.targets),
            led=forward.led,
        )
        for forward in forwards
    )
