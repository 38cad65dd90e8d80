"""The errors of a host program, and their exit codes."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class InputError(Exception):
    """The document or the environment is wrong: exit 2."""


class HostError(Exception):
    """The machine or an agent failed: exit 1, unless a kind of it has its own code."""

    exit_code = 1


def exit_code(program: Callable[[], None]) -> int:
    """Run `program`; print an error as one message, without a traceback.

    Files that it creates are readable by their owner only.
    """
    os.umask(0o077)
    try:
        program()
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except HostError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        run = os.environ.get("SLIPWAY_RUN", "")
        sys.stderr.write(f"{error}\nfix: make room on the disk of {run}, then run it again\n")
        return 1
    return 0
