"""A target that is not dev, as far as its lifecycle goes: files in a folder stand for machines.

The tests put this module into a checkout of their own as stacks/targets/aws.py, and let the
program build its `Platform`. Configuration: `machines:folder`, and `machines:protect` for its first
host.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi
import pulumi_command as command
import pulumi_random as random

TARGET = object()
HOSTS = ("host-0", "host-1")


class Platform(pulumi.ComponentResource):
    """Two hosts, of which the first may be protected, and a job that runs on both."""

    def __init__(self, name: str, *_plan_and_target: Any) -> None:
        super().__init__("slipway:test:Platform", name)
        self.gateway = {"http": "http://gateway.example:8080", "grpc": "gateway.example:8080"}
        config = pulumi.Config("machines")
        self._folder = Path(config.require("folder"))
        token = random.RandomPassword("token", length=20, opts=self._own())
        hosts = [
            self._file(
                host,
                content="a host",
                opts=self._own(protect=config.get_bool("protect") and host == HOSTS[0]),
            )
            for host in HOSTS
        ]
        self._file("job", content=token.result, opts=self._own(depends_on=hosts))

    def _own(self, **options: Any) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, **options)

    def _file(
        self, name: str, *, content: pulumi.Input[str], opts: pulumi.ResourceOptions
    ) -> command.local.Command:
        """While there is a file `<name>.stuck`, deleting it fails; while there is a pipe
        `<name>.slow`, it waits for somebody to write there."""
        file = f'"{self._folder / name}"'
        return command.local.Command(
            name,
            create=f"cat > {file}",
            delete=f"[ ! -e {file}.stuck ] && {{ [ ! -p {file}.slow ] || cat {file}.slow; }}"
            f" && rm -f {file}",  # one that was interrupted may have removed it already
            stdin=content,
            opts=opts,
        )
