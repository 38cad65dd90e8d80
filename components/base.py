"""The base of every component, and the interface to hosts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pulumi
import pulumi_random as random

SEED_LENGTH = 64


class SlipwayComponent(pulumi.ComponentResource):
    """A component with the token `slipway:index:<type_name>`.

    `facts` are plain values of the plan: policies read them at preview. They are one property,
    because each property costs the SDK an output. A subclass ends its constructor with
    `self.register_outputs(...)`, or it is shown as still being created.
    """

    def __init__(
        self,
        type_name: str,
        name: str,
        facts: Mapping[str, Any],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(f"slipway:index:{type_name}", name, {"facts": dict(facts)}, opts)
        # Also for children that hold what cannot be made again.
        self.protected = bool(opts and opts.protect)

    def child_options(
        self,
        *,
        depends_on: Sequence[pulumi.Resource] = (),
        provider: pulumi.ProviderResource | None = None,
        custom_timeouts: pulumi.CustomTimeouts | None = None,
        protect: bool = False,
    ) -> pulumi.ResourceOptions:
        """Options of a child: its parent, and options for this child only.

        Must not include the component's own options: its `protect`, `aliases` and `ignore_changes`
        would leak into every child. Providers are inherited through the parent; `protect` would be,
        too, and so is always set.
        """
        return pulumi.ResourceOptions(
            parent=self,
            depends_on=list(depends_on),
            provider=provider,
            custom_timeouts=custom_timeouts,
            protect=protect,
        )

    def random_seed(self, name: str) -> pulumi.Output[str]:
        """The secret from which others are derived (components/seeds.py). Whatever protects the
        component protects it."""
        password = random.RandomPassword(
            f"{name}-seed",
            length=SEED_LENGTH,
            special=False,
            opts=self.child_options(protect=self.protected),
        )
        seed: pulumi.Output[str] = pulumi.Output.secret(password.result)
        return seed


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProgram:
    """A run of one of services/node's programs.

    `document` is known at preview and contains no secret. `secrets` (of `secret_json`) reach the
    program through standard input. A change of `inputs_of_others` also makes the program run again.
    """

    bundle: str  # the folder of services/node's code in the cache's bundles/
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

    def preparation(
        self, host: str, bundle: str, parent: SlipwayComponent
    ) -> Sequence[pulumi.Resource]:
        """What makes a host able to run programs of this bundle."""


def secret_json(values: pulumi.Output[Mapping[str, Any]]) -> pulumi.Output[str]:
    """The secrets of a host program as one secret text. Programs with equal secrets share it,
    because each output takes several kilobytes, a thousand times over for a thousand models."""
    text: pulumi.Output[str] = pulumi.Output.secret(values.apply(_stable_json))
    return text


def _stable_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True)
