"""Which kind of provider plugins an environment's Pulumi uses. A checkout always uses one kind."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from cli.console import say
from cli.environment import Environment
from cli.errors import CliError
from toolchain.forks.client import COMMAND
from toolchain.forks.server import PLUGIN_MODULES, fork_into_server
from toolchain.language_host import program
from toolchain.language_host.first_imports import first_modules
from toolchain.language_host.install import install as install_language_host
from toolchain.locks import exclusive
from toolchain.pins import tool_pin
from toolchain.plugins.install import folders, install
from toolchain.progress import Step, silent

Kind = Literal["official", "registry-only"]

DESCRIPTION: dict[Kind, str] = {
    "official": "official provider plugins, downloaded by Pulumi",
    "registry-only": "registry-only provider plugins of this checkout (docs/tools.md)",
}
LANGUAGE_HOST = "pulumi-language-python"
_NO_DOWNLOAD = {
    "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    "PULUMI_DISABLE_REGISTRY_RESOLVE": "true",
}
_ELF = b"\x7fELF"
# Errors of file systems that refuse a hard link, most often to another file system.
_NO_HARD_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}


def plugin_kind(environment: Environment) -> Kind:
    """The kind that this checkout began with, else the one that fits the Pulumi at hand.

    CliError when what was recorded cannot be read: the wrong kind would change how state is kept.
    """
    return known_kind(environment) or "registry-only"


def known_kind(environment: Environment) -> Kind | None:
    """Like `plugin_kind`; None if nothing is recorded and Pulumi is not installed."""
    begun = begun_with(environment)
    if begun is not None or not environment.cached_pulumi.exists():
        return begun
    # A Pulumi with its own language host is from a release, so it downloads official plugins.
    return "official" if _has_language_host(environment) else "registry-only"


def describe(environment: Environment, kind: Kind) -> str:
    """The kind in words, with the reason if it is registry-only although Pulumi is on PATH."""
    pulumi = environment.cached_pulumi.resolve()
    is_foreign = pulumi.exists() and not pulumi.is_relative_to(environment.cache.resolve())
    if kind == "official" or not is_foreign or begun_with(environment) is not None:
        return DESCRIPTION[kind]
    return (
        f"{DESCRIPTION[kind]}: {pulumi} has no {LANGUAGE_HOST} from its release beside it. For the "
        "official ones, put the whole release on PATH before the first `slipway up`"
    )


def prepare_plugins(environment: Environment) -> Kind:
    """Puts Pulumi into the checkout and, for registry-only, the plugins where Pulumi finds them.

    CliError where official plugins are in use and their language host is gone.
    """
    with _exclusive(environment):
        kind = plugin_kind(environment)
        if kind == "official":
            _must_have_language_host(environment)
            _remove_registry_only(environment)
        _place_pulumi(environment, kind)
        if kind == "registry-only":
            python = Path(sys.executable)
            install(environment.pulumi_home, python, environment.checkout)
            install_language_host(environment.commands, python, environment.checkout)
    return kind


def fork_plugins_and_program(environment: Environment) -> None:
    """Starts the server that forks registry-only plugins and the program, because their imports
    take as long as planning. It is a fork of this process, which has done half of them.
    Without it, Pulumi's first plugin starts one for plugins, and the program imports for itself."""
    if known_kind(environment) != "registry-only":
        return
    modules = list[str]()
    with suppress(OSError, SyntaxError):  # Pulumi says what is wrong with the program
        modules = first_modules(environment.checkout / "__main__.py")
    # The SDK comes first: plugins, which use a part of it, would import that part alone.
    fork_into_server("pulumi", *modules, program.EXECUTOR, *PLUGIN_MODULES)


def start_server(python: Path, *modules: str) -> subprocess.Popen[bytes]:
    """Starts a server that imports `modules` with `python`. It does not outlive this process."""
    nothing = subprocess.DEVNULL
    module = ["-m", "toolchain.forks.server", str(os.getpid())]
    return subprocess.Popen(
        [str(python), "-u", "-P", *module, *modules],
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
        start_new_session=True,
    )


def keep_kind(environment: Environment, home: Path) -> None:
    """Records the kind once; called before and after each update.

    Previews do not record it, and official plugins are recorded only once they are in `home`
    (PULUMI_HOME), so that a first try without a network does not settle the choice.
    """
    record = _record(environment)
    with _exclusive(environment):
        kind = plugin_kind(environment)
        if record.is_file() or (kind == "official" and not _has_official_plugins(home)):
            return
        staged = record.with_name(".plugin-kind")
        staged.write_text(f"{kind}\n")
        staged.replace(record)


def say_what_is_missing(environment: Environment, home: Path) -> None:
    """Says what to do if Pulumi failed because the official plugins are missing."""
    if plugin_kind(environment) == "official" and not _has_official_plugins(home):
        say(
            "the official provider plugins are not installed: Pulumi downloads them at its first"
            " run. If that failed, give this machine access to get.pulumi.com, or start with a"
            " Pulumi that is built here and the registry-only plugins:"
            f" SLIPWAY_TOOL_SOURCES=wheel,module slipway up -s {environment.name}",
            style="yellow",
        )


@contextmanager
def _exclusive(environment: Environment) -> Iterator[None]:
    """Commands for several environments share the folders; each holds the lock for seconds at
    most."""
    environment.pulumi_home.mkdir(mode=0o700, parents=True, exist_ok=True)
    environment.commands.mkdir(mode=0o700, parents=True, exist_ok=True)
    with exclusive(environment.commands / ".lock", Step("plugins", silent)):
        yield


def begun_with(environment: Environment) -> Kind | None:
    """The recorded kind, else official if Pulumi has downloaded plugins."""
    record = _record(environment)
    if not record.is_file():
        return "official" if _has_official_plugins(environment.pulumi_home) else None
    for kind in DESCRIPTION:
        if record.read_text(errors="replace").strip() == kind:
            return kind
    raise CliError(
        f"{record} does not name a kind of provider plugins",
        fix=f"write into it the kind that this checkout started with: {' or '.join(DESCRIPTION)}",
    )


def _record(environment: Environment) -> Path:
    return environment.pulumi_home / "plugin-kind"


def _plugins(home: Path) -> list[Path]:
    """The folders of the program's plugins, of either kind."""
    places = folders(home, Path(sys.executable))
    return [folder / f"pulumi-resource-{name}" for name, folder in places.items()]


def _has_official_plugins(home: Path) -> bool:
    return any(_is_binary(plugin) for plugin in _plugins(home))


def _has_language_host(environment: Environment) -> bool:
    # For a Pulumi on PATH the cache links only the program; the rest is beside the original file.
    return _is_binary(environment.cached_pulumi.resolve().with_name(LANGUAGE_HOST))


def _remove_registry_only(environment: Environment) -> None:
    """Removes registry-only plugins left by an earlier preview, which Pulumi would prefer."""
    (environment.commands / LANGUAGE_HOST).unlink(missing_ok=True)
    for plugin in _plugins(environment.pulumi_home):
        if plugin.exists() and not _is_binary(plugin):
            shutil.rmtree(plugin.parent)


def _must_have_language_host(environment: Environment) -> None:
    if not _has_language_host(environment):
        raise CliError(
            "this checkout started with the official provider plugins, and"
            f" {environment.cached_pulumi.resolve()} has no {LANGUAGE_HOST} from its release beside"
            " it",
            fix=f"put the whole release of Pulumi {tool_pin('pulumi').version} back on PATH; or"
            f" take every environment down (slipway down), remove {environment.home} and start with"
            " the registry-only plugins",
        )


def _place_pulumi(environment: Environment, kind: Kind) -> None:
    """Pulumi silently uses a language host beside its own file, and warns each time about one from
    elsewhere. This checkout's host must not be in the cache, so Pulumi's file is hard-linked here.
    An official Pulumi has its own host beside it and is linked symbolically."""
    target = environment.cached_pulumi.resolve()
    is_of_kind = environment.pulumi.is_symlink() == (kind == "official")
    if is_of_kind and environment.pulumi.exists() and _same(environment.pulumi, target):
        return
    staged = environment.commands / ".pulumi"
    staged.unlink(missing_ok=True)
    if kind == "official":
        staged.symlink_to(target)
    else:
        try:
            staged.hardlink_to(target)
        except OSError as error:
            if error.errno not in _NO_HARD_LINK:
                raise
            shutil.copy2(target, staged)
    staged.replace(environment.pulumi)


def _same(placed: Path, target: Path) -> bool:
    """Whether both are the same file or one is a copy, which keeps the modification time."""
    if placed.samefile(target):
        return True
    one, other = placed.stat(), target.stat()
    return (one.st_size, one.st_mtime_ns) == (other.st_size, other.st_mtime_ns)


def _is_binary(file: Path) -> bool:
    """Whether it is a compiled program; this checkout's host is a script."""
    try:
        with file.open("rb") as stream:
            return stream.read(len(_ELF)) == _ELF
    except OSError:
        return False


def plugin_folders(environment: Environment, kind: Kind | None) -> list[Path]:
    """The folders of the plugins that this checkout brings."""
    if kind != "registry-only":
        return []
    return list(folders(environment.pulumi_home, Path(sys.executable)).values())


def plugin_variables(kind: Kind | None) -> dict[str, str]:
    """For registry-only plugins: keeps Pulumi from looking for plugins on the network."""
    return dict(_NO_DOWNLOAD) if kind == "registry-only" else {}


def with_plugin_variables(variables: Mapping[str, str], kind: Kind) -> dict[str, str]:
    """`variables` with those of the kind, for a Pulumi that this process runs; a shell may still
    have those of the other kind, which would keep Pulumi from downloading the official plugins."""
    others = {name: value for name, value in variables.items() if name not in _NO_DOWNLOAD}
    return {**others, COMMAND: str(os.getpid()), **plugin_variables(kind)}
