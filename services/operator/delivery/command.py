"""Runs one command on a host over SSH, and shows its output as it comes.

    on_host.py run     document in SLIPWAY_DOCUMENT (schemas/host-command.schema.json)

It needs nothing on the host. Private keys come from an ssh-agent (SSH_AUTH_SOCK).
"""

from __future__ import annotations

import signal
import sys

from program.document import parsing, read_document
from program.errors import InputError, exit_code

from delivery.document import read_way
from delivery.ssh import connected

SCHEMA = "host-command.schema.json"
SCHEMA_VERSION = 1
INTERRUPTED = 128 + signal.SIGINT


def run(arguments: list[str]) -> None:
    if arguments != ["run"]:
        raise InputError("usage: on_host.py run")
    document = read_document(SCHEMA_VERSION)
    with parsing(SCHEMA):
        place, jump = read_way(document["ssh"])
        host, command = document["host"], document["command"]
    with connected(host, place, jump) as connection:
        connection.show(command)


def main() -> int:
    try:
        return exit_code(lambda: run(sys.argv[1:]))
    except KeyboardInterrupt:
        return INTERRUPTED
