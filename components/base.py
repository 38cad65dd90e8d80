"""What every component of the platform has in common, and how one runs a program on a host."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_command as command


class SlipwayComponent(pulumi.ComponentResource):
    """A component with the token `slipway:index:<type_name>`.

    `facts` are plain values of the plan: policies read them at preview. They are one property,
    since each property costs the SDK an output. A subclass ends its constructor with
    `self.register_outputs(...)`, or it shows as being created for ever.
    """

    def __init__(
        self,
        type_name: str,
        name: str,
        facts: Mapping[str, Any],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(f"slipway:index:{type_name}", name, {"facts": dict(facts)}, opts)

    def child_options(
        self,
        *,
        depends_on: Sequence[pulumi.Resource] = (),
        provider: pulumi.ProviderResource | None = None,
        custom_timeouts: pulumi.CustomTimeouts | None = None,
    ) -> pulumi.ResourceOptions:
        """Options of a child: its parent and what only this child needs.

        Never the caller's own options: `protect`, `aliases` and `ignore_changes` of a component
        would leak into every child. Providers are inherited through the parent.
        """
        return pulumi.ResourceOptions(
            parent=self,
            depends_on=list(depends_on),
            provider=provider,
            custom_timeouts=custom_timeouts,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProgram:
    """A run of one of services/node's programs.

    `document` is known at preview and holds no secret. `secrets` (of `secret_json`) reach the
    program through standard input. `inputs_of_others` names what else must change for the program
    to run again.
    """

    bundle: str  # folder name of services/node's code under the cache's bundles/
    script: str  # "agents.py"
    document: Mapping[str, Any]
    secrets: pulumi.Output[str]
    removes: bool = True  # whether the script has something to remove when the resource goes
    inputs_of_others: str = ""
    timeout_s: int = 300

    def register(
        self,
        name: str,
        parent: SlipwayComponent,
        *,
        depends_on: Sequence[pulumi.Resource] = (),
    ) -> command.local.Command:
        """Register the run as a child of `parent`.

        No `triggers`: a replace would first run the new `create` and then the old `delete`, which
        would remove what was just made. A change of the document is an update: `create` again.
        """
        program = f'"$SLIPWAY_PYTHON" "$SLIPWAY_CACHE/bundles/{self.bundle}/{self.script}"'
        environment = {"SLIPWAY_DOCUMENT": _stable_json(self.document)}
        if self.inputs_of_others:
            environment["SLIPWAY_INPUTS"] = self.inputs_of_others
        timeout = f"{self.timeout_s}s"
        return command.local.Command(
            name,
            create=f"{program} apply",
            delete=f"{program} remove" if self.removes else None,
            environment=environment,
            stdin=self.secrets,
            opts=parent.child_options(
                depends_on=depends_on,
                custom_timeouts=pulumi.CustomTimeouts(
                    create=timeout, update=timeout, delete=timeout
                ),
            ),
        )


def secret_json(values: pulumi.Output[Mapping[str, Any]]) -> pulumi.Output[str]:
    """The secrets of a host program as one secret text. Programs with the same ones share it: each
    output costs several kilobytes, which a thousand models would pay a thousand times."""
    text: pulumi.Output[str] = pulumi.Output.secret(values.apply(_stable_json))
    return text


def _stable_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True)
