"""Which supervisor an environment has: its documents say it, and a file keeps it."""

from __future__ import annotations

import json

from program.folders import Folders

from host.document import Endpoint, Host, Units, read_units
from host.supervisor import RECORD, Supervisor
from host.supervisord import Supervisord
from host.systemd import Systemd


def supervisor_for(folders: Folders, host: Host) -> Supervisor:
    """The one that a host's document asks for."""
    return _made(folders, host.supervisor)


def supervisor_of(folders: Folders) -> Supervisor | None:
    """The one that this environment was set up with; None before the first `apply`."""
    path = folders.supervisor / RECORD
    if not path.exists():
        return None
    record = json.loads(path.read_text())
    return _made(folders, read_units(record) if "kind" in record else Endpoint(**record))


def _made(folders: Folders, named: Endpoint | Units) -> Supervisor:
    return Systemd(folders, named) if isinstance(named, Units) else Supervisord(folders, named)
