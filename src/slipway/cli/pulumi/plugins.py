"""Which kind of provider plugins an environment's Pulumi uses. One checkout keeps to one kind."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Literal

from slipway.cli.environment import Environment
from toolchain.language_host.install import install as install_language_host
from toolchain.plugins.install import install

Kind = Literal["official", "registry-only"]

DESCRIPTION: dict[Kind, str] = {
    "official": "official provider plugins, downloaded by Pulumi",
    "registry-only": "registry-only provider plugins of this checkout (README: Provider plugins)",
}
_ELF = b"\x7fELF"


def plugin_kind(environment: Environment) -> Kind:
    """The kind that was chosen for this checkout, else the one that fits the Pulumi at hand.

    A Pulumi with its own language host came from a release: then its downloads are the way.
    """
    record = environment.pulumi_home / "plugin-kind"
    if record.is_file():
        return "official" if record.read_text().strip() == "official" else "registry-only"
    # Of a Pulumi found on PATH the cache links the program alone: the rest lies beside the file.
    host = environment.cached_pulumi.resolve().with_name("pulumi-language-python")
    return "official" if _is_binary(host) else "registry-only"


def prepare_plugins(environment: Environment) -> Kind:
    """Records the kind and, for registry-only, puts the plugins where Pulumi looks for them."""
    kind = plugin_kind(environment)
    environment.pulumi_home.mkdir(mode=0o700, parents=True, exist_ok=True)
    (environment.pulumi_home / "plugin-kind").write_text(f"{kind}\n")
    _place_pulumi(environment, kind)
    if kind == "registry-only":
        python = Path(sys.executable)
        install(environment.pulumi_home, python, environment.checkout)
        install_language_host(environment.commands, python, environment.checkout)
    return kind


def _place_pulumi(environment: Environment, kind: Kind) -> None:
    """Pulumi takes the language host beside its own file without a word, and one from elsewhere
    with a warning each time. The cache's folder is no place for this checkout's host, so the file
    itself gets a second name here. An official one brings its host along: a symbolic link."""
    target = environment.cached_pulumi.resolve()
    environment.commands.mkdir(mode=0o700, parents=True, exist_ok=True)
    if environment.pulumi.exists() and environment.pulumi.samefile(target):
        return
    staged = environment.commands / ".pulumi"
    staged.unlink(missing_ok=True)
    if kind == "official":
        staged.symlink_to(target)
    else:
        try:
            staged.hardlink_to(target)
        except OSError:  # another file system
            shutil.copy2(target, staged)
    staged.replace(environment.pulumi)


def _is_binary(file: Path) -> bool:
    """Whether it is a compiled program: the host of this checkout is a script."""
    try:
        with file.open("rb") as stream:
            return stream.read(len(_ELF)) == _ELF
    except OSError:
        return False


def plugin_variables(kind: Kind) -> dict[str, str]:
    """For registry-only: nothing is looked for in the network."""
    if kind == "official":
        return {}
    return {
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_DISABLE_REGISTRY_RESOLVE": "true",
    }
