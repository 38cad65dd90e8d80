"""Runs of programs, and who runs them: services/host on a host, services/operator beside the
operator."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pulumi

from components.base import SlipwayComponent


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProgram:
    """A run of a program of services/host or services/operator.

    `document` is known at preview and contains no secret. `secrets` (of `secret_json`) reach the
    program through standard input. A change of `inputs_of_others` also makes the program run again.
    """

    bundle: str  # the folder of the service's code in the cache's bundles/
    script: str  # "agents.py"
    document: Mapping[str, Any]
    secrets: pulumi.Output[str]
    removes: bool = True  # whether the script has something to remove when the resource is deleted
    protect: bool = False  # its resource from deletion, which removes what cannot be made again
    inputs_of_others: str = ""
    timeout_s: int = 300

    @property
    def custom_timeouts(self) -> pulumi.CustomTimeouts:
        timeout = f"{self.timeout_s}s"
        return pulumi.CustomTimeouts(create=timeout, update=timeout, delete=timeout)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of a run."""
        variables = {"SLIPWAY_DOCUMENT": _stable_json(self.document)}
        if self.inputs_of_others:
            variables["SLIPWAY_INPUTS"] = self.inputs_of_others
        return variables


class Hosts(Protocol):
    """Runs programs on a host, or on the operator's machine if they only call the cluster's
    APIs."""

    def run(
        self,
        program: HostProgram,
        name: str,
        parent: SlipwayComponent,
        *,
        on: str = "",
        depends_on: Sequence[pulumi.Resource] = (),
    ) -> pulumi.Resource:
        """Register the run as a child of `parent`. `on` is a host's name; "" is the operator's
        machine."""

    def preparation(self, host: str, parent: SlipwayComponent) -> Sequence[pulumi.Resource]:
        """The resource that prepares a host to run programs."""


def secret_json(values: pulumi.Output[Mapping[str, Any]]) -> pulumi.Output[str]:
    """The secrets of a host program as one secret text. Programs with equal secrets share it,
    because each output takes several kilobytes, a thousand times over for a thousand models."""
    text: pulumi.Output[str] = pulumi.Output.secret(values.apply(_stable_json))
    return text


def _stable_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True)
