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


_HEAD = r" HTTP/1.1\r\nHost: envoy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
# The path is relative, because a socket's may have at most 107 bytes.
_HAND_OVER = f"""\
import contextlib
import signal
import socket


def say(health):
    with socket.socket(socket.AF_UNIX) as envoy:
        envoy.settimeout(5)
        envoy.connect("../envoy/{ADMIN_SOCKET}")
        envoy.sendall(b"POST /healthcheck/" + health + b"{_HEAD}")
        print(health.decode(), envoy.recv(64).split(b"\\r\\n")[0].decode(), flush=True)


signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGTERM}})
# To an Envoy that stayed when only this task was restarted; one that starts now is well.
with contextlib.suppress(OSError):
    say(b"ok")
signal.sigwait({{signal.SIGTERM}})
say(b"fail")
"""
