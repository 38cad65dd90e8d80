"""The base of every component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
