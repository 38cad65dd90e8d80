"""Which kind of provider plugins an environment's Pulumi uses. One checkout keeps to one kind."""

from __future__ import annotations

import errno
import shutil
import sys
from pathlib import Path
from typing import Literal

from slipway.cli.environment import Environment
from slipway.cli.errors import CliError
from toolchain.language_host.install import install as install_language_host
from toolchain.locks import exclusive
from toolchain.plugins.install import install
from toolchain.progress import Step, silent

Kind = Literal["official", "registry-only"]

DESCRIPTION: dict[Kind, str] = {
    "official": "official provider plugins, downloaded by Pulumi",
    "registry-only": "registry-only provider plugins of this checkout (README: Provider plugins)",
}
_ELF = b"\x7fELF"
# Why a file system gives a file no second name; another file system is the usual one.
_NO_SECOND_NAME = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}


def plugin_kind(environment: Environment) -> Kind:
    """The kind that was chosen for this checkout, else the one that fits the Pulumi at hand.

    A Pulumi with its own language host came from a release: then its downloads are the way.
    CliError when what was chosen cannot be read: the wrong kind would change how state is kept.
    """
    record = _record(environment)
    if record.is_file():
        for kind in DESCRIPTION:
            if record.read_text(errors="replace").strip() == kind:
                return kind
        raise CliError(
            f"{record} names no kind of provider plugins",
            fix=f"write the kind into it that this checkout began with: {' or '.join(DESCRIPTION)}",
        )
    # Of a Pulumi found on PATH the cache links the program alone: the rest lies beside the file.
    host = environment.cached_pulumi.resolve().with_name("pulumi-language-python")
    return "official" if _is_binary(host) else "registry-only"


def prepare_plugins(environment: Environment) -> Kind:
    """Records the kind and, for registry-only, puts the plugins where Pulumi looks for them."""
    environment.pulumi_home.mkdir(mode=0o700, parents=True, exist_ok=True)
    environment.commands.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Commands for several environments share the folder. Another one takes seconds at most.
    with exclusive(environment.commands / ".lock", Step("plugins", silent)):
        kind = plugin_kind(environment)
        _keep(environment, kind)
        _place_pulumi(environment, kind)
        if kind == "registry-only":
            python = Path(sys.executable)
            install(environment.pulumi_home, python, environment.checkout)
            install_language_host(environment.commands, python, environment.checkout)
    return kind


def _record(environment: Environment) -> Path:
    return environment.pulumi_home / "plugin-kind"


def _keep(environment: Environment, kind: Kind) -> None:
    """Once, and whole or not at all."""
    record = _record(environment)
    if not record.is_file():
        staged = record.with_name(".plugin-kind")
        staged.write_text(f"{kind}\n")
        staged.replace(record)


def _place_pulumi(environment: Environment, kind: Kind) -> None:
    """Pulumi takes the language host beside its own file without a word, and one from elsewhere
    with a warning each time. The cache's folder is no place for this checkout's host, so the file
    itself gets a second name here. An official one brings its host along: a symbolic link."""
    target = environment.cached_pulumi.resolve()
    if environment.pulumi.exists() and _same(environment.pulumi, target):
        return
    staged = environment.commands / ".pulumi"
    staged.unlink(missing_ok=True)
    if kind == "official":
        staged.symlink_to(target)
    else:
        try:
            staged.hardlink_to(target)
        except OSError as error:
            if error.errno not in _NO_SECOND_NAME:
                raise
            shutil.copy2(target, staged)
    staged.replace(environment.pulumi)


def _same(placed: Path, target: Path) -> bool:
    """One file, or a copy of it: that keeps the time of the last change."""
    if placed.samefile(target):
        return True
    one, other = placed.stat(), target.stat()
    return (one.st_size, one.st_mtime_ns) == (other.st_size, other.st_mtime_ns)


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
