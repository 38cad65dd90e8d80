"""The command line of a watched engine."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from program.group.settings import Group, read_meeting, task_folder
from simulator.document import BadInputError, Liveness, read_replica, read_watcher_listener
from simulator.group.place import add_options, passed_on

from watched.engine import ENGINE, WatchedEngine
from watched.group import GroupMember

_LOG = logging.getLogger("engine_sim")


def main() -> int:
    """Exit codes: the engine's own (simulator/process.py), and 1 if it stood still and was killed.
    A signal that ends the engine ends this process, too."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    parser = argparse.ArgumentParser(description="A simulated engine, watched.")
    parser.add_argument("--document", type=Path, required=True, help="replica.json")
    add_options(parser)
    arguments = parser.parse_args()
    document = arguments.document
    try:
        replica, listener = read_replica(document), read_watcher_listener(os.environ)
    except BadInputError as error:
        _LOG.error("%s", error)
        return 2
    command = [sys.executable, str(ENGINE), "--document", str(document), *passed_on(arguments)]
    if replica.liveness is not None and listener is not None and replica.group is not None:
        return _run_member(command, replica.group, replica.liveness, listener)
    if replica.liveness is None or listener is None:
        os.execv(sys.executable, command)  # noqa: S606  (nothing to watch: it takes this place)
    return WatchedEngine(command, replica.liveness, *listener).run()


def _run_member(
    command: list[str], group: Group, liveness: Liveness, listener: tuple[str, int]
) -> int:
    """A member of a group: its engine starts once all members are there."""
    try:
        meeting = read_meeting(group, os.environ)
        with GroupMember(group, meeting, task_folder(os.environ)) as member:
            formation = member.meet()
            if formation is None:
                return 1
            command = [*command, *member.options(formation)]
            return WatchedEngine(command, liveness, *listener, member=member).run()
    except (ValueError, OSError) as error:
        _LOG.error("%s", error)
        return 2 if isinstance(error, ValueError) else 1
