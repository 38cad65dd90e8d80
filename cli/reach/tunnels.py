"""SSH of private hosts on AWS at loopback addresses of this machine, through EC2 Instance Connect.

The user's own AWS command line carries each connection, with the user's own credentials:

    aws ec2-instance-connect open-tunnel --private-ip-address … --instance-connect-endpoint-id …

AWS ends a tunnel after an hour. It is one connection's, so nothing has to be opened again: whoever
connects anew gets a new one.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from cli.machine.children import ended_by
from cli.reach.relay import Streams, carry

PROGRAM = "aws"
SSH_PORT = 22
MOST_AT_ONCE = 16  # AWS allows 20 connections per endpoint, for all operators together
NONE = "None"  # what the command line prints for a query without a result
ENVIRONMENT_TAG = "tag:slipway:environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelsWanted:
    """`hosts`: the private address of each host, by the loopback address that leads to it."""

    region: str
    environment: str
    port: int  # of the loopback addresses
    hosts: Mapping[str, str]


class TunnelError(Exception):
    """What the AWS command line says."""


@dataclass(slots=True)
class Tunnels:
    """`said` is the reason of the last failure, by loopback address."""

    wanted: TunnelsWanted
    variables: Callable[[], Mapping[str, str]]  # of programs, at the time of their start
    said: dict[str, str] = field(default_factory=dict)
    _endpoint: str = ""
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_AT_ONCE))

    async def serve(self, local: str, near: Streams) -> None:
        """One connection to a loopback address, from its beginning to its end."""
        private = self.wanted.hosts[local]
        async with self._slots:
            try:
                await self._through(private, near)
            except TunnelError as error:
                self.said[local] = str(error)
                self._endpoint = ""  # another `up` may have replaced it
            else:
                self.said.pop(local, None)

    async def _through(self, private: str, near: Streams) -> None:
        endpoint = await self._known_endpoint()
        process = await self._started(
            "ec2-instance-connect",
            "open-tunnel",
            *("--region", self.wanted.region),
            *("--instance-connect-endpoint-id", endpoint),
            *("--private-ip-address", private),
            *("--remote-port", str(SSH_PORT)),
        )
        assert process.stdin is not None  # noqa: S101
        assert process.stdout is not None  # noqa: S101
        assert process.stderr is not None  # noqa: S101
        complaints = asyncio.create_task(process.stderr.read())
        try:
            with suppress(OSError):  # one of the two sides is gone
                await carry(near, (process.stdout, process.stdin))
        finally:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            code = await process.wait()
            said = (await complaints).decode(errors="replace").strip()
        if code not in (0, -signal.SIGTERM):
            raise TunnelError(said or f"{PROGRAM} has ended with {code}")

    async def _known_endpoint(self) -> str:
        """The ID of the environment's endpoint. TunnelError while it has none."""
        async with self._asking:
            if not self._endpoint:
                self._endpoint = await self._found_endpoint()
            return self._endpoint

    async def _found_endpoint(self) -> str:
        environment = self.wanted.environment
        process = await self._started(
            "ec2",
            "describe-instance-connect-endpoints",
            *("--region", self.wanted.region),
            "--filters",
            f"Name={ENVIRONMENT_TAG},Values={environment}",
            "Name=state,Values=create-complete",
            *("--query", "InstanceConnectEndpoints[0].InstanceConnectEndpointId"),
            *("--output", "text"),
        )
        found, said = await process.communicate()
        if process.returncode:
            raise TunnelError(said.decode(errors="replace").strip())
        endpoint = found.decode().strip()
        if not endpoint or endpoint == NONE:
            raise TunnelError(f'"{environment}" has no EC2 Instance Connect endpoint yet')
        return endpoint

    async def _started(self, *arguments: str) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                PROGRAM,
                *arguments,
                env=dict(self.variables()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                preexec_fn=ended_by(signal.SIGTERM),
            )
        except FileNotFoundError:
            raise TunnelError(f"the AWS command line ({PROGRAM}) is not installed") from None
