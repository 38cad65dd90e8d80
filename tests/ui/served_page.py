"""The page of a fake platform, served as the command serves it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from cli.environment import Environment
from cli.hosts.troubles import HERE
from cli.ui.listening import listen
from cli.ui.live import Observes
from cli.ui.observation import Observer
from cli.ui.origins import Origin, origins
from cli.ui.server import Site, application
from cli.ui.serving import configuration
from cli.ui.session import Sessions, first_address
from tests.ui.fake_platform import FakePlatform, running
from tests.waiting import HANG_S, until


@dataclass
class Clock:
    """The sessions' one, which a test puts forward."""

    ahead_s: float = 0.0

    def now_s(self) -> float:
        return time.monotonic() + self.ahead_s


@dataclass(frozen=True, kw_only=True)
class ServedPage:
    platform: FakePlatform
    environment: Environment
    sessions: Sessions
    clock: Clock
    origins: Mapping[str, Origin]
    port: int
    address: str  # with the token

    @property
    def url(self) -> str:
        """For clients that name the host themselves, since only browsers resolve it."""
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, method: str = "GET", **asked: Any) -> httpx.Response:
        """The page's answer to a visitor without a session."""
        headers = {"Host": self.origin("").host}
        with httpx.Client(base_url=self.url, headers=headers, trust_env=False) as client:
            return client.request(method, path, **asked)

    def origin(self, upstream: str) -> Origin:
        return next(each for each in self.origins.values() if each.upstream == upstream)

    def another_address(self, upstream: str = "") -> str:
        """One more address with a token, as if the command had been started again."""
        origin = self.origin(upstream)
        return f"/enter?token={self.sessions.token_for(origin)}"

    @contextmanager
    def visitor(self, upstream: str = "") -> Iterator[httpx.Client]:
        """A client with a session at an origin, which it names in each request."""
        headers = {"Host": self.origin(upstream).host}
        with httpx.Client(
            base_url=self.url, headers=headers, timeout=HANG_S, trust_env=False, verify=False
        ) as client:
            entered = client.get(self.another_address(upstream)).raise_for_status()
            # httpx keeps cookies by the address that it connects to, browsers by the name.
            client.headers["Cookie"] = entered.headers["set-cookie"].partition(";")[0]
            client.cookies.clear()
            yield client


@contextmanager
def served(models: list[str], folder: Path) -> Iterator[ServedPage]:
    """The page of a whole platform."""
    with (
        running(models, folder) as (platform, environment),
        served_by(platform, environment) as page,
    ):
        yield page


@contextmanager
def served_by(
    platform: FakePlatform, environment: Environment, observer: Observes | None = None
) -> Iterator[ServedPage]:
    """With another observer than the command's, if one is given."""
    sockets = listen(None)
    port = sockets[0].getsockname()[1]
    clock, named = Clock(), origins(port)
    sessions = Sessions(now_s=clock.now_s)
    observer = observer or Observer(environment=environment, applied=platform.applied, fixes=HERE)
    site = Site(
        environment=environment,
        applied=platform.applied,
        observer=observer,
        when_silent="stopped",
        origins=named,
        sessions=sessions,
    )
    server = uvicorn.Server(configuration(application(site)))
    thread = threading.Thread(target=server.run, args=(sockets,), daemon=True)
    thread.start()
    until(lambda: server.started, "the page to be served")
    try:
        yield ServedPage(
            platform=platform,
            environment=environment,
            sessions=sessions,
            clock=clock,
            origins=named,
            port=port,
            address=first_address(named, sessions),
        )
    finally:
        server.should_exit = True
        thread.join(HANG_S)
