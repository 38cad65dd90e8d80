"""The command line of an OpenSSH client that forwards, with every host's key pinned."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from slipway.plan.platform import SshHost

CONNECT_TIMEOUT_S = 10
# The connection ends when the host has been silent for so long, and another host takes over: both
# within the ten seconds that Pulumi's providers wait for a TLS handshake.
SILENCE_S, SILENCES = 1, 4
REFUSALS = "channels.c:channel_input_open_failure()"
PROHIBITED = "administratively prohibited"
_PLACE = re.compile(rf"^{re.escape(REFUSALS)}:.*?: ", re.MULTILINE)


def known_hosts(host: SshHost, jump: SshHost | None) -> str:
    """A file in OpenSSH's format."""
    return "".join(f"{_name(each)} {each.host_key}\n" for each in (host, jump) if each)


def readable(said: str) -> str:
    """What a client says, without the places in its source."""
    return _PLACE.sub("", said.replace("\r", "")).strip()


def forwarding(
    host: SshHost, jump: SshHost | None, known: Path, sockets: Mapping[Path, str]
) -> Sequence[str]:
    """`sockets` are of this machine, each with the "address:port" that the host connects to. The
    client prints a line once they are there."""
    own = {
        "ExitOnForwardFailure": "yes",
        "LocalCommand": "echo forwarding",
        "PermitLocalCommand": "yes",
        "StreamLocalBindUnlink": "yes",
    }
    forwards = [part for path, to in sockets.items() for part in ("-L", f"{path}:{to}")]
    options = [*_options(known), *_as_options(own), *_through(jump, known)]
    return ["ssh", "-N", "-T", *options, *forwards, *_target(host)]


def _through(jump: SshHost | None, known: Path) -> list[str]:
    # Not ProxyJump: its client would not have these options.
    if jump is None:
        return []
    command = shlex.join(["ssh", *_options(known), "-W", "[%h]:%p", *_target(jump)])
    return ["-o", f"ProxyCommand={command}"]


def _options(known: Path) -> list[str]:
    return _as_options(
        {
            "BatchMode": "yes",
            "ConnectTimeout": str(CONNECT_TIMEOUT_S),
            "ControlPath": "none",
            "GlobalKnownHostsFile": "/dev/null",
            "IgnoreUnknown": "LogVerbose",  # before OpenSSH 8.5
            "LogLevel": "ERROR",
            # Why a host refuses a connection: with LogLevel INFO its banner would come, too.
            "LogVerbose": f"{REFUSALS}:*",
            "ServerAliveCountMax": str(SILENCES),
            "ServerAliveInterval": str(SILENCE_S),
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": str(known),
        }
    )


def _as_options(options: Mapping[str, str]) -> list[str]:
    return [part for name, value in options.items() for part in ("-o", f"{name}={value}")]


def _target(host: SshHost) -> list[str]:
    return ["-p", str(host.port), f"{host.user}@{host.address}"]


def _name(host: SshHost) -> str:
    return host.address if host.port == 22 else f"[{host.address}]:{host.port}"
