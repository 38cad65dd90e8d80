"""The lifecycle of dev."""

# ruff: noqa: PLC0415 - each command loads only the libraries it needs

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cli.environment import (
    ASKED_BY_HAND,
    FORWARDED,
    Environment,
    exports,
    first_on_path,
    unsets,
)
from cli.hosts.troubles import HERE, Fixes
from cli.lifecycle.local.backend import own_pulumi
from cli.pulumi.plugins import known_kind, plugin_variables
from cli.pulumi.process import Pulumi
from cli.pulumi.state import StackState, read_state

if TYPE_CHECKING:
    from cli.applied import Applied
    from cli.lifecycle.protocol import Report
    from cli.machine.checks import Check
    from slipway.plan.platform import PlatformPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLifecycle:
    """The lifecycle where hosts are processes of this machine (protocol.Lifecycle)."""

    environment: Environment

    def up(self) -> Report:
        from cli.lifecycle.local.up import up

        return up(self.environment)

    def start(self) -> None:
        from cli.lifecycle.local.processes import start

        start(self.environment)

    def stop(self) -> None:
        from cli.lifecycle.local.processes import stop

        stop(self.environment)

    def down(self) -> None:
        from cli.lifecycle.local.down import down

        down(self.environment)

    @property
    def credentials(self) -> Path:
        return self.environment.run

    def reaching(self, _plan: PlatformPlan) -> AbstractContextManager[Mapping[str, str]]:
        return nullcontext({})

    def asked(self) -> AbstractContextManager[Applied]:
        from cli.applied import require

        return nullcontext(require(self.environment))

    @property
    def when_silent(self) -> str:
        return f"stopped   (slipway start -s {self.environment.name} brings it back)"

    @property
    def hosts(self) -> None:
        return None

    @property
    def host_fixes(self) -> Fixes:
        return HERE

    def machine_checks(self) -> Iterable[Check]:
        from cli.machine import checks

        return checks.machine(self.environment)

    def plan_checks(self, plan: PlatformPlan) -> Iterable[Check]:
        from cli.applied import recorded
        from cli.clusters.nomad import allocations_now
        from cli.machine import checks

        allocations = allocations_now(self.environment, recorded(self.environment))
        return [*checks.free_ports(plan, self.environment), checks.memory(plan, allocations)]

    def exports(self) -> str:
        from cli.applied import recorded
        from cli.reach.shell import shell_exports

        variables = self.environment.variables()
        path = first_on_path(self.environment.cluster_tools, variables["PATH"])
        kind, applied = known_kind(self.environment), recorded(self.environment)
        lines = unsets([*FORWARDED, *ASKED_BY_HAND]) + exports(
            {**variables, "PATH": path, **plugin_variables(kind)}
        )
        tokens = self.credentials / "tokens"
        if applied is None or not all((tokens / name).exists() for name in ("consul", "nomad")):
            return lines  # nothing runs, or a first `up` was interrupted
        return lines + shell_exports(applied.consul, applied.nomad, self.credentials)

    def pulumi(self) -> Pulumi:
        return own_pulumi(self.environment)

    def before_preview(self, plan: PlatformPlan, given: Sequence[str]) -> list[str]:
        from cli.lifecycle.local.preview import before_preview

        return before_preview(self.environment, plan, given)

    def state(self) -> StackState | None:
        return read_state(self.environment)
