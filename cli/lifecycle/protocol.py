"""The protocol by which a target defines the lifecycle of its environments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from cli.applied import Applied
from cli.hosts.troubles import Fixes
from cli.machine.checks import Check
from cli.pulumi.process import Pulumi
from cli.pulumi.state import StackState
from slipway.plan.platform import PlatformPlan

if TYPE_CHECKING:
    from cli.lifecycle.fleet.hosts import HostOperations


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of `up`; `document` is for scripts. `ready` is False if a model that was asked a
    question did not answer, or a host of the files is down or has not joined."""

    document: dict[str, Any]
    ready: bool


class Lifecycle(Protocol):
    """The lifecycle of one environment. Each step reports on standard error, and raises CliError
    with a fix if it fails; the same command run again continues from there."""

    def up(self) -> Report:
        """Brings the environment to the state in its files, and waits until every replica serves.
        Models are asked a question where the gateway is on this machine."""

    def start(self) -> None:
        """Starts again what `stop` ended."""

    def stop(self) -> None:
        """Ends the processes; everything needed to start them again is kept."""

    def down(self) -> None:
        """Ends everything, and removes the state of resources that no longer exist."""

    @property
    def credentials(self) -> Path:
        """The folder of the operator's certificate and tokens (operator/, tokens/)."""

    def reaching(self, plan: PlatformPlan) -> AbstractContextManager[Mapping[str, str]]:
        """A block in which the platform answers at the addresses of plan.operator. It gives the
        variables that Pulumi and other programs need for that."""

    def asked(self) -> AbstractContextManager[Applied]:
        """A block in which the platform answers at the addresses that it gives. CliError if the
        platform is known not to have been brought up here."""

    @property
    def when_silent(self) -> str:
        """The message for an environment whose Nomad does not answer: what this means, and which
        command helps."""

    @property
    def hosts(self) -> HostOperations | None:
        """The operations on its hosts; None where these are processes of this machine."""

    @property
    def host_fixes(self) -> Fixes:
        """The commands that mend a host that is down or has not joined."""

    def machine_checks(self) -> Iterable[Check]:
        """The requirements on this machine for any plan."""

    def plan_checks(self, plan: PlatformPlan) -> Iterable[Check]:
        """The requirements on this machine for `plan`."""

    def exports(self) -> str:
        """Lines for `eval` in a POSIX shell, after which plain `pulumi` commands work on the
        environment, and `nomad` and `consul` where it runs on this machine."""

    def pulumi(self) -> Pulumi:
        """Pulumi with the environment's backend and secrets provider."""

    def before_preview(self, plan: PlatformPlan, given: Sequence[str]) -> list[str]:
        """Makes the stack ready for a preview; returns arguments for Pulumi besides those
        `given`."""

    def state(self) -> StackState | None:
        """Pulumi's state of the environment; None if it has no stack."""
