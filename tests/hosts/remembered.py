"""What both clusters know and would not learn again by themselves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.hosts.environment import Checkout

RUN = "snapshots/"  # the jobs of the snapshots' runs begin with it


@dataclass(frozen=True)
class Remembered:
    """Asks the server at this address."""

    platform: Checkout
    address: str

    def consul(self, path: str) -> Any:
        return self.platform.ask(f"https://{self.address}:8501/v1/{path}")

    def nomad(self, path: str) -> Any:
        return self.platform.ask(f"https://{self.address}:4646/v1/{path}")

    def all(self) -> dict[str, Any]:
        consul, nomad = self.consul, self.nomad
        variables = [each["Path"] for each in nomad("vars")]
        return {
            "jobs": {
                each["ID"]: each["JobModifyIndex"] for each in nomad("jobs") if own(each["ID"])
            },
            "replicas": sorted(
                each["ID"]
                for each in nomad("allocations")
                if each["ClientStatus"] == "running" and own(each["JobID"])
            ),
            "variables": {path: digest(nomad(f"var/{path}")["Items"]) for path in variables},
            "policies of Nomad": sorted(each["Name"] for each in nomad("acl/policies")),
            "KV": {each["Key"]: each["Value"] for each in consul("kv/slipway/?recurse")},
            "policies of Consul": sorted(each["Name"] for each in consul("acl/policies")),
            "roles": sorted(each["Name"] for each in consul("acl/roles")),
            "binding rules": sorted(each["ID"] for each in consul("acl/binding-rules")),
            "services": sorted(consul("catalog/services")),
        }

    def tokens(self) -> set[str]:
        """Those of Consul by their public IDs, but for a run of the snapshots' job, which has just
        ended."""
        return {each["AccessorID"] for each in self.consul("acl/tokens") if not of_a_run(each)}


def digest(items: Mapping[str, str]) -> str:
    """They are secret, and a test that fails shows them."""
    return hashlib.sha256(json.dumps(items, sort_keys=True).encode()).hexdigest()


def own(job: str) -> bool:
    """Whether it is a job of the files, and not a run of one."""
    return not job.startswith(RUN)


def of_a_run(token: Mapping[str, Any]) -> bool:
    return "slipway-snapshots" in {role["Name"] for role in token.get("Roles") or ()}
