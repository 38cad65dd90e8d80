"""Children that do not outlive this process, however it ends."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_libc = ctypes.CDLL(None, use_errno=True)


def ended_by(number: signal.Signals) -> Callable[[], None]:
    """For `preexec_fn`: the child gets this signal when the thread that has started it ends."""

    def register() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, number)

    return register
