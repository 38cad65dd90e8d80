"""The folders and environment variables of one environment."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from slipway.cli.errors import WRONG_INPUT, CliError
from slipway.config.artifacts import requirements_digest
from toolchain.pins import tool_pin
from toolchain.settings import default_cache

CHECKOUT = Path(__file__).resolve().parents[3]

# Guards one laptop's loopback addresses, and its salt is committed in Pulumi.dev.yaml: no secret.
DEV_PASSPHRASE = "slipway-dev"  # noqa: S105

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# Folders of .slipway that all environments share. `down` deletes the folder of its environment.
_SHARED = ("bin", "locks", "pulumi", "state")
# Set for this program's own interpreter; other interpreters must not inherit them.
_NOT_FOR_CHILDREN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Where one environment of one checkout keeps what."""

    name: str
    checkout: Path
    cache: Path

    @property
    def run(self) -> Path:
        """State of the processes: agents' data, logs, tokens. 0700."""
        return self.home / self.name

    @property
    def home(self) -> Path:
        return self.checkout / ".slipway"

    @property
    def pulumi_home(self) -> Path:
        return self.home / "pulumi"

    @property
    def state(self) -> Path:
        """The file backend of Pulumi."""
        return self.home / "state"

    @property
    def logs(self) -> Path:
        return self.run / "logs"

    @property
    def scratch(self) -> Path:
        """Short, because a socket's path has at most 107 characters."""
        place = f"{self.checkout}\0{self.name}".encode()
        name = f"slipway-{os.getuid()}-{hashlib.sha256(place).hexdigest()[:8]}"
        return Path("/tmp") / name  # noqa: S108  (made 0700 and its owner checked)

    @property
    def pulumi(self) -> Path:
        return self.commands / "pulumi"

    @property
    def cached_pulumi(self) -> Path:
        pin = tool_pin("pulumi")
        return self.cache / "tools" / "bin" / f"pulumi-{pin.version}" / "pulumi"

    @property
    def commands(self) -> Path:
        """Pulumi, and beside it what it looks for there."""
        return self.home / "bin"

    @property
    def node_python(self) -> Path:
        """The interpreter of the programs that keep a host."""
        name = f"node-{requirements_digest(self.checkout, 'node')}"
        return self.cache / "envs" / name / "bin" / "python"

    def token(self, api: str) -> str | None:
        """The management token of "nomad" or "consul"; None before there is one."""
        try:
            return (self.run / "tokens" / api).read_text().strip() or None
        except FileNotFoundError:
            return None

    def variables(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """What Pulumi, its program and the host programs read."""
        return {
            "SLIPWAY_CACHE": str(self.cache),
            "SLIPWAY_RUN": str(self.run),
            "SLIPWAY_SCRATCH": str(self.scratch),
            "SLIPWAY_PYTHON": str(self.node_python),
            "PULUMI_HOME": str(self.pulumi_home),
            # A URL: a folder's `#` would begin a fragment, its `%2F` would be read as a slash.
            "PULUMI_BACKEND_URL": f"file://{quote(str(self.state))}",
            # We read the state, too: plainly written, in the folder of the project.
            "PULUMI_DIY_BACKEND_GZIP": "false",
            "PULUMI_DIY_BACKEND_ZSTD": "false",
            "PULUMI_DIY_BACKEND_LEGACY_LAYOUT": "false",
            "PULUMI_CONFIG_PASSPHRASE": DEV_PASSPHRASE,
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            # The program's packages: src/slipway, components, stacks.
            "PYTHONPATH": os.pathsep.join([str(self.checkout / "src"), str(self.checkout)]),
            "PATH": _first_on_path(self.commands, environ.get("PATH", os.defpath)),
        }

    def child_environment(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The whole environment of a child process."""
        inherited = {key: value for key, value in environ.items() if key not in _NOT_FOR_CHILDREN}
        return {**inherited, **self.variables(environ)}

    def make_folders(self) -> None:
        """The folders of a running environment, readable by their owner only."""
        self.make_pulumi_folders()
        for folder in (self.run, self.logs):
            folder.mkdir(mode=0o700, exist_ok=True)
        _make_private(self.scratch)

    def make_pulumi_folders(self) -> None:
        """What Pulumi alone needs; a preview makes no other."""
        self.make_home()
        for folder in (self.state, self.pulumi_home):
            folder.mkdir(mode=0o700, exist_ok=True)

    def make_home(self) -> None:
        """`.slipway`, readable by its owner only; also when an earlier hand made it wider."""
        self.home.mkdir(mode=0o700, exist_ok=True)
        self.home.chmod(0o700)


def find(name: str, *, checkout: Path | None = None, cache: Path | None = None) -> Environment:
    """The environment `name`. CliError (wrong input) when the checkout has none of that name.

    One whose stack file is gone but which still has processes or state counts: it must be possible
    to end it.
    """
    if name in _SHARED:
        raise CliError(
            f'no environment can have the name "{name}": .slipway/{name} belongs to all of them',
            fix=f"give it another name, such as {name}-1",
            exit_code=WRONG_INPUT,
        )
    checkout = checkout or CHECKOUT
    environment = Environment(name=name, checkout=checkout, cache=cache or default_cache())
    if _NAME.fullmatch(name) and (
        (checkout / f"Pulumi.{name}.yaml").is_file() or environment.run.is_dir()
    ):
        return environment
    known = sorted(path.name.split(".", 1)[1][:-5] for path in checkout.glob("Pulumi.*.yaml"))
    raise CliError(
        f'there is no environment "{name}": {checkout} has no Pulumi.{name}.yaml',
        fix=f"use one of: {', '.join(known)}" if known else "write a Pulumi.dev.yaml",
        exit_code=WRONG_INPUT,
    )


def exports(variables: Mapping[str, str]) -> str:
    """The variables as lines for `eval` in a POSIX shell."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def _first_on_path(folder: Path, path: str) -> str:
    others = [part for part in path.split(os.pathsep) if part and part != str(folder)]
    return os.pathsep.join([str(folder), *others])


def _make_private(folder: Path) -> None:
    """Makes `folder` under the world-writable /tmp. CliError when somebody else owns the name."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise CliError(f"{folder} belongs to somebody else", fix=f"have {folder} removed")
    folder.chmod(0o700)
