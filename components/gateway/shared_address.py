"""One address for the Envoys of several hosts: keepalived gives it to a host whose Envoy answers.

Hosts tell each other several times a second that they live (VRRP). Without the host that has the
address, the next one takes it within three of these intervals.
"""

from __future__ import annotations

from dataclasses import dataclass

from components.hosts.supervision import SYSTEM_PYTHON
from components.nomad.addresses import interface_of
from components.nomad.jobspec import (
    LEFT_DELIMITER,
    RIGHT_DELIMITER,
    File,
    Group,
    Job,
    ScriptCheck,
    Service,
    Task,
)
from slipway.plan.endpoint import Endpoint
from slipway.plan.platform import EnvoyPlan, PlatformPlan

KEEPALIVED = "/usr/sbin/keepalived"  # of the host: Debian's package
INTERVAL_S = 0.3  # between signs of life
CHECK_INTERVAL_S = 1
FAILURES_BEFORE_GIVING_UP = 2
HIGHEST_PRIORITY = 100
SERVICE = "gateway-address"
_TASK = "keepalived"
_FOLDER = f"{LEFT_DELIMITER} env `NOMAD_TASK_DIR` {RIGHT_DELIMITER}"


def shared_address_job(plan: PlatformPlan, envoy: EnvoyPlan) -> Job:
    """Of the Envoy's host. The Envoys' order is that in which hosts take the address."""
    rank = plan.gateway.envoys.index(envoy)
    interface, check = _interface(envoy.listener.host), _check(envoy.listener)
    return Job(
        id=f"{envoy.name}-address",
        datacenter=plan.datacenter,
        node_pool=envoy.pool,
        address=envoy.listener.host,
        # Envoy's hand-over gives the address away before Envoy ends. Envoys of earlier versions
        # have none: this entry, which their jobs lack, restarts keepalived, which does it for them.
        meta={"given_away_by": "envoy"},
        priority=80,
        group=Group(
            name="keepalived",
            count=1,
            ports={},
            services=(Service(name=SERVICE, checks=(_takes_part(),)),),
            tasks=(
                Task(
                    name=_TASK,
                    command=KEEPALIVED,
                    args=(
                        "--dont-fork",
                        "--log-console",
                        "--vrrp",
                        "--use-file=local/keepalived.conf",
                        "--pid=local/keepalived.pid",
                        "--vrrp_pid=local/vrrp.pid",
                    ),
                    files=(
                        File(
                            path="local/keepalived.conf",
                            content=keepalived_config(plan, envoy, rank),
                            templates=(interface, _FOLDER),
                        ),
                        File(path=f"local/{check.name}", content=check.text),
                        File(path=f"local/{_NOTE}", content=_NOTE_STATE),
                        # Nomad keeps the file of the keepalived before this one.
                        File(path=f"local/{_STATE}", content="STARTING\n"),
                    ),
                    cpu_mhz=20,
                    memory_mb=32,
                ),
            ),
        ),
    )


def keepalived_config(plan: PlatformPlan, envoy: EnvoyPlan, rank: int) -> str:
    """keepalived.conf of one host; `rank` orders the hosts, 0 first.

    The hosts speak to each other by unicast, which every network passes on. A host that comes back
    leaves the address where it is: every move ends streams.
    """
    own, address = envoy.listener.host, plan.gateway.shared_address
    others = [other.listener.host for other in plan.gateway.envoys if other != envoy]
    check = _check(envoy.listener)
    return f"""\
global_defs {{
    enable_script_security
    script_user root
    vrrp_version 3
}}

vrrp_script envoy {{
    script "{check.interpreter} {_FOLDER}/{check.name}"
    interval {CHECK_INTERVAL_S}
    timeout {CHECK_INTERVAL_S}
    fall {FAILURES_BEFORE_GIVING_UP}
    rise 1
    init_fail
}}

vrrp_instance gateway {{
    state BACKUP
    nopreempt
    notify "/bin/sh {_FOLDER}/{_NOTE}"
    interface {_interface(own)}
    virtual_router_id {_router_id(address)}
    priority {HIGHEST_PRIORITY - rank}
    advert_int {INTERVAL_S}
    unicast_src_ip {own}
    unicast_peer {{
        {" ".join(others)}
    }}
    virtual_ipaddress {{
        {address}/32
    }}
    track_script {{
        envoy
    }}
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A script that ends with 0 if Envoy answers its own health check, and serves."""

    interpreter: str
    name: str
    text: str


def _check(listener: Endpoint) -> Check:
    if listener.scheme == "https":
        script = _OVER_TLS.format(host=listener.host, port=listener.port, request=_REQUEST)
        return Check(interpreter=f"{SYSTEM_PYTHON} -IS", name="answers.py", text=script)
    script = _IN_PLAIN_TEXT.format(host=listener.host, port=listener.port, request=_REQUEST)
    return Check(interpreter="/bin/bash", name="answers.sh", text=script)


def _takes_part() -> ScriptCheck:
    """Whether the host has the address or would take it: keepalived's last state is another while
    Envoy does not answer."""
    return ScriptCheck(
        name="takes-part",
        task=_TASK,
        command="/bin/grep",
        args=("--quiet", "--extended-regexp", "MASTER|BACKUP", f"${{NOMAD_TASK_DIR}}/{_STATE}"),
        interval_s=CHECK_INTERVAL_S,
        timeout_s=5,
    )


# keepalived names the instance, its kind, and its new state.
_NOTE, _STATE = "note_state.sh", "state"
_NOTE_STATE = f"""\
echo "$3" > "${{0%/*}}/{_STATE}"
"""
_REQUEST = r"GET /healthz HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n"
_IN_PLAIN_TEXT = """\
exec 3<>/dev/tcp/{host}/{port}
printf '{request}' >&3
read -r _ code _ <&3
[ "$code" = 200 ]
"""
# It asks by address, which the certificate for clients does not have.
_OVER_TLS = """\
import socket
import ssl
import sys

context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
with socket.create_connection(("{host}", {port})) as plain:
    listener = context.wrap_socket(plain)
    listener.sendall(b"{request}")
    sys.exit(b" 200 " not in listener.recv(64))
"""


def _interface(address: str) -> str:
    """The interface that has the address; Nomad finds it on the host."""
    return f"{LEFT_DELIMITER} sockaddr `{interface_of(address)}` {RIGHT_DELIMITER}"


def _router_id(address: str) -> int:
    """Between 1 and 255, and not that of another shared address of the same small network."""
    return int(address.rpartition(".")[2]) or 255
