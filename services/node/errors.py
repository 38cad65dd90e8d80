"""What a host program can fail with, and the exit code that says so."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class InputError(Exception):
    """The document or the environment is wrong: exit 2."""


class HostError(Exception):
    """The machine or an agent did not do what it should: exit 1."""


def exit_code(program: Callable[[], None]) -> int:
    """Run `program`; print a mistake as one message, without a traceback.

    Whatever it writes is for its owner only.
    """
    os.umask(0o077)
    try:
        program()
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except HostError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        run = os.environ.get("SLIPWAY_RUN", "")
        sys.stderr.write(f"{error}\nfix: make room on the disk of {run}, then run it again\n")
        return 1
    return 0
