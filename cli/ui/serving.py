"""Serves the application until the command is interrupted."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import uvicorn
from starlette.types import ASGIApp

GRACE_S = 1  # for answers that are on their way; streams of events never end by themselves


def configuration(app: ASGIApp) -> uvicorn.Config:
    """Requests are not logged: addresses have tokens."""
    return uvicorn.Config(
        app,
        ws="none",
        lifespan="on",
        access_log=False,
        log_level="critical",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
    )


def serve(app: ASGIApp, sockets: Sequence[socket.socket]) -> None:
    """Returns after Ctrl-C or SIGTERM."""
    try:
        uvicorn.Server(configuration(app)).run(sockets=list(sockets))
    except KeyboardInterrupt:
        return
    finally:
        for each in sockets:
            each.close()
