"""Take a snapshot of Consul's and Nomad's state; a periodic job of the platform.

    take_snapshot.py --folder FOLDER --keep N

Snapshots hold every secret of the clusters: they are readable by root only, and never leave the
host by themselves. Each is verified before it gets its name, and older ones are deleted only
afterwards.

Environment: CONSUL_HTTP_ADDR, CONSUL_TOKEN, NOMAD_ADDR, NOMAD_TOKEN, NOMAD_CACERT; the certificate
is in the folder of the last.
"""

from __future__ import annotations

import argparse
import datetime
import os
from pathlib import Path

from program.errors import exit_code
from program.folders import make_private_folder
from program.http_json import Api
from program.snapshots import PATHS, TIMEOUT_S
from program.waiting import say

from snapshots.archive import PARTIAL, complete, prune, snapshot_file


def take(folder: Path, keep: int, apis: dict[str, Api], now: datetime.datetime) -> None:
    """`now` is in UTC and names the files."""
    make_private_folder(folder)
    for system, api in apis.items():
        file = snapshot_file(folder, system, now.strftime("%Y%m%dT%H%M%SZ"))
        partial = file.with_name(file.name + PARTIAL)
        api.download(PATHS[system], partial)
        complete(partial)
        say(f"{file.name}: {file.stat().st_size} bytes")
    prune(folder, keep)


def run() -> None:
    parser = argparse.ArgumentParser(prog="take_snapshot.py")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--keep", type=int, required=True)
    given = parser.parse_args()
    certificate = Path(os.environ["NOMAD_CACERT"]).parent
    apis = {
        "consul": Api(
            os.environ["CONSUL_HTTP_ADDR"],
            {"X-Consul-Token": os.environ["CONSUL_TOKEN"]},
            certificate=certificate,
            timeout_s=TIMEOUT_S,
        ),
        "nomad": Api(
            os.environ["NOMAD_ADDR"],
            {"X-Nomad-Token": os.environ["NOMAD_TOKEN"]},
            certificate=certificate,
            timeout_s=TIMEOUT_S,
        ),
    }
    take(given.folder, given.keep, apis, datetime.datetime.now(datetime.timezone.utc))


def main() -> int:
    return exit_code(run)
