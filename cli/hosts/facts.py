"""Facts that a host reports of itself: free disk, certificates, and units that are not active."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.errors import CliError
from cli.hosts.over_ssh import OverSsh, known_way
from components.hosts.delivery import CACHE, run_folder
from slipway.plan.platform import SshPlan

if TYPE_CHECKING:
    from cryptography import x509

AT_ONCE = 16
ANSWER_S = 30.0

# The file systems of an environment's data and of its artifacts, or of what will hold them.
LOOK = """
for place in {run} {cache}; do
  while [ ! -d "$place" ]; do place=$(dirname "$place"); done
  echo free $(df -P -B 1 "$place" | tail -n 1 | awk '{{print $4}}')
done
cd /etc/systemd/system
for unit in slipway-{environment}-*.service; do
  [ ! -e "$unit" ] || echo unit "$unit" $(systemctl is-active "$unit")
done
cat {run}/nodes/*/*/certificate/cert.pem 2>/dev/null
true
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """`certificate_ends` is the end of the certificate that ends first, None without certificates.
    `inactive_units` are of this environment's agents: name -> state."""

    free_bytes: int
    certificate_ends: datetime.datetime | None
    inactive_units: Mapping[str, str]


Answered = Callable[[str], None]


def look_at(
    hosts: Iterable[str], environment: str, ssh: SshPlan, over_ssh: OverSsh, answered: Answered
) -> dict[str, HostFacts | CliError]:
    """Asks all hosts, several at once; a host that does not answer is there with its error.
    `answered` is called with the name of each that is done."""

    def look(host: str) -> HostFacts | CliError:
        try:
            way = known_way(ssh, host)
            said = over_ssh.ask(host, way, script(environment), within_s=ANSWER_S)
            return read(said, environment)
        except CliError as error:
            return error
        finally:
            answered(host)

    names = list(hosts)
    with ThreadPoolExecutor(AT_ONCE) as at_once:
        return dict(zip(names, at_once.map(look, names), strict=True))


def script(environment: str) -> str:
    run = shlex.quote(run_folder(environment))
    return LOOK.format(run=run, cache=CACHE, environment=shlex.quote(environment))


def read(said: str, environment: str) -> HostFacts:
    """The facts in the output of `script`."""
    about, marker, certificates = said.partition("-----BEGIN CERTIFICATE-----")
    free: list[int] = []
    inactive: dict[str, str] = {}
    for line in about.splitlines():
        kind, *values = line.split()
        if kind == "free":
            free.append(int(values[0]))
        elif values[1:] != ["active"]:
            name = values[0].removeprefix(f"slipway-{environment}-").removesuffix(".service")
            inactive[name] = " ".join(values[1:])
    ends = (
        [each.not_valid_after_utc for each in _certificates(marker + certificates)]
        if marker
        else []
    )
    return HostFacts(
        free_bytes=min(free), certificate_ends=min(ends, default=None), inactive_units=inactive
    )


def _certificates(text: str) -> list[x509.Certificate]:
    from cryptography import x509  # noqa: PLC0415 - it takes time to load

    return x509.load_pem_x509_certificates(text.encode())
