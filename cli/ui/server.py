"""The application: the page, its live updates, and the platform's own pages behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import anyio.to_thread
import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from cli.applied import Applied, current
from cli.clusters.consul import Consul
from cli.clusters.nomad import Nomad
from cli.console import say
from cli.environment import Environment
from cli.errors import CliError
from cli.ui import rendering
from cli.ui.charts import charts
from cli.ui.chat import CHAT, Chat
from cli.ui.guard import Guard, within
from cli.ui.live import Latest, Observes, events
from cli.ui.origins import Origin
from cli.ui.proxy.clients import CONNECT_TIMEOUT_S, Clients
from cli.ui.proxy.forward import Forward
from cli.ui.session import ENTER, WAY_ON_S, Session, Sessions

STATIC = Path(__file__).with_name("static")
LONGEST_FILTER = 100
FIRST_PAGES = {"nomad": "/ui/jobs", "consul": "/ui/", "prometheus": "/query"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the application is made of."""

    environment: Environment
    applied: Applied
    observer: Observes
    when_silent: str
    origins: Mapping[str, Origin]
    sessions: Sessions

    def now(self) -> Applied:
        return current(self.environment, self.applied)


def application(site: Site) -> ASGIApp:
    """The application behind its guard."""
    clients = Clients(site.now)
    apps: dict[str, ASGIApp] = {
        "": _page(site, clients),
        "nomad": Forward(
            "nomad", partial(clients.of, "nomad"), lambda: _token(site.environment, Nomad)
        ),
        "consul": Forward(
            "consul", partial(clients.of, "consul"), lambda: _token(site.environment, Consul)
        ),
        "prometheus": Forward("prometheus", partial(clients.of, "prometheus")),
    }
    return Guard(site.origins, site.sessions, apps)


def _page(site: Site, clients: Clients) -> Starlette:
    latest = Latest(observer=site.observer, when_silent=site.when_silent)

    async def front(request: Request) -> Response:
        page, session = await latest.page(_filter(request)), _session(request)
        return HTMLResponse(rendering.front(page, csrf=session.csrf))

    async def stream(request: Request) -> Response:
        return StreamingResponse(events(latest, _filter(request)), media_type="text/event-stream")

    async def figures(_request: Request) -> Response:
        try:
            return JSONResponse(await anyio.to_thread.run_sync(charts, site.now()))
        except httpx.HTTPError as error:
            text = f"Prometheus does not answer: {error or type(error).__name__}\n"
            return PlainTextResponse(text, status_code=502)

    async def opened(request: Request) -> Response:
        """Leads to a page of Nomad, Consul or Prometheus, which is an origin with its own
        session."""
        name = request.path_params["name"]
        if name not in FIRST_PAGES:
            return PlainTextResponse("There is no such page.\n", status_code=404)
        if lack := await _lack(name, clients.of(name)):
            return HTMLResponse(rendering.no_page(lack), status_code=502)
        origin = next(each for each in site.origins.values() if each.upstream == name)
        query = {
            "token": site.sessions.token_for(origin, WAY_ON_S),
            "to": within(request.query_params.get("to", FIRST_PAGES[name])),
        }
        return RedirectResponse(f"{origin.url}{ENTER}?{urlencode(query)}", status_code=303)

    async def icon(_request: Request) -> Response:
        return FileResponse(STATIC / "icon.svg")

    @asynccontextmanager
    async def closing(_app: Starlette) -> AsyncIterator[None]:
        yield
        await clients.close()

    return Starlette(
        routes=[
            Route("/", front),
            Route("/events", stream),
            Route("/charts", figures),
            Route("/open/{name}", opened),
            Route(CHAT, Chat(site.now).answer, methods=["POST"]),
            Route("/favicon.ico", icon),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        exception_handlers={CliError: _unanswered, Exception: _defect},
        lifespan=closing,
    )


async def _lack(name: str, client: httpx.AsyncClient) -> str:
    """Why there is no page to lead to; empty if there is one."""
    try:
        answer = await client.get(FIRST_PAGES[name], timeout=CONNECT_TIMEOUT_S)
    except httpx.HTTPError as error:
        return f"{name.capitalize()} does not answer: {error or type(error).__name__}"
    if answer.is_success:
        return ""
    return (
        f"This build of {name.capitalize()} has no pages. One from the vendor's archive has them:"
        " docs/tools.md says where tools come from, and slipway up replaces this one."
    )


def _unanswered(_request: Request, error: Exception) -> Response:
    """The platform answers what this command does not read."""
    return HTMLResponse(rendering.no_page(str(error)), status_code=502)


def _defect(request: Request, error: Exception) -> Response:
    """Said in the terminal as well: nothing else logs it."""
    text = f"{request.url.path}: {type(error).__name__}: {error}"
    say(f"slipway ui: a defect of Slipway: {text}", style="red")
    return HTMLResponse(rendering.no_page(f"A defect of Slipway: {text}"), status_code=500)


def _token(environment: Environment, api: type[Nomad] | type[Consul]) -> dict[str, str]:
    token = environment.token(api.__name__.lower())
    return {api.AUTHORIZATION_HEADER: token} if token else {}


def _session(request: Request) -> Session:
    session: Session = request.state.session
    return session


def _filter(request: Request) -> str:
    return request.query_params.get("name", "").strip()[:LONGEST_FILTER]
