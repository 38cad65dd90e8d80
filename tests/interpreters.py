"""CPython in versions that this machine need not have, each as distributions install it below /usr.

A Go module carries builds that run anywhere (python-build-standalone): a module proxy is enough.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolchain.go_toolchain import build_environment, find_go
from toolchain.pins import tool_pin
from toolchain.progress import Step, silent
from toolchain.settings import Settings, default_cache

MODULE = "github.com/kluctl/go-embed-python"
# CPython's version -> that of the module, and its checksum as go.sum has it.
PINS: Mapping[str, tuple[str, str]] = {
    "3.10": ("v0.0.0-3.10.16-20241219-1", "h1:bfJRrtWlbdrPtwXXXZzA95yj2Pr9AvSbxDEm8YvbaP0="),
    "3.12": ("v0.0.0-3.12.3-20240415-1", "h1:IX2O3LJUL0AjYsROGZ4aNENTEb3c/Ll/0b9Yb/8P61Q="),
}
FILES = "python/internal/data/linux-amd64"
# The builds are for an older C library than hosts have, and lack what distributions' Pythons have.
PIDFDS = """\
import ctypes, os, signal

def call(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

libc = ctypes.CDLL(None, use_errno=True)
os.pidfd_open = lambda pid, flags=0: call(434, pid, flags)
signal.pidfd_send_signal = lambda pidfd, number: call(424, pidfd, number, None, 0) and None
"""
EXECUTABLE = 0o100


def usr_of(python: str) -> Path:
    """A folder with bin/ and lib/ of CPython `python`, in the cache; fetched once."""
    version, checksum = PINS[python]
    cache = default_cache() / "hosts"
    cache.mkdir(parents=True, exist_ok=True)
    made = (
        cache / f"cpython-{python}-{hashlib.sha256(f'{version}{PIDFDS}'.encode()).hexdigest()[:12]}"
    )
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=cache) as work:
                module = _download(version, checksum, Path(work))
                unpacked = Path(work) / "usr"
                _unpack(module / FILES, unpacked)
                unpacked.rename(made)
    return made


def _download(version: str, checksum: str, work: Path) -> Path:
    pin = tool_pin("consul").module  # of any: which Go it needs
    assert pin is not None
    go = find_go(pin, Settings.read(default_cache()), Step("go", silent))
    done = subprocess.run(
        [go, "mod", "download", "-json", f"{MODULE}@{version}"],
        env=build_environment(pin, work),
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["Sum"] == checksum, found
    return Path(found["Dir"])


def _unpack(files: Path, usr: Path) -> None:
    for entry in json.loads((files / "files.json").read_text())["files"]:
        if not entry["name"].startswith("bin/") or entry["name"].startswith("bin/python3."):
            _put(files, usr, entry)
    (standard_library,) = (usr / "lib").glob("python3.*")
    (standard_library / "sitecustomize.py").write_text(PIDFDS)
    library = next((usr / "lib").glob("libpython3.*.so.1.0"))
    subprocess.run(["strip", "--strip-unneeded", library], check=True)  # 200 MB of symbols


def _put(files: Path, usr: Path, entry: Mapping[str, Any]) -> None:
    name = entry["name"]
    target, source = usr / name, files / name
    if "symlink" in entry:
        target.symlink_to(entry["symlink"])
    elif source.is_dir():
        target.mkdir(parents=True)
    elif entry.get("compressed"):
        with gzip.open(source.with_name(f"{source.name}.gz")) as packed, target.open("wb") as file:
            shutil.copyfileobj(packed, file)
    else:
        shutil.copyfile(source, target)
    if not target.is_symlink() and not target.is_dir():
        target.chmod(0o755 if entry["perm"] & EXECUTABLE else 0o644)
