"""The folders on this host. Files are written atomically and readable by their owner only.

<run>/nodes/<host>/<agent>/   config.json, secrets.json, program.json, starts-after.json,
                              certificate/ (ca.pem, cert.pem, key.pem), restart-needed,
                              reload-needed, data/
<run>/nodes/<host>/leaving    while the host is being removed; the command line reads it
<run>/supervisor/             endpoint.json and what else the supervisor of the agents keeps
<run>/logs/  <run>/tokens/
<run>/operator/               the operator's certificate: ca.pem, cert.pem, key.pem
<run>/snapshots/              of Consul and Nomad, on the host whose job takes them
<scratch>/                    short paths for sockets; may be lost in a reboot
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from program.errors import InputError

PLACEHOLDER = re.compile(r"@([a-z]+)@")
# Special in supervisord's configuration: an expansion, the end of a value, a comment.
UNFIT = re.compile(r"""[%"\n]|\s[;#]""")


@dataclass(frozen=True)
class Folders:
    """The environment's folders. `cache` may be shared with other environments."""

    run: Path
    cache: Path
    scratch: Path

    @staticmethod
    def from_environment(environment: Mapping[str, str] = os.environ) -> Folders:
        """Read SLIPWAY_RUN, SLIPWAY_CACHE and SLIPWAY_SCRATCH; all are absolute paths."""
        paths = {}
        for name in ("SLIPWAY_RUN", "SLIPWAY_CACHE", "SLIPWAY_SCRATCH"):
            value = environment.get(name, "")
            if not Path(value).is_absolute():
                raise InputError(f"{name} is {value!r}: set an absolute path (`slipway env` does)")
            if unfit := UNFIT.search(value):
                raise InputError(
                    f"{name} is {value!r}: supervisord does not accept paths with {unfit[0]!r}, "
                    "choose another folder"
                )
            paths[name] = Path(value)
        return Folders(
            run=paths["SLIPWAY_RUN"],
            cache=paths["SLIPWAY_CACHE"],
            scratch=paths["SLIPWAY_SCRATCH"],
        )

    @property
    def nodes(self) -> Path:
        return self.run / "nodes"

    @property
    def logs(self) -> Path:
        return self.run / "logs"

    @property
    def supervisor(self) -> Path:
        return self.run / "supervisor"

    @property
    def tokens(self) -> Path:
        return self.run / "tokens"

    @property
    def operator(self) -> Path:
        """The operator's certificate, which gates and the command line use."""
        return self.run / "operator"

    @property
    def snapshots(self) -> Path:
        return self.run / "snapshots"

    @property
    def introduction(self) -> Path:
        """The introduction that the operator's admission has brought to this host, until it has
        joined."""
        return self.scratch / "introduction.jwt"

    def joined(self, host: str) -> Path:
        """The mark that the host has joined the clusters, with credentials of its own."""
        return self.nodes / host / "joined"

    def leaving(self, host: str) -> Path:
        return self.nodes / host / "leaving"

    def agent(self, host: str, agent: str) -> Path:
        return self.nodes / host / agent

    def token(self, system: str) -> Path:
        """The operator's token of "consul" or "nomad"; the command line reads it."""
        return self.tokens / system

    def prepare(self) -> None:
        for folder in (self.run, self.scratch, self.nodes, self.logs, self.supervisor):
            make_private_folder(folder)


@dataclass(frozen=True)
class Owner:
    """The user and the group that a file belongs to."""

    uid: int
    gid: int


def make_private_folder(folder: Path) -> None:
    """A folder that others can neither read nor write. If they may pass through it to files of
    their own, they still may."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.getuid():
        raise InputError(f"{folder} belongs to another user: remove it, or choose another folder")
    if found.st_mode & 0o700 != 0o700 or found.st_mode & 0o066:
        folder.chmod(0o700)


def holds(path: Path, content: str) -> bool:
    return path.exists() and path.read_text() == content


def write_private(path: Path, content: str, owner: Owner | None = None) -> bool:
    """Write a file atomically with mode 0600, for `owner` or else this program's user. Returns
    whether the content changed."""
    if holds(path, content):
        path.chmod(0o600)
        if owner is not None:
            os.chown(path, owner.uid, owner.gid)
        return False
    make_private_folder(path.parent)
    _replace(path, content, 0o600, owner)
    return True


def write_public(path: Path, content: str) -> bool:
    """Write a file atomically that everyone may read, into a folder of the system. Returns whether
    anything changed."""
    if holds(path, content):
        return False
    _replace(path, content, 0o644, None)
    return True


def _replace(path: Path, content: str, mode: int, owner: Owner | None) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(descriptor, mode)
            if owner is not None:
                os.fchown(descriptor, owner.uid, owner.gid)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def to_json(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def substitute(value: Any, known: Mapping[str, Path | str]) -> Any:
    """Replace `@name@` in every string of a JSON value with what this machine has of that name."""
    if isinstance(value, str):
        return PLACEHOLDER.sub(lambda match: _of_this_machine(match, known), value)
    if isinstance(value, list):
        return [substitute(item, known) for item in value]
    if isinstance(value, dict):
        return {key: substitute(item, known) for key, item in value.items()}
    return value


def _of_this_machine(match: re.Match[str], known: Mapping[str, Path | str]) -> str:
    name = match.group(1)
    if name not in known:
        names = ", ".join(f"@{each}@" for each in sorted(known))
        raise InputError(f"the document names @{name}@, which is not one of {names}")
    return str(known[name])
