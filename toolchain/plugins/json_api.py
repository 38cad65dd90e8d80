"""A JSON API over HTTP with a token, such as Nomad's and Consul's.

Uses `http.client` directly: no proxies (the addresses are the cluster's own), no retries (Pulumi's
user decides), and few imports for a process that lives for a second.
"""

import http.client
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from toolchain.plugins.resource import ProviderError

CONNECT_TIMEOUT_S = 10.0


class ApiError(ProviderError):
    """The server answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class JsonApi:
    """One server.

    Attributes:
        address: URL of its root, e.g. "http://127.0.0.1:4646".
        token_header: the header that carries `token`; an empty token is not sent.
    """

    address: str
    token_header: str
    token: str

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> tuple[bytes, Message]:
        """The body and the headers of a successful answer.

        Raises:
            ApiError: the server answered with a status other than 200.
            ProviderError: no answer; never the same as "not found".
        """
        query = {key: value for key, value in (query or {}).items() if value}
        target = quote(path) + (f"?{urlencode(query)}" if query else "")
        what = f"{method} {self.address}{target}"
        headers = {self.token_header: self.token} if self.token else {}
        connection = self._connection()
        try:
            connection.request(method, target, body=body, headers=headers)
            response = connection.getresponse()
            content = response.read()
        except ConnectionRefusedError as problem:
            raise ProviderError(f"{what}: connection refused") from problem
        except (OSError, http.client.HTTPException) as problem:
            raise ProviderError(f"{what}: {problem or type(problem).__name__}") from problem
        finally:
            connection.close()
        if response.status != 200:
            text = content.decode(errors="replace").strip()
            raise ApiError(response.status, f"{what}: response {response.status} ({text})")
        return content, response.headers

    def json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
    ) -> Any:
        """Like `call`, but decodes the answer from JSON, and encodes `body` unless it is bytes."""
        encoded = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        content, _ = self.call(method, path, query, encoded)
        return json.loads(content) if content.strip() else None

    def json_if_there(self, method: str, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Like `json`; None if the server answers 404."""
        try:
            return self.json(method, path, query)
        except ApiError as problem:
            if problem.status == 404:
                return None
            raise

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.address)
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        return kind(parts.netloc, timeout=CONNECT_TIMEOUT_S)


def setting(config: Mapping[str, Any], key: str, *variables: str, default: str = "") -> str:
    """A provider's setting: its configuration, else the first set variable, else `default`."""
    candidates = [config.get(key), *(os.environ.get(name) for name in variables)]
    return str(next((value for value in candidates if value), default))
