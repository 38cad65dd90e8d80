"""Where a host shows secrets to those who should not see them. Runs on the host, as root.

    python3 -c "$(cat on_host_search.py)" < secrets.json

Standard input has the secrets by name: {"a name": "its text"}. Prints the places and names that it
found as JSON, never a secret: [["/tmp/file", "a name"]]. Standard library only.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

PLACES = ("/etc", "/opt", "/run", "/tmp", "/var/lib", "/var/log", "/var/tmp")
UNITS = ("/etc/systemd", "/run/systemd")
# What Nomad has signed: introductions, and the identities of tasks.
SIGNED = re.compile(rb"eyJ[A-Za-z0-9_-]{20,}[.]eyJ[A-Za-z0-9_-]{20,}[.][A-Za-z0-9_-]{20,}")
SIGNED_NAME = "a token that Nomad has signed"
WITHOUT_SIGNED = "/opt/"  # documentation of Python packages has examples
ROOT = 0


def main() -> None:
    secrets = {name: text.encode() for name, text in json.load(sys.stdin).items()}
    found = sorted({*processes(secrets), *journal(secrets), *units(secrets), *files(secrets)})
    print(json.dumps(found))


def processes(secrets: dict[str, bytes]) -> Iterator[tuple[str, str]]:
    """Everybody can read the command lines of all, and every user the variables of its own."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            commands, variables = (
                (folder / "cmdline").read_bytes(),
                (folder / "environ").read_bytes(),
            )
            owner, name = folder.stat().st_uid, (folder / "comm").read_text().strip()
        except OSError:  # it has ended
            continue
        for each in _in(commands, secrets, signed=True):
            yield f"the command line of {name}", each
        for each in _in(variables, secrets, signed=owner != ROOT):
            yield f"the variables of {name}", each


def journal(secrets: dict[str, bytes]) -> Iterator[tuple[str, str]]:
    subprocess.run(["journalctl", "--sync"], check=True)
    done = subprocess.run(
        ["journalctl", "--no-pager", "--quiet", "--output=export"], capture_output=True, check=True
    )
    for each in _in(done.stdout, secrets, signed=True):
        yield "the journal", each


def units(secrets: dict[str, bytes]) -> Iterator[tuple[str, str]]:
    """Also those that only root can read: systemd shows them to everybody."""
    for place in UNITS:
        for path in Path(place).rglob("*"):
            if path.is_file() and not path.is_symlink():
                for each in _in(path.read_bytes(), secrets, signed=True):
                    yield f"the unit {path}", each


def files(secrets: dict[str, bytes]) -> Iterator[tuple[str, str]]:
    readable = [path for place in PLACES for path in _readable(place)]
    for path in _with_any(readable, secrets.values()):
        for each in _in(
            Path(path).read_bytes(), secrets, signed=not path.startswith(WITHOUT_SIGNED)
        ):
            yield path, each


def _readable(folder: str) -> Iterator[str]:
    """The files below a folder that every user can read."""
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode) and mode & stat.S_IXOTH:
                    yield from _readable(entry.path)
            except FileNotFoundError:  # it is gone
                continue
            if stat.S_ISREG(mode) and mode & stat.S_IROTH:
                yield entry.path


def _with_any(paths: list[str], texts: Iterable[bytes]) -> list[str]:
    """The paths of files that may have one of the texts, or a signed token. grep is much faster
    than Python; it reads the texts from a file in memory that no other process sees."""
    patterns = os.memfd_create("patterns")
    os.write(patterns, b"\n".join([*texts, b"eyJ"]))
    done = subprocess.run(
        ["xargs", "--null", "grep", "-laF", "-f", f"/dev/fd/{patterns}", "--", "/dev/null"],
        input=b"\0".join(path.encode() for path in paths),
        env={"LC_ALL": "C", "PATH": os.environ["PATH"]},
        pass_fds=(patterns,),
        stdout=subprocess.PIPE,
        check=False,
    )
    return done.stdout.decode().splitlines()


def _in(content: bytes, secrets: dict[str, bytes], *, signed: bool) -> Iterator[str]:
    yield from (name for name, text in secrets.items() if text in content)
    if signed and SIGNED.search(content):
        yield SIGNED_NAME


if __name__ == "__main__":
    main()
