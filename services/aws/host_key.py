"""Gives a fixed host of AWS the SSH host key that operators know it by.

    /usr/bin/python3 host_key.py FILE

Runs at every boot, as a unit that systemd starts again until it succeeds. FILE is written from the
user data: JSON with schema_version, region and the name of the host's own secret, whose value is
JSON with `private` and `public`, the two files of the key. Exit codes: 0 the host has the key, 1 it
could not be fetched, 2 the file is wrong. Standard library only: an image has no AWS client.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from instance import metadata
from instance.refusal import RefusedError
from instance.secrets import secret

SCHEMA_VERSION = 1
FOLDER = Path("/etc/ssh")
KEY = "ssh_host_ed25519_key"
MODES = {KEY: 0o600, f"{KEY}.pub": 0o644}


def main(arguments: list[str]) -> int:
    try:
        (file,) = arguments
        document = json.loads(Path(file).read_text())
        if document["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"schema_version is not {SCHEMA_VERSION}")
        name, region = str(document["secret"]), str(document["region"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        say(f"wrong document: {error!r}", sys.stderr)
        return 2
    try:
        key = json.loads(secret(name, region, metadata.credentials()))
    except (OSError, RefusedError) as error:
        say(f"{name}: {error}", sys.stderr)
        return 1
    install({KEY: key["private"], f"{KEY}.pub": key["public"]})
    # Always, because a run that was cut off may have left a server with the old key. Sessions that
    # are open stay so.
    subprocess.run(["/usr/bin/systemctl", "restart", "ssh.service"], check=True)
    say(f"this host has the key of {name}", sys.stdout)
    return 0


def say(line: str, where: TextIO) -> None:
    """A line for the journal."""
    where.write(f"{line}\n")


def install(files: Mapping[str, str], folder: Path = FOLDER) -> None:
    """Makes them the only host keys. A run that is cut off leaves no half-written file."""
    for other in folder.glob("ssh_host_*_key*"):
        if other.name not in files:
            other.unlink()
    for name, content in files.items():
        partial = folder / f".{name}.partial"
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODES[name])
        with os.fdopen(descriptor, "w") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(folder / name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
