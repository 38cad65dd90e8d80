"""A JSON API over HTTP with a token, such as Nomad's and Consul's.

Uses `http.client` directly: no proxies (the addresses are the cluster's own), no retries (Pulumi's
user decides), and few imports for a process that lives for a second.
"""

import http.client
import json
import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

from toolchain.plugins.resource import ProviderError

CONNECT_TIMEOUT_S = 10.0
CERTIFICATE_KEYS = ("caFile", "caPem", "certFile", "certPem", "keyFile", "keyPem")
Query: TypeAlias = Mapping[str, str] | None


class ApiError(ProviderError):
    """The server answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Certificates:
    """Each is a PEM text, or the path of a file, which this update may write before the first call.

    Attributes:
        ca: what the server is verified by, instead of the system's authorities.
        own, key: what this client shows to the server.
    """

    ca: str = ""
    own: str = ""
    key: str = ""

    @cached_property
    def context(self) -> ssl.SSLContext:
        ca, own, key = (
            Path(given).read_text() if given and "-----BEGIN" not in given else given
            for given in (self.ca, self.own, self.key)
        )
        context = ssl.create_default_context(cadata=ca or None)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as Go's clients
        if own:
            memory = os.memfd_create("certificate")  # Python takes it from files only
            os.write(memory, f"{own}\n{key}".encode())
            context.load_cert_chain(f"/proc/self/fd/{memory}")
            os.close(memory)
        return context


@dataclass(frozen=True, kw_only=True)
class JsonApi:
    """One server.

    Attributes:
        address: URL of its root, e.g. "http://127.0.0.1:4646".
        token_header: the header that carries `token`; an empty token is not sent.
        token_file: a file with the token, if `token` is empty; read at every call.
        server_name: what its certificate is verified for, instead of the address.
    """

    address: str
    token_header: str
    token: str
    token_file: str = ""
    certificates: Certificates = Certificates()
    server_name: str = ""

    def json(self, method: str, path: str, query: Query = None, body: object = None) -> Any:
        """The decoded answer, None if it is empty. Encodes `body` unless it is bytes.

        Raises:
            ApiError: the server answered with an error.
            ProviderError: no answer; never the same as "not found".
        """
        encoded = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        query = {key: value for key, value in (query or {}).items() if value}
        target = quote(path) + (f"?{urlencode(query)}" if query else "")
        what = f"{method} {self.address}{target}"
        try:
            with closing(self._connection()) as connection:
                connection.request(method, target, body=encoded, headers=self._headers())
                response = connection.getresponse()
                content = response.read()
        except ConnectionRefusedError as problem:
            raise ProviderError(f"{what}: connection refused") from problem
        except (OSError, http.client.HTTPException) as problem:
            raise ProviderError(f"{what}: {problem or type(problem).__name__}") from problem
        if response.status not in (200, 204):
            text = content.decode(errors="replace").strip()
            raise ApiError(response.status, f"{what}: response {response.status} ({text})")
        return json.loads(content) if content.strip() else None

    def json_if_there(self, method: str, path: str, query: Query = None) -> Any:
        """Like `json`; None if the server answers 404."""
        try:
            return self.json(method, path, query)
        except ApiError as problem:
            if problem.status == 404:
                return None
            raise

    def _headers(self) -> dict[str, str]:
        token = self.token or (self.token_file and Path(self.token_file).read_text().strip())
        return {self.token_header: token} if token else {}

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.address)
        if parts.scheme != "https":
            return http.client.HTTPConnection(parts.netloc, timeout=CONNECT_TIMEOUT_S)
        context = self.certificates.context
        made = http.client.HTTPSConnection(parts.netloc, timeout=CONNECT_TIMEOUT_S, context=context)
        if self.server_name:
            plain = socket.create_connection((made.host, made.port), CONNECT_TIMEOUT_S)
            made.sock = context.wrap_socket(plain, server_hostname=self.server_name)
        return made


def setting(config: Mapping[str, Any], key: str, *variables: str, default: str = "") -> str:
    """A provider's setting: its configuration, else the first set variable, else `default`."""
    candidates = [config.get(key), *(os.environ.get(name) for name in variables)]
    return str(next((value for value in candidates if value), default))


def certificates(
    config: Mapping[str, Any], ca: Sequence[str], own: Sequence[str], key: Sequence[str]
) -> Certificates:
    """A provider's certificates; `ca`, `own` and `key` are variables with paths."""

    def given(name: str, variables: Sequence[str]) -> str:
        return str(config.get(f"{name}Pem") or setting(config, f"{name}File", *variables))

    return Certificates(ca=given("ca", ca), own=given("cert", own), key=given("key", key))
