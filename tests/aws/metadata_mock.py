"""AWS's own metadata service for tests (Amazon EC2 Metadata Mock), built from its Go module."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolchain.pins import ModulePin, ToolPin
from toolchain.progress import Step, silent
from toolchain.resolve import resolve
from toolchain.settings import Settings, default_cache

# Not in pins.json, whose tools `up` prepares: only tests need it.
PIN = ToolPin(
    name="ec2-metadata-mock",
    version="1.13.0",
    binaries=("ec2-metadata-mock",),
    version_arguments=("--version",),
    module=ModulePin(
        folder=Path(__file__).with_name("metadata_mock"),
        packages={
            "ec2-metadata-mock": "github.com/aws/amazon-ec2-metadata-mock/cmd/ec2-metadata-mock"
        },
        cgo=False,
        tags=(),
        ldflags=("-s", "-w"),
    ),
)


def metadata_mock() -> Path:
    """The program, in the cache; built once."""
    return resolve(PIN, Settings.read(default_cache()), Step(PIN.name, silent)).path


NEVER_S = 10 * 365 * 86_400


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metadata:
    """What an instance's metadata says. Times are of AWS's form: "2026-12-01T08:00:00Z".

    Attributes:
        role: its name; empty for an instance without.
        credentials: as the metadata has them; of the role.
        ends: whether its group ends it.
        rebalance: since when EC2 recommends another instance; empty while it does not.
        notice: when EC2 ends it, as a spot instance; empty while it does not.
    """

    instance: str
    address: str
    account: str
    region: str
    role: str = ""
    credentials: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    ends: bool = False
    rebalance: str = ""
    notice: str = ""

    def configuration(self, listen: str, port: int) -> dict[str, Any]:
        """The program's file. It has all events of an instance, each after a delay of its own."""
        return {
            "server": {"hostname": listen, "port": str(port)},
            "imdsv2": True,
            "mock-ip-count": -1,  # everybody is answered
            "asg-termination-delay-sec": 0 if self.ends else NEVER_S,
            "rebalance-delay-sec": 0 if self.rebalance else NEVER_S,
            "mock-delay-sec": 0 if self.notice else NEVER_S,
            "spot": {
                "action": "terminate",
                "time": self.notice,
                "rebalance-rec-time": self.rebalance,
            },
            "metadata": {"paths": {} if self.role else _NO_ROLE, "values": self._values()},
            "dynamic": {"values": {"instance-identity-document": self._identity()}},
        }

    def _values(self) -> dict[str, Any]:
        values = {"instance-id": self.instance, "local-ipv4": self.address}
        if not self.role:
            return values
        return {
            **values,
            "iam-security-credentials-role": self.role,
            "iam-security-credentials": dict(self.credentials),
        }

    def _identity(self) -> dict[str, str]:
        return {
            "accountId": self.account,
            "instanceId": self.instance,
            "privateIp": self.address,
            "region": self.region,
        }


# A path without a name is not there.
_NO_ROLE = dict.fromkeys(
    ("iam-info", "iam-security-credentials", "iam-security-credentials-role"), ""
)
