"""Small executables that start a Python program of this checkout."""

import os
import shlex
from pathlib import Path


def write_wrapper(path: Path, python: Path, program: Path, *arguments: str) -> None:
    """Write an executable at `path` that runs `program` with `python`, atomically, without `site`
    (forks/client.py).

    Uses `exec` in a shell script instead of a `#!python` line, which the kernel cuts at 127 bytes
    and at the first space.
    """
    # An absolute path with its symbolic links, because a virtual environment is found by its own
    # path.
    command = shlex.join([os.path.abspath(python), "-S", os.path.abspath(program), *arguments])  # noqa: PTH100
    path.parent.mkdir(parents=True, exist_ok=True)
    content = f'#!/bin/sh\nexec {command} "$@"\n'.encode()
    if path.is_file() and path.read_bytes() == content and os.access(path, os.X_OK):
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(content)
    partial.chmod(0o755)
    partial.replace(path)
