"""JSON over HTTP and HTTPS to the agents' APIs.

With the standard library only, because hosts install no packages.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

from program.certificate import client_context, of_operator
from program.errors import HostError
from program.forwards import Way, way_to

TIMEOUT_S = 10
ANSWER_S = 60  # for servers that are electing a leader, or a busy machine
RETRY_INTERVAL_S = 0.5

Answer = TypeVar("Answer")


class ApiError(HostError):
    """A failed request. `status` is None if there was no answer; `refused` is True if nothing
    listens."""

    def __init__(self, message: str, status: int | None = None, *, refused: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.refused = refused

    @property
    def may_pass(self) -> bool:
        """Whether the failure may be temporary: the agent is busy, or a leader is being elected."""
        return not self.refused if self.status is None else self.status >= 500


class Api:
    """One agent's HTTP API. `headers` contain the token and never appear in an error message.

    `certificate` is the folder of this client's certificate, needed for https. Its files are read
    with the first request, because they may be written after this object is made. `way` is where
    to connect to instead of the address.
    """

    def __init__(
        self,
        address: str,
        headers: Mapping[str, str] | None = None,
        *,
        certificate: Path | None = None,
        timeout_s: float = TIMEOUT_S,
        way: Way | None = None,
    ) -> None:
        self.address = address
        self._way = way or Way(address)
        self._certificate = certificate
        self._context: ssl.SSLContext | None = None
        self._timeout_s = timeout_s
        self._headers = dict(headers or {})

    def get(self, path: str) -> Any:
        return self._json("GET", path)[0]

    def text(self, path: str) -> str:
        """A response that is not JSON, such as a task's output."""
        return self._request("GET", path)[0].decode(errors="replace")

    def download(self, path: str, file: Path) -> None:
        """Write a response of any size into a new private file."""
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as written, self._open("GET", path) as response:
            try:
                shutil.copyfileobj(response, written)
            except (OSError, http.client.HTTPException) as error:
                raise ApiError(f"GET {self.address}{path}: {error}") from None

    def upload(self, path: str, file: Path) -> None:
        """Put the content of a file."""
        with file.open("rb") as content:
            size = {"Content-Length": str(file.stat().st_size)}
            with self._open("PUT", path, content, headers=size) as response:
                response.read()

    def put(self, path: str, body: Any = None) -> Any:
        return self._json("PUT", path, body)[0]

    def post(self, path: str, body: Any = None) -> Any:
        return self._json("POST", path, body)[0]

    def delete(self, path: str, body: Any = None) -> Any:
        return self._json("DELETE", path, body)[0]

    def watch(self, path: str, index: int, wait_s: int) -> tuple[Any, int]:
        """A blocking query: returns on a change after `index`, or after `wait_s`."""
        separator = "&" if "?" in path else "?"
        blocking = f"{path}{separator}index={index}&wait={wait_s}s"
        body, headers = self._json("GET", blocking, wait_s=wait_s)
        newest = int(headers.get("X-Consul-Index") or headers.get("X-Nomad-Index") or 0)
        # An index that went backwards means the server's state was restored: start over.
        return body, newest if newest >= index else 0

    def _tls(self) -> ssl.SSLContext | None:
        if self._context is None and self._certificate and self.address.startswith("https:"):
            self._context = client_context(self._certificate, self._way.server_name)
        return self._context

    def _json(
        self, method: str, path: str, body: Any = None, wait_s: float = 0
    ) -> tuple[Any, Mapping[str, str]]:
        content, headers = self._request(method, path, body, wait_s)
        try:
            return (json.loads(content) if content.strip() else None), headers
        except ValueError as error:
            raise ApiError(f"{method} {self.address}{path}: {error}") from None

    def _request(
        self, method: str, path: str, body: Any = None, wait_s: float = 0
    ) -> tuple[bytes, Mapping[str, str]]:
        content = None if body is None else json.dumps(body).encode()
        with self._open(method, path, content, wait_s=wait_s) as response:
            try:
                return response.read(), response.headers
            except (OSError, http.client.HTTPException) as error:
                raise ApiError(f"{method} {self.address}{path}: {error}") from None

    def _open(
        self,
        method: str,
        path: str,
        content: bytes | IO[bytes] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        wait_s: float = 0,
    ) -> http.client.HTTPResponse:
        """The response to a request, not yet read. Raises ApiError."""
        request = urllib.request.Request(  # noqa: S310  (always the address of an agent)
            self._way.address + path,
            method=method,
            data=content,
            headers={**self._headers, **(headers or {})},
        )
        try:
            response: http.client.HTTPResponse = urllib.request.urlopen(  # noqa: S310
                request, timeout=self._timeout_s + wait_s, context=self._tls()
            )
        except urllib.error.HTTPError as error:
            raise ApiError(
                f"{method} {self.address}{path}: HTTP {error.code} {_detail(error)}", error.code
            ) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            refused = isinstance(getattr(error, "reason", error), ConnectionRefusedError)
            raise ApiError(f"{method} {self.address}{path}: {error}", refused=refused) from None
        return response


def operators(
    address: str, headers: Mapping[str, str] | None = None, *, timeout_s: float = TIMEOUT_S
) -> Api:
    """A client for programs on the operator's machine, with the operator's certificate, and through
    SSH where `slipway` forwards the address."""
    return Api(
        address, headers, certificate=of_operator(), timeout_s=timeout_s, way=way_to(address)
    )


def answered(ask: Callable[[], Answer]) -> Answer:
    """Retries busy servers; raises ApiError at once if nothing listens or the token is refused."""
    deadline = time.monotonic() + ANSWER_S
    while True:
        try:
            return ask()
        except ApiError as error:
            if not error.may_pass or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_INTERVAL_S)  # no event tells when it answers


def without_leader(server: Api) -> str | None:
    """None if a server of Consul or Nomad says that its cluster has a leader."""
    try:
        return None if server.get("/v1/status/leader") else "no leader has been elected"
    except ApiError as error:
        return str(error)


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        return error.read().decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as cut_off:
        return repr(cut_off)
