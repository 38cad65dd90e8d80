"""Clouds have no registry-only plugin: Pulumi needs the official one, which it may download."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from cli.environment import Environment, inherited
from cli.errors import CliError
from cli.progress import ToolchainProgress
from cli.pulumi.cloud_sdks import requirements_of
from cli.pulumi.plugins import plugin_kind
from cli.targets import target_of
from slipway.config.errors import ConfigError
from toolchain import resolve

PLUGINS = {"aws": "aws"}  # of a target


def must_have_plugins(environment: Environment) -> None:
    """CliError where a command of Pulumi cannot work, with the commands that can."""
    try:
        plugin = PLUGINS.get(target_of(environment) or "")
    except ConfigError:
        return  # the command itself says what is wrong with the file
    if plugin is None:
        return
    resolve.tools(["pulumi"], environment.cache, ToolchainProgress())
    variables, version = inherited(), version_of(plugin, environment.checkout)
    if plugin_kind(environment) == "official" or program_of(plugin, version, variables):
        return
    name = environment.name
    raise CliError(
        f"Pulumi's official {plugin} plugin {version} is not installed, and a Pulumi that was built"
        " here downloads none",
        fix=f"pulumi plugin install resource {plugin} v{version}, where Pulumi's downloads can be"
        " reached (elsewhere with --file ARCHIVE), or put a whole release of Pulumi on PATH."
        f" Without the plugin these work: slipway plan -s {name}, slipway policies -s {name},"
        f" slipway preview --offline -s {name}",
    )


def version_of(plugin: str, checkout: Path) -> str:
    """That of the SDK, which Pulumi takes for its plugin, too."""
    text = requirements_of(plugin, checkout).read_text()
    found = re.search(rf"^pulumi-{plugin}==(\S+)$", text, re.MULTILINE)
    assert found is not None  # noqa: S101  (a pin of this checkout)
    return found[1]


def program_of(plugin: str, version: str, variables: Mapping[str, str]) -> Path | None:
    """On PATH, or where Pulumi installs plugins; None where it is not installed."""
    program = f"pulumi-resource-{plugin}"
    home = Path(variables.get("PULUMI_HOME") or Path.home() / ".pulumi")
    installed = home / "plugins" / f"resource-{plugin}-v{version}" / program
    if os.access(installed, os.X_OK):
        return installed
    on_path = shutil.which(program, path=variables.get("PATH"))
    return Path(on_path) if on_path else None
