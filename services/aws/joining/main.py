"""Makes an instance a node of its pool: an introduction, then its agents.

    join.py FILE        FILE is the pool's boot document (schemas/boot.schema.json)

The pool's secret has the certificate and what else the agents must know; the introduction is for
this instance alone. A node that has joined needs none at its next boot. Its agents are brought to
the document by services/host, as on every other host.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from instance import metadata
from instance.refusal import RefusedError
from instance.secrets import secret
from program.errors import HostError, exit_code
from program.folders import write_private
from program.waiting import say

from joining.document import Boot, node_document, read_boot
from joining.introduction import introduced


def join(boot: Boot) -> None:
    try:
        credentials = metadata.credentials()
        host = f"{boot.pool}-{metadata.text('instance-id').removeprefix('i-')}"
        address = metadata.text("local-ipv4")
        secrets = json.loads(secret(boot.secret, boot.region, credentials))
    except (OSError, RefusedError) as error:
        raise HostError(f"{boot.pool}: {error}") from None
    if not boot.folders.joined(host).exists():
        name, introduction = introduced(boot, secrets["certificate"])
        if name != host:
            raise HostError(f"this instance is introduced as {name}, and is {host}")
        write_private(boot.folders.introduction, introduction)
        say(f"introduced as {host}")
    apply(boot, node_document(boot, host, address), json.dumps(secrets))


def apply(boot: Boot, document: str, secrets: str) -> None:
    """Has the host's agents brought to the document, as on every host."""
    variables = {
        **os.environ,
        "SLIPWAY_DOCUMENT": document,
        "SLIPWAY_RUN": str(boot.folders.run),
        "SLIPWAY_CACHE": str(boot.folders.cache),
        "SLIPWAY_SCRATCH": str(boot.folders.scratch),
    }
    done = subprocess.run(
        [sys.executable, boot.agents, "apply"],
        env=variables,
        input=secrets,
        text=True,
        check=False,
    )
    if done.returncode:
        raise HostError(f"the agents are not as they should be (exit {done.returncode})")


def run(arguments: list[str]) -> None:
    if len(arguments) != 1:
        raise HostError("usage: join.py FILE")
    join(read_boot(Path(arguments[0]).read_text()))


def main(arguments: list[str]) -> int:
    return exit_code(lambda: run(arguments))
