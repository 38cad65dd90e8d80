"""HTTP clients of a cluster's servers: of a given server, or of the first that answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Self

import httpx

from cli.certificates import platform
from cli.errors import CliError

TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 3.0
LEADER_TIMEOUT_S = 2.0  # of each server that may be dead


class Server:
    """The API of a cluster's server, with the environment's management token and the operator's
    certificate. Methods raise httpx.HTTPError (`errors.explained` knows it)."""

    AUTHORIZATION_HEADER: ClassVar[str]

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    @classmethod
    def of_any(
        cls, addresses: Sequence[str], token: str | None, operator: Path, server_name: str = ""
    ) -> Self:
        """The API of the first of these servers (URLs) that knows a leader, else of the first.
        Servers are verified by their addresses, or by `server_name`."""
        headers = {cls.AUTHORIZATION_HEADER: token} if token else {}
        return cls(client_of_first_that_answers(addresses, headers, operator, server_name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def has_leader(self) -> bool:
        """Whether the cluster answers; never raises."""
        return has_leader(self._http)


def client(
    address: str, headers: Mapping[str, str], operator: Path, server_name: str = ""
) -> httpx.Client:
    return httpx.Client(
        base_url=address,
        headers=dict(headers),
        timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        trust_env=False,  # the user's proxy must not see these requests
        verify=platform(operator, server_name),
    )


def client_of_first_that_answers(
    servers: Sequence[str], headers: Mapping[str, str], operator: Path, server_name: str = ""
) -> httpx.Client:
    """A client of the first server that knows a leader, else of the first."""
    if len(servers) > 1:
        for address in servers:
            tried = client(address, headers, operator, server_name)
            if has_leader(tried):
                return tried
            tried.close()
    return client(servers[0], headers, operator, server_name)


def has_leader(http: httpx.Client) -> bool:
    """Whether the server answers and its cluster has a leader; never raises."""
    try:
        response = http.get("/v1/status/leader", timeout=LEADER_TIMEOUT_S)
        return response.is_success and bool(response.json())
    except httpx.HTTPError:
        return False


@contextmanager
def must_answer(cluster: str, otherwise: str) -> Iterator[None]:
    """Turns a failed request into a CliError; `otherwise` is its consequence, as the end of the
    message."""
    try:
        yield
    except httpx.HTTPError as error:
        raise CliError(
            f"{cluster} does not answer: {error or type(error).__name__}; {otherwise}",
            fix="slipway hosts shows which servers live; run the command again once it answers",
        ) from None
