"""This instance as a node: its name, its document, and the programs that bring its agents to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instance import metadata
from program.errors import HostError

from membership.document import Boot, node_document

TAKE_UP = "take-up"  # an argument of node.py
ENDED_S = 5  # after which a program that was told to end is killed


@dataclass(frozen=True)
class Node:
    boot: Boot
    instance: str  # "i-0123456789abcdef0"
    address: str

    @property
    def host(self) -> str:
        """The node's name in both clusters."""
        return f"{self.boot.pool}-{self.instance.removeprefix('i-')}"

    def takes_up_changes(self) -> subprocess.Popen[bytes]:
        """A program of its own, which is ended when the node must leave meanwhile."""
        return subprocess.Popen(
            [sys.executable, sys.argv[0], self.boot.file, TAKE_UP],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def apply(self, secrets: Mapping[str, Any]) -> None:
        """Has the host's agents brought to the document, as on every host. Raises HostError."""
        document = node_document(self.boot, self.host, self.address)
        done = subprocess.run(
            self._command("apply"),
            env=self._variables(document),
            input=json.dumps(secrets),
            text=True,
            check=False,
        )
        if done.returncode:
            raise HostError(f"the agents are not as they should be (exit {done.returncode})")

    def leaves(self, drain_timeout_s: int | None) -> subprocess.Popen[bytes]:
        """The program that drains the agents and removes them. `drain_timeout_s` is that of the
        document where it is None."""
        document = node_document(self.boot, self.host, self.address)
        if drain_timeout_s is not None:
            document["departure"] = {**document["departure"], "drain_timeout_s": drain_timeout_s}
        return subprocess.Popen(
            self._command("remove"),
            env=self._variables(document),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _command(self, action: str) -> list[str]:
        return [sys.executable, self.boot.agents, action]

    def _variables(self, document: Mapping[str, Any]) -> dict[str, str]:
        folders = self.boot.folders
        return {
            **os.environ,
            "SLIPWAY_DOCUMENT": json.dumps(document, sort_keys=True),
            "SLIPWAY_RUN": str(folders.run),
            "SLIPWAY_CACHE": str(folders.cache),
            "SLIPWAY_SCRATCH": str(folders.scratch),
        }


def this_node(boot: Boot) -> Node:
    """Raises HostError while the instance's metadata cannot be read."""
    try:
        return Node(boot, metadata.text("instance-id"), metadata.text("local-ipv4"))
    except OSError as error:
        raise HostError(f"{boot.pool}: {error}") from None


def end(process: subprocess.Popen[bytes]) -> None:
    """With all that it has started, if it runs."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(ENDED_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
