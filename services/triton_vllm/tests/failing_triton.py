"""Stands in for tritonserver: fails once its stubs run, as often as it is told to.

    failing_triton.py ends|hangs TIMES TRITONSERVER ARGUMENT...

After TIMES failures, counted in the replica's runtime folder, it is the real one. It creates the
file `stuck` there when it hangs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

how, times, *command = sys.argv[1:]
runtime = Path(os.environ["SLIPWAY_RUNTIME"])
failures = runtime / "failures"
so_far = len(failures.read_text()) if failures.exists() else 0
if so_far == int(times):
    os.execv(command[0], command)


def runs_a_model(child: psutil.Process) -> bool:
    """Whether it is a stub: Triton also calls the stub's program without a model, as a check."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return any(word.endswith("/model.py") for word in child.cmdline())
    return False


server = subprocess.Popen(command)
while not (stubs := [*filter(runs_a_model, psutil.Process(server.pid).children())]):
    time.sleep(0.05)  # no event tells
for stub in stubs:
    stub.suspend()  # or it would end with Triton
failures.write_text("x" * (so_far + 1))
if how == "hangs":
    server.send_signal(signal.SIGSTOP)
    (runtime / "stuck").touch()
    signal.pause()
server.kill()
sys.exit(1)
