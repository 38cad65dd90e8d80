"""Hosts that are this machine: programs run where Pulumi runs."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_command as command

from components.base import SlipwayComponent
from components.hosts.program import HostProgram


class LocalHosts:
    """All hosts are processes of the operator's machine."""

    def run(
        self,
        program: HostProgram,
        name: str,
        parent: SlipwayComponent,
        *,
        on: str = "",  # noqa: ARG002  (there is one machine)
        depends_on: Sequence[pulumi.Resource] = (),
    ) -> pulumi.Resource:
        """No `triggers`: a replace would run the new `create` and then the old `delete`, which
        would remove what was just created. A change of the document is an update, which runs
        `create` again."""
        # exec: at an interrupt the official plugin kills only the shell; a program started by it
        # would keep the plugin's pipe open until its own deadline.
        script = (
            f'exec "$SLIPWAY_PYTHON" "$SLIPWAY_CACHE/bundles/{program.bundle}/{program.script}"'
        )
        return command.local.Command(
            name,
            create=f"{script} apply",
            delete=f"{script} remove" if program.removes else None,
            environment=program.environment,
            stdin=program.secrets,
            opts=parent.child_options(
                depends_on=depends_on,
                custom_timeouts=program.custom_timeouts,
                protect=program.protect,
            ),
        )

    def preparation(
        self,
        host: str,  # noqa: ARG002  (this machine has everything)
        parent: SlipwayComponent,  # noqa: ARG002
    ) -> Sequence[pulumi.Resource]:
        return ()
