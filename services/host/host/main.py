"""Runs the agents of hosts as processes on this machine.

    agents.py apply     bring one host's agents to SLIPWAY_DOCUMENT (schemas/node.schema.json);
                        secrets as JSON on standard input
    agents.py remove    end and delete that host's agents, its tasks and its data
    agents.py start     start all agents of the environment from what is on disk
    agents.py stop      end all agents and tasks of the environment; data stays
    agents.py status    one line per agent; exit 1 unless all are ready
    agents.py await AGENT   wait for what the agent starts after; run by its unit

Environment: SLIPWAY_RUN, SLIPWAY_CACHE, SLIPWAY_SCRATCH (absolute paths).
"""

from __future__ import annotations

import argparse
import json
import socket
import sys

from program.document import read_document, read_secrets
from program.errors import HostError, exit_code
from program.folders import Folders
from program.waiting import say

from host import lifecycle
from host.document import SCHEMA_VERSION, Host, read_host
from host.prerequisites import wait_at_boot

# Calls to supervisord: longer than the longest stop of an agent.
CONVERSATION_TIMEOUT_S = 120


def run(arguments: list[str]) -> None:
    options = _parse(arguments)
    socket.setdefaulttimeout(CONVERSATION_TIMEOUT_S)
    folders = Folders.from_environment()
    if options.action == "apply":
        lifecycle.apply(folders, _host(folders), read_secrets())
    elif options.action == "remove":
        lifecycle.remove(folders, _host(folders))
    elif options.action == "start":
        lifecycle.start(folders)
    elif options.action == "stop":
        lifecycle.stop(folders)
    elif options.action == "await":
        wait_at_boot(folders, options.agent)
    else:
        _status(folders, as_json=options.json)


def _host(folders: Folders) -> Host:
    return read_host(read_document(SCHEMA_VERSION), folders)


def _status(folders: Folders, *, as_json: bool) -> None:
    records = lifecycle.status(folders)
    if as_json:
        say(json.dumps(records))
    for record in [] if as_json else records:
        ready = "ready" if record["ready"] else "not ready"
        say(f"{record['host']:<12} {record['agent']:<8} {record['state']:<10} {ready}")
    missing = [f"{r['agent']} on {r['host']}" for r in records if not r["ready"]]
    if missing or not records:
        raise HostError(f"not ready: {', '.join(missing) or 'no agents'}")


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agents.py", description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["apply", "remove", "start", "stop", "status", "await"])
    parser.add_argument("agent", nargs="?", help="the agent that is to start, for await")
    parser.add_argument("--json", action="store_true", help="status as JSON")
    return parser.parse_args(arguments)


def main() -> int:
    return exit_code(lambda: run(sys.argv[1:]))
