"""The program's flags and environment variables."""

from __future__ import annotations

import argparse
import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

_FLAGS = {
    "--listen": ("XDS_LISTEN", "where Envoys connect (gRPC), ADDR:PORT"),
    "--http": ("XDS_HTTP", "metrics, health and status over HTTP, ADDR:PORT"),
    "--gateway": ("XDS_GATEWAY", "where Envoy listens for clients, ADDR:PORT"),
    "--consul": ("CONSUL_HTTP_ADDR", "Consul's API, http://HOST:PORT or https://HOST:PORT"),
}
_TOKEN_FILE = "CONSUL_HTTP_TOKEN_FILE"  # noqa: S105 (the name of a variable)


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """The address of an HTTP API; `str` is its base URL. The host may be a name."""

    scheme: str  # http, https
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{Address(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class Certificate:
    """The folder of this program's certificate, its key, and the authority of its peers."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def chain(self) -> Path:
        return self.folder / "cert.pem"

    @property
    def key(self) -> Path:
        return self.folder / "key.pem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    listen: Address
    http: Address
    gateway: Address
    shared_address: str  # "" without one
    public_certificate: str  # "" for plain HTTP
    consul: HttpAddress
    prometheus: HttpAddress | None  # None where replicas have equal weights
    consul_token: str | None
    certificate: Certificate | None
    last_known: Path | None  # a file


def parse(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Settings:
    """Settings from flags, else from the environment. Exits with code 2 if one is invalid.

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
    parser.add_argument(
        "--shared-address",
        default="",
        help="an IP address that the Envoys of several hosts share: each listens there, too",
    )
    parser.add_argument(
        "--public-certificate",
        default="",
        help="a file of Envoy's with the certificate for clients, as its secret `public`: then the"
        " gateway speaks TLS",
    )
    parser.add_argument(
        "--last-known",
        type=Path,
        help="a file that keeps the last view of Consul, for a start while Consul is away",
    )
    parser.add_argument(
        "--prometheus",
        help="Prometheus's API, http://HOST:PORT or https://HOST:PORT: then the weights of replicas"
        " follow the queues and caches that their engines report, else they are equal",
    )
    parser.add_argument(
        "--certificate",
        type=Path,
        help="folder with ca.pem, cert.pem and key.pem: then both ports ask clients for a"
        " certificate of that authority, and Consul and Prometheus are shown this one",
    )
    values = parser.parse_args(arguments)
    try:
        return Settings(
            listen=_address("--listen", values.listen),
            http=_address("--http", values.http),
            gateway=_address("--gateway", values.gateway),
            shared_address=_ip("--shared-address", values.shared_address),
            public_certificate=values.public_certificate,
            consul=_url("--consul", values.consul),
            prometheus=_url("--prometheus", values.prometheus) if values.prometheus else None,
            consul_token=_token(environment),
            last_known=values.last_known,
            certificate=Certificate(values.certificate) if values.certificate else None,
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


def _ip(flag: str, text: str) -> str:
    try:
        return str(ipaddress.ip_address(text)) if text else ""
    except ValueError:
        raise ValueError(f"{flag} {text}: expected an IP address") from None


def _url(flag: str, text: str) -> HttpAddress:
    """Without a scheme it is http, as in Consul's own tools (CONSUL_HTTP_ADDR)."""
    url = urlsplit(text if "://" in text else f"http://{text}")
    wrong = ValueError(f"{flag} {text}: expected http://HOST:PORT or https://HOST:PORT")
    try:
        port = url.port
    except ValueError:
        raise wrong from None
    more = url.username or url.query or url.fragment or url.path not in ("", "/")
    if url.scheme not in ("http", "https") or not url.hostname or not port or more:
        raise wrong
    return HttpAddress(url.scheme, url.hostname, port)


def _token(environment: Mapping[str, str]) -> str | None:
    if path := environment.get(_TOKEN_FILE):
        return Path(path).read_text(encoding="utf-8").strip()
    return environment.get("CONSUL_TOKEN") or None
