"""The certificates that HTTP clients trust, and the one that they show."""

# ruff: noqa: PLC0415 - each command loads only the libraries it needs

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cli.errors import CliError

if TYPE_CHECKING:
    import ssl

AUTHORITY, CERTIFICATE, KEY = "ca.pem", "cert.pem", "key.pem"


# Where distributions keep the certificates that a machine trusts, in one file.
_SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, Red Hat
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # Alpine
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicTls:
    """How clients verify a gateway that speaks TLS: the name in its certificate, and a file of the
    authorities that may have signed it, None for those that the machine trusts."""

    name: str
    authorities: Path | None

    def context(self) -> ssl.SSLContext:
        import ssl

        context = ssl.create_default_context(cafile=self.authorities_file)
        if self.authorities is not None:  # it may be an intermediate, as gRPC accepts it
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    @property
    def authorities_file(self) -> Path | None:
        """The file of the authorities; None where this machine keeps its own in a place that only
        OpenSSL knows. CliError without the file that the user names."""
        if self.authorities is not None:
            if not self.authorities.is_file():
                raise CliError(
                    f"slipway:gateway.certificate.ca: there is no file {self.authorities}",
                    fix="bring it back, or name another file and run slipway up",
                )
            return self.authorities
        return next((Path(name) for name in _SYSTEM if Path(name).is_file()), None)


@cache
def trusted() -> ssl.SSLContext:
    """The machine's certificates. Read once: reading takes longer than a local request."""
    import httpx

    return httpx.create_ssl_context(trust_env=False)


def platform(operator: Path, server_name: str = "") -> ssl.SSLContext:
    """Trusts only the environment's own authority, and shows its agents the operator's certificate.
    Agents are verified by their address, or by `server_name`. `operator` is the folder of authority
    and certificate. Before the first `up` has written that folder, the machine's authorities are
    trusted, which never verify the platform's agents.
    """
    import ssl

    if not (operator / KEY).is_file():
        return trusted()
    context = ssl.create_default_context(cafile=str(operator / AUTHORITY))
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the authority may be an intermediate
    context.load_cert_chain(operator / CERTIFICATE, operator / KEY)
    if server_name:
        by_address = context.wrap_socket
        context.wrap_socket = lambda *given, **options: by_address(  # type: ignore[method-assign]
            *given, **{**options, "server_hostname": server_name}
        )
    return context


def tool_variables(operator: Path) -> dict[str, str]:
    """The variables that make Pulumi's providers and the tools of Consul and Nomad use the
    operator's certificate."""
    files = [str(operator / name) for name in (AUTHORITY, CERTIFICATE, KEY)]
    names = ("CACERT", "CLIENT_CERT", "CLIENT_KEY")
    return {
        f"{tool}_{name}": file
        for tool in ("CONSUL", "NOMAD")
        for name, file in zip(names, files, strict=True)
    }
