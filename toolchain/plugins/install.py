"""Installs the registry-only providers where Pulumi looks for downloaded ones."""

import json
from pathlib import Path

from toolchain.plugins.wrapper import write_wrapper

PROVIDERS = ("command", "consul", "nomad", "random", "tls")


def install(pulumi_home: Path, python: Path, checkout: Path) -> None:
    """Write `plugins/resource-<name>-v<version>/pulumi-resource-<name>` for every provider.

    The version is the one that the SDK wheel in `python`'s environment requires: Pulumi accepts no
    other. Idempotent and atomic.

    Args:
        pulumi_home: the folder of PULUMI_HOME.
        python: an interpreter with `pulumi` and the SDK packages (3.11).
        checkout: the root of this repository; the wrappers run code from it.

    Raises:
        FileNotFoundError: an SDK package is not installed for `python`.
    """
    program = checkout / "toolchain" / "plugins" / "main.py"
    for name, folder in folders(pulumi_home, python).items():
        wrapper = folder / f"pulumi-resource-{name}"
        version = sdk_version(python, name)
        write_wrapper(wrapper, python, program, "toolchain.plugins.provider", name, version)


def folders(pulumi_home: Path, python: Path) -> dict[str, Path]:
    """The folder of each provider, by its name; `install` fills them."""
    home = pulumi_home / "plugins"
    return {name: home / f"resource-{name}-v{sdk_version(python, name)}" for name in PROVIDERS}


def sdk_version(python: Path, name: str) -> str:
    """The plugin version that `pulumi_<name>` in `python`'s environment requires, e.g. "2.6.1"."""
    for manifest in python.parent.parent.glob(
        f"lib/python3*/site-packages/pulumi_{name}/pulumi-plugin.json"
    ):
        return str(json.loads(manifest.read_text())["version"]).removeprefix("v")
    raise FileNotFoundError(
        f"pulumi_{name} is not installed for {python}: install requirements.txt"
    )
