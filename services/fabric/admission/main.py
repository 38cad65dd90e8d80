"""Says which hosts take members of groups; a platform job.

    keep_admissions.py

It reads what the checks of all hosts found, judges it, and puts the verdicts into the metadata of
the hosts' nodes. Where it does not run, Nomad knows what it knew.

Environment: SLIPWAY_DOCUMENT (schemas/fabric-pools.schema.json); NOMAD_ADDR, NOMAD_TOKEN and
NOMAD_CACERT, in whose folder the certificate is; NOMAD_ALLOC_DIR; SLIPWAY_ADDRESS, SLIPWAY_PORT and
SLIPWAY_READER, where the page for Prometheus is and who may read it. The token may read nodes, jobs
and files of allocations, and write the metadata of nodes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from fabric.pool import VERSION, read_pools
from program.document import read_document
from program.errors import exit_code
from program.figures_page import FiguresServer
from program.http_json import Api
from program.waiting import say

from admission.keeper import Keeper
from admission.page import exposition

LOOK_EVERY_S = 2.0
PER_HOST_S = 0.1  # of a fleet, so that Nomad has other things to do


def run(environment: Mapping[str, str] = os.environ) -> None:
    certificate = Path(environment["NOMAD_CACERT"]).parent
    nomad = Api(
        environment["NOMAD_ADDR"],
        {"X-Nomad-Token": environment["NOMAD_TOKEN"]},
        certificate=certificate,
    )
    pools = read_pools(read_document(VERSION))
    keeper = Keeper(nomad, pools, Path(environment["NOMAD_ALLOC_DIR"]), say)
    address = environment["SLIPWAY_ADDRESS"], int(environment["SLIPWAY_PORT"])
    page = FiguresServer(
        address,
        certificate,
        [environment["SLIPWAY_READER"]],
        lambda: exposition(dict(keeper.known)).encode(),
    )
    threading.Thread(target=page.serve_forever, daemon=True).start()
    while True:
        keeper.look()
        time.sleep(max(LOOK_EVERY_S, PER_HOST_S * len(keeper.known)))


def main() -> int:
    return exit_code(run)
