"""Pulumi's server of official plugins, asked before Pulumi itself tries it in vain: that takes 22 s
and ends inside tracebacks."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from cli.environment import Environment
from cli.errors import CliError
from cli.pulumi.plugins import begun_with, plugin_kind
from toolchain.errors import UnavailableError
from toolchain.plugins.install import folders, sdk_version
from toolchain.vendors import answering

SERVER = "get.pulumi.com"
WAIT_S = 10.0  # longer than for archives: without an answer nothing else can be done
ELSEWHERE = "PULUMI_PLUGIN_DOWNLOAD_URL_OVERRIDES"  # whoever sets it has a server of plugins


def must_have_or_reach(environment: Environment, home: Path, variables: Mapping[str, str]) -> None:
    """CliError if official plugins are still to be downloaded into `home` (PULUMI_HOME), and their
    server does not answer. `variables` are those that Pulumi gets."""
    if plugin_kind(environment) != "official" or ELSEWHERE in variables:
        return
    missing = _missing(home, variables.get("PATH"))
    if not missing or _answers():
        return
    raise CliError(
        f"Pulumi's official plugins {', '.join(missing)} are not in {home / 'plugins'}, and"
        f" {SERVER}, from where Pulumi downloads them, does not answer",
        fix=f"give this machine access to {SERVER}{_other_way(environment)}",
    )


def _answers() -> bool:
    try:
        return bool(answering({SERVER: f"https://{SERVER}/"}, WAIT_S))
    except UnavailableError:
        return True  # Pulumi knows more kinds of proxies


def _missing(home: Path, path: str | None) -> list[str]:
    """Name and version of each of the program's plugins that is neither installed nor on PATH."""
    python = Path(sys.executable)
    return [
        f"{name} {sdk_version(python, name)}"
        for name, folder in folders(home, python).items()
        if not (folder / f"pulumi-resource-{name}").exists()
        and shutil.which(f"pulumi-resource-{name}", path=path) is None
    ]


def _other_way(environment: Environment) -> str:
    """A checkout keeps the kind of plugins that it began with."""
    if begun_with(environment) == "official":
        return " (pulumi plugin install resource NAME vVERSION --file ARCHIVE needs none)"
    return (
        ", or start with a Pulumi that is built here and the registry-only plugins:"
        f" SLIPWAY_TOOL_SOURCES=wheel,module slipway up -s {environment.name}"
    )
