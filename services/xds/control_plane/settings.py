"""Flags and environment of the program."""

from __future__ import annotations

import argparse
import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_FLAGS = {
    "--listen": ("XDS_LISTEN", "where Envoys connect (gRPC), ADDR:PORT"),
    "--http": ("XDS_HTTP", "metrics, health and status over HTTP, ADDR:PORT"),
    "--gateway": ("XDS_GATEWAY", "where Envoy listens for clients, ADDR:PORT"),
    "--consul": ("CONSUL_HTTP_ADDR", "Consul's HTTP API, http://ADDR:PORT"),
}
_TOKEN_FILE = "CONSUL_HTTP_TOKEN_FILE"  # noqa: S105 (the name of a variable)


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    listen: Address
    http: Address
    gateway: Address
    consul: str
    consul_token: str | None


def parse(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Settings:
    """Settings from flags, or else from the environment. Exits with code 2 on a wrong one.

    Consul's token comes from the environment or from a file, never from a flag: command lines are
    world-readable.
    """
    parser = argparse.ArgumentParser(
        prog="xds.py",
        description="Envoy control plane: routes and endpoints from Consul, delta ADS to Envoy.",
        epilog=f"Consul's token: CONSUL_TOKEN, or the file that {_TOKEN_FILE} names.",
    )
    for flag, (variable, text) in _FLAGS.items():
        value = environment.get(variable)
        parser.add_argument(
            flag, default=value, required=value is None, help=f"{text} (or {variable})"
        )
    values = parser.parse_args(arguments)
    try:
        return Settings(
            listen=_address("--listen", values.listen),
            http=_address("--http", values.http),
            gateway=_address("--gateway", values.gateway),
            consul=_consul(values.consul),
            consul_token=_token(environment),
        )
    except (ValueError, OSError) as error:
        parser.error(str(error))


def _address(flag: str, text: str) -> Address:
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise ValueError(f"{flag} {text}: expected an IP address and a port, ADDR:PORT") from None
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{flag} {text}: the port must be between 1 and 65535")
    return Address(host, int(port))


def _consul(text: str) -> str:
    address = text if "://" in text else f"http://{text}"
    if not address.startswith(("http://", "https://")):
        raise ValueError(f"--consul {text}: expected http://ADDR:PORT")
    return address


def _token(environment: Mapping[str, str]) -> str | None:
    if path := environment.get(_TOKEN_FILE):
        return Path(path).read_text(encoding="utf-8").strip()
    return environment.get("CONSUL_TOKEN") or None
