"""The users of agents on a systemd host. Only those that were made for agents are ever deleted."""

from __future__ import annotations

import pwd
from collections.abc import Iterable

from program.folders import Owner

from host.systemctl import UNITS, succeed

PREFIX = "slipway-"
OPTIONS = ("--system", "--user-group", "--no-create-home", "--home-dir=/")
SHELL = "--shell=/usr/sbin/nologin"


def not_found(users: Iterable[str]) -> list[str]:
    """Users made for agents: those that do not exist yet, and those that a unit already has."""
    ours = {user for user in users if user.startswith(PREFIX)}
    return sorted(user for user in ours if not _exists(user) or _has_unit(user))


def make(users: Iterable[str]) -> None:
    for user in users:
        if not _exists(user):
            succeed("useradd", *OPTIONS, SHELL, "--comment=Agents of Slipway", user)


def owner(user: str) -> Owner:
    entry = pwd.getpwnam(user)
    return Owner(entry.pw_uid, entry.pw_gid)


def delete(users: Iterable[str]) -> None:
    """Deletes users that no unit uses any longer."""
    for user in users:
        if _exists(user) and not _has_unit(user):
            succeed("userdel", user)


def _has_unit(user: str) -> bool:
    units = UNITS.glob(f"{PREFIX}*.service")
    return any(f"User={user}" in unit.read_text().splitlines() for unit in units)


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
