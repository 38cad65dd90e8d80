"""Measurements with another host: both are told of it, one listens and the other measures."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict

from fabric.planned import Planned, Thresholds
from fabric.requests import LISTEN, Request
from fabric.tcp import SEND_S, Listener, measure
from fabric.verdicts import Output
from program.errors import HostError

from collection.commands import measurements
from collection.running import output_of

LISTENS_S = 45.0
QUIET_S = SEND_S + 5.0  # more than between two connections of the peer, with what is on its way
# The other host may learn of the measurement later, and may still be at the tool before.
PATIENCE_S = 30.0
PAUSE_S = 0.5


def take_part(
    planned: Planned, thresholds: Thresholds, request: Request, own: str, port: int
) -> list[Output]:
    """What was measured; nothing for the host that listens. `own` is its address on the fabric, and
    `port` where it listens."""
    if planned.kind == "tcp":
        return _tcp(request, own, port)
    listens = request.role == LISTEN
    address, where = (own, port) if listens else (request.address, request.port)
    outputs: list[Output] = []
    for each in measurements(planned, thresholds, peer=address, port=where):
        if listens:
            output_of(each.tool, each.listens, each.device)
        elif (said := _patiently(each.tool, each.measures, each.device)) is not None:
            outputs.append(said)
    return outputs


def _tcp(request: Request, own: str, port: int) -> list[Output]:
    if request.role == LISTEN:
        with suppress(HostError):  # the other host finds nobody there, and says so
            Listener(own, port, request.address).serve(LISTENS_S, QUIET_S)
        return []
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            figures = measure(own, (request.address, request.port))
        except HostError as error:
            if time.monotonic() < deadline:
                time.sleep(PAUSE_S)
                continue
            return [Output("tcp_check", str(error).partition("\n")[0], 1)]
        return [Output("tcp_check", json.dumps(asdict(figures), sort_keys=True))]


def _patiently(
    tool: str,
    words: tuple[str, ...],
    device: str | None,
    *,
    run: Callable[..., Output | None] = output_of,
) -> Output | None:
    """Again while the other host does not listen yet: the tools themselves try only once."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        said = run(tool, words, device)
        if said is None or not said.exit_code or time.monotonic() > deadline:
            return said
        time.sleep(PAUSE_S)
