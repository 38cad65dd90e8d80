"""Checks this host, when it joins, when its settings change, and when it is asked to.

    check_host.py

A task on every host of a pool with groups. It decides nothing: what its tools say is in a file of
its allocation, which keep_admissions.py reads; the host may only read its own node's metadata.

Environment: SLIPWAY_DOCUMENT (schemas/fabric-pools.schema.json, of one pool), SLIPWAY_ADDRESS and
SLIPWAY_PORT, where it may listen; NOMAD_ADDR, NOMAD_TOKEN, NOMAD_ALLOC_DIR and the folder of the
host's certificate, SLIPWAY_CERTIFICATE.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from fabric.planned import Planned, Thresholds, read_planned, read_thresholds
from fabric.pool import VERSION, Pool, completed, read_pools
from fabric.requests import MEASURE, REPORT, Request, read_request
from fabric.verdicts import Output
from program.document import read_document
from program.errors import exit_code
from program.group.own_address import address_of, interface_with
from program.http_json import Api, ApiError
from program.waiting import say

from collection.commands import host_commands
from collection.measuring import take_part
from collection.running import output_of
from collection.settings import devices, key_of, settings

LOOK_EVERY_S = 2.0
METADATA = "/v1/client/metadata"
LOOPBACK = "lo"


class HostCheck:
    """`_report` is what the file has, as schemas/fabric-host.schema.json."""

    def __init__(self, pool: Pool, nomad: Api, file: Path, address: str, port: int) -> None:
        self._pool, self._nomad, self._file = pool, nomad, file
        self._address, self._port = address, port
        self._report: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        self._request = self._report.get("request", "")
        planned: str | None = pool.planned.get("interface")
        self._interface = planned or interface_with(address) or LOOPBACK

    def look(self) -> None:
        """Does what is asked for or due. Raises ApiError after it if Nomad's agent does not
        answer."""
        if self._key() != self._report.get("key"):
            say("the host joined, or its driver, firmware or settings changed: checking it")
            self._check()
        request = read_request(self._nomad.get(METADATA)["Meta"])
        if request and request.id != self._request and time.time() < request.until:
            say(f"asked to {request.role}{f' with {request.peer}' if request.peer else ''}")
            self._serve(request)

    def _serve(self, request: Request) -> None:
        self._request = request.id
        if request.peer:
            outputs = take_part(*self._plan(), request, self._own(), self._port)
            if request.role == MEASURE:
                self._keep_pair(request, outputs)
        self._check()

    def _check(self) -> None:
        """By itself. What was measured with others before a change says nothing any more."""
        key = self._key()
        pairs = self._report.get("pairs", []) if key == self._report.get("key") else []
        planned, _ = self._plan()
        commands = host_commands(planned, self._interface)
        said = (output_of(each.tool, each.words) for each in commands)
        self._write(key=key, outputs=_rendered(filter(None, said)), pairs=pairs)

    def _keep_pair(self, request: Request, outputs: list[Output]) -> None:
        """The newest with each peer."""
        others = [each for each in self._report.get("pairs", []) if each["peer"] != request.peer]
        newest = {
            "peer": request.peer,
            "peer_key": request.peer_key,
            "at": _now(),
            "outputs": _rendered(outputs),
        }
        self._report["pairs"] = [*others, newest]

    def _write(self, **found: Any) -> None:
        self._report = {
            "schema_version": VERSION,
            "at": _now(),
            "interface": self._interface,
            "address": self._own(),
            "port": self._port,
            "devices": self._devices(),
            "request": self._request,
            **found,
        }
        written = self._file.with_suffix(".new")
        written.write_text(json.dumps(self._report, sort_keys=True) + "\n")
        written.replace(self._file)

    def _key(self) -> str:
        found = {"address": self._own(), **settings(self._interface)}
        return key_of(found, self._pool.planned)

    def _plan(self) -> tuple[Planned, Thresholds]:
        """Anew each time: ports become active later than this program does."""
        planned = read_planned(completed(self._pool.planned, self._interface, self._devices()))
        return planned, read_thresholds(self._pool.thresholds, planned)

    def _devices(self) -> list[str]:
        return devices(self._pool.planned["kind"])

    def _own(self) -> str:
        """The address on the fabric; empty if there is none."""
        if self._interface != self._pool.planned.get("interface"):
            return self._address
        try:
            return address_of(self._interface)
        except OSError:
            return ""


def _rendered(outputs: Any) -> list[dict[str, Any]]:
    """As schemas/fabric-check.schema.json has them."""
    made = (asdict(each) for each in outputs)
    return [{key: value for key, value in each.items() if value is not None} for each in made]


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def run(environment: Mapping[str, str] = os.environ) -> None:
    (pool,) = read_pools(read_document(VERSION))
    nomad = Api(
        environment["NOMAD_ADDR"],
        {"X-Nomad-Token": environment["NOMAD_TOKEN"]},
        certificate=Path(environment["SLIPWAY_CERTIFICATE"]),
    )
    file = Path(environment["NOMAD_ALLOC_DIR"]) / REPORT
    check = HostCheck(
        pool, nomad, file, environment["SLIPWAY_ADDRESS"], int(environment["SLIPWAY_PORT"])
    )
    while True:
        try:
            check.look()
        except ApiError as error:  # the agent is away: ask again
            say(str(error))
        time.sleep(LOOK_EVERY_S)


def main() -> int:
    return exit_code(run)
