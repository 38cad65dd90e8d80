"""An Envoy that is to end gives the shared address away first, while it still answers.

When Nomad ends an Envoy's group, both tasks hear of it at the same time. This one makes Envoy fail
its own health check, so keepalived gives the address to another host and Envoy asks its clients to
connect again; Envoy itself gets its signal only after that.
"""

from __future__ import annotations

from components.gateway.metrics_listener import ADMIN_SOCKET
from components.gateway.shared_address import CHECK_INTERVAL_S, FAILURES_BEFORE_GIVING_UP
from components.hosts.supervision import SYSTEM_PYTHON
from components.nomad.jobspec import File, Task

# Until keepalived has seen the failures that it waits for and the next host has the address: a
# check may take as long as its interval. Two seconds are added for a machine under load.
ENVOY_GOES_ON_S = 2 * CHECK_INTERVAL_S * FAILURES_BEFORE_GIVING_UP + 2
_SCRIPT = "local/hand_over.py"


def hand_over_task() -> Task:
    """Runs beside Envoy, in the same allocation."""
    return Task(
        name="hand-over",
        command=SYSTEM_PYTHON,
        args=("-IS", _SCRIPT),
        files=(File(path=_SCRIPT, content=_HAND_OVER),),
        cpu_mhz=20,
        memory_mb=32,
    )


_REQUEST = (
    r"POST /healthcheck/fail HTTP/1.1\r\nHost: envoy\r\nContent-Length: 0\r\n"
    r"Connection: close\r\n\r\n"
)
# The path is relative, because a socket's may have at most 107 bytes.
_HAND_OVER = f"""\
import os
import signal
import socket

signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGTERM}})
signal.sigwait({{signal.SIGTERM}})
os.chdir("../envoy")
with socket.socket(socket.AF_UNIX) as envoy:
    envoy.connect("{ADMIN_SOCKET}")
    envoy.sendall(b"{_REQUEST}")
    print(envoy.recv(64).split(b"\\r\\n")[0].decode())
"""
