"""The folders and environment variables of one environment."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from cli.certificates import tool_variables
from cli.errors import WRONG_INPUT, CliError
from slipway.config.artifacts import requirements_digest
from toolchain.pins import tool_pin
from toolchain.settings import default_cache

CHECKOUT = Path(__file__).resolve().parents[1]

# Not a secret: it protects one laptop's loopback addresses, and its salt is in Pulumi.dev.yaml.
DEV_PASSPHRASE = "slipway-dev"  # noqa: S105

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# Folders of .slipway that all environments share. `down` deletes the folder of its environment.
_SHARED = ("access", "bin", "locks", "pulumi", "state")
# Variables that say how one environment is reached (reach/forwards.py). A shell may have those of
# another one.
FORWARDED = ("CONSUL_TLS_SERVER_NAME", "NOMAD_TLS_SERVER_NAME", "SLIPWAY_FORWARDS")
# Variables for the clusters' addresses and the operator's rights in a person's shell
# (reach/shell.py).
ASKED_BY_HAND = (
    "CONSUL_HTTP_ADDR",
    "CONSUL_HTTP_TOKEN",
    "CONSUL_HTTP_TOKEN_FILE",
    "NOMAD_ADDR",
    "NOMAD_TOKEN",
)
# Set for this program's own interpreter; other interpreters must not inherit them.
_NOT_FOR_CHILDREN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", *FORWARDED, *ASKED_BY_HAND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The paths of one environment of one checkout."""

    name: str
    checkout: Path
    cache: Path

    @property
    def run(self) -> Path:
        """The state of the processes: agents' data, logs, tokens. Mode 0700."""
        return self.home / self.name

    @property
    def access(self) -> Path:
        """The operator's credentials for an environment that runs on other machines. Mode 0700."""
        return self.home / "access" / self.name

    @property
    def home(self) -> Path:
        return self.checkout / ".slipway"

    @property
    def pulumi_home(self) -> Path:
        return self.home / "pulumi"

    @property
    def state(self) -> Path:
        """Pulumi's file backend."""
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
    def cluster_tools(self) -> tuple[Path, ...]:
        """The folders of `consul` and `nomad` in the cache."""
        pins = (tool_pin(name) for name in ("consul", "nomad"))
        return tuple(self.cache / "tools/bin" / f"{pin.name}-{pin.version}" for pin in pins)

    @property
    def commands(self) -> Path:
        """The folder of Pulumi and of the programs that it looks for beside itself."""
        return self.home / "bin"

    @property
    def node_python(self) -> Path:
        """The interpreter of the programs that run on a host."""
        name = f"node-{requirements_digest(self.checkout, 'node')}"
        return self.cache / "envs" / name / "bin" / "python"

    @property
    def operator(self) -> Path:
        """The folder of the operator's certificate."""
        return self.run / "operator"

    def token(self, api: str) -> str | None:
        """The management token of "nomad" or "consul", wherever they run; None before it
        exists."""
        return token_in(self.run, api) or token_in(self.access, api)

    def variables(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The variables that Pulumi, its program and this machine's host programs read."""
        return {
            **self.host_variables(self.run),
            **self.own_backend,
            **self.program_variables(environ),
        }

    def host_variables(self, run: Path) -> dict[str, str]:
        """The variables of host programs on this machine, whose files are below `run`."""
        return {
            "SLIPWAY_CACHE": str(self.cache),
            "SLIPWAY_CHECKOUT": str(self.checkout),
            "SLIPWAY_RUN": str(run),
            "SLIPWAY_SCRATCH": str(self.scratch),
            "SLIPWAY_PYTHON": str(self.node_python),
            **tool_variables(run / "operator"),
        }

    @property
    def own_backend(self) -> dict[str, str]:
        """Variables that make Pulumi keep its state in this checkout, encrypted with dev's
        passphrase."""
        return {
            "PULUMI_HOME": str(self.pulumi_home),
            # A URL: a `#` in the path would start a fragment, and `%2F` would be read as a slash.
            "PULUMI_BACKEND_URL": f"file://{quote(str(self.state))}",
            # Slipway reads the state too, so it is not compressed and lies in the project's folder.
            "PULUMI_DIY_BACKEND_GZIP": "false",
            "PULUMI_DIY_BACKEND_ZSTD": "false",
            "PULUMI_DIY_BACKEND_LEGACY_LAYOUT": "false",
            "PULUMI_CONFIG_PASSPHRASE": DEV_PASSPHRASE,
        }

    def program_variables(
        self, environ: Mapping[str, str] = os.environ, *, plugins: Sequence[Path] = ()
    ) -> dict[str, str]:
        """Variables the program needs with any backend; the `plugins` folders come first on
        PATH."""
        return {
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            # The program's packages: src/slipway, components, stacks.
            "PYTHONPATH": os.pathsep.join([str(self.checkout / "src"), str(self.checkout)]),
            "PATH": first_on_path([self.commands, *plugins], environ.get("PATH", os.defpath)),
        }

    def child_environment(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The whole environment of a child process."""
        return inherited(environ) | self.variables(environ)

    def make_folders(self) -> None:
        """The folders of a running environment, readable by their owner only."""
        self.make_pulumi_folders()
        for folder in (self.run, self.logs):
            folder.mkdir(mode=0o700, exist_ok=True)
        self.make_scratch()

    def make_scratch(self) -> None:
        _make_private(self.scratch)

    def make_pulumi_folders(self) -> None:
        """The folders that Pulumi needs, the only ones that a preview creates."""
        self.make_home()
        for folder in (self.state, self.pulumi_home):
            folder.mkdir(mode=0o700, exist_ok=True)

    def make_home(self) -> None:
        """Creates `.slipway` readable by its owner only, and narrows the mode of an existing
        one."""
        self.home.mkdir(mode=0o700, exist_ok=True)
        self.home.chmod(0o700)


def find(name: str, *, checkout: Path | None = None, cache: Path | None = None) -> Environment:
    """The environment `name`. CliError (wrong input) if the checkout has none of that name.

    An environment that has lost its stack file but still has processes or state is found too, so
    that it can be taken down.
    """
    must_be_a_name(name)
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


def must_be_a_name(name: str) -> None:
    """CliError (wrong input) for the name of a folder that all environments share."""
    if name in _SHARED:
        raise CliError(
            f'no environment can be named "{name}": all environments share .slipway/{name}',
            fix=f"give it another name, such as {name}-1",
            exit_code=WRONG_INPUT,
        )


def token_in(credentials: Path, api: str) -> str | None:
    """The token of an API in a folder of the operator's credentials; None before it exists."""
    try:
        return (credentials / "tokens" / api).read_text().strip() or None
    except FileNotFoundError:
        return None


def inherited(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of this process that child processes inherit."""
    return {key: value for key, value in environ.items() if key not in _NOT_FOR_CHILDREN}


def exports(variables: Mapping[str, str]) -> str:
    """The variables as lines for `eval` in a POSIX shell."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def unsets(names: Iterable[str]) -> str:
    """Lines for `eval` after which a POSIX shell has none of these variables."""
    return "".join(f"unset {name}\n" for name in names)


def first_on_path(folders: Sequence[Path], path: str) -> str:
    first = [str(folder) for folder in folders]
    others = [part for part in path.split(os.pathsep) if part and part not in first]
    return os.pathsep.join([*first, *others])


def _make_private(folder: Path) -> None:
    """Creates `folder` under the world-writable /tmp. CliError if another user owns that path."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise CliError(f"{folder} belongs to another user", fix=f"ask its owner to remove {folder}")
    folder.chmod(0o700)
