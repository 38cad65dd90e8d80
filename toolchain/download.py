"""Files from vendors and mirrors over HTTP: tried again, never half, never by a detour over plain
HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from toolchain.errors import ToolchainError, UnavailableError
from toolchain.progress import Step, amount

NO_ARCHIVES = "SLIPWAY_TOOL_SOURCES=path,wheel,module uses no archives (docs/tools.md)"
_TIMEOUT = httpx.Timeout(30, connect=10)
_ATTEMPTS = 3
_RETRY_S = 0.2  # twice as long each time
_MIB = 1024 * 1024
_SMALL_BYTES = _MIB  # checksum files have some KiB
_LARGE_BYTES = 2048 * _MIB  # without a length; pinned archives have at most some 100 MiB


class _PlainHttpError(Exception):
    """`address` would be the next one, after one with HTTPS."""

    def __init__(self, address: httpx.URL) -> None:
        super().__init__(str(address))
        self.address = address


def shown(address: httpx.URL) -> str:
    """The address as shown to people and in logs: without the token that a mirror's may contain."""
    return str(address.copy_with(userinfo=b"", query=None))


def save(source: httpx.URL, target: Path, step: Step) -> None:
    """Writes the file at `source` to `target`, with its progress in MiB.

    UnavailableError if the address does not serve it whole, or more than it says; ToolchainError if
    it redirects from HTTPS to plain HTTP."""
    step.enter("downloading", shown(source))

    def save_once() -> None:
        with _response(source) as response, target.open("wb") as output:
            total_bytes = int(response.headers.get("content-length", 0))
            most_bytes = total_bytes or _LARGE_BYTES
            for chunk in response.iter_raw():
                output.write(chunk)
                if output.tell() > most_bytes:
                    raise UnavailableError(f"{shown(source)} is larger than {most_bytes} bytes")
                step.tick(amount(output.tell(), total_bytes))

    _tried(save_once, source)


def read(source: httpx.URL, step: Step) -> bytes:
    """The content of a small file. Errors are as in `save`."""
    step.enter("downloading", shown(source))
    content = bytearray()

    def read_once() -> None:
        content.clear()
        with _response(source) as response:
            for chunk in response.iter_raw():
                content.extend(chunk)
                if len(content) > _SMALL_BYTES:
                    raise UnavailableError(f"{shown(source)} is larger than a checksum file")
                step.tick()

    _tried(read_once, source)
    return bytes(content)


def open_client(
    timeout: httpx.Timeout, before_each: Callable[[httpx.Request], None] = lambda _: None
) -> httpx.Client:
    """A client that follows redirects, each of which `before_each` sees as well. UnavailableError
    where the settings of this machine allow none: a proxy of a kind that httpx does not know, or
    authorities that cannot be read."""
    hooks = {"request": [before_each]}
    try:
        return httpx.Client(timeout=timeout, follow_redirects=True, event_hooks=hooks)
    except (ValueError, ImportError, OSError, httpx.InvalidURL) as error:
        variables = "HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE"
        raise UnavailableError(f"{error} (set by one of {variables})") from error


@contextmanager
def _response(source: httpx.URL) -> Iterator[httpx.Response]:
    def refuse_plain_http(request: httpx.Request) -> None:
        # Called for each redirect as well.
        if source.scheme == "https" and request.url.scheme != "https":
            raise _PlainHttpError(request.url)

    with (
        open_client(_TIMEOUT, refuse_plain_http) as client,
        # As the file is, so that it has the length and the sum of the file.
        client.stream("GET", source, headers={"accept-encoding": "identity"}) as response,
    ):
        response.raise_for_status()
        yield response


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        return status == httpx.codes.TOO_MANY_REQUESTS or httpx.codes.is_server_error(status)
    return isinstance(error, httpx.TransportError)


def _tried(call: Callable[[], None], source: httpx.URL) -> None:
    retrying = Retrying(
        retry=retry_if_exception(_may_pass),
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_exponential(multiplier=_RETRY_S, max=2),
        reraise=True,
    )
    try:
        retrying(call)
    except _PlainHttpError as error:
        raise ToolchainError(
            f"{shown(source)} redirects to plain HTTP, {shown(error.address)}, where anyone on the "
            "way can change the file",
            fix="find out what answers for that address (a proxy, a captive portal); "
            + NO_ARCHIVES,
        ) from error
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        raise UnavailableError(f"{shown(source)} answers {status}") from error
    except (
        httpx.HTTPError,
        httpx.InvalidURL,
    ) as error:  # a redirect's target may not be a valid URL
        raise UnavailableError(f"{shown(source)}: {error or type(error).__name__}") from error
