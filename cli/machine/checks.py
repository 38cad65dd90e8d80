"""The requirements on a machine; each check says ok or how to fix it."""

from __future__ import annotations

import os
import platform
import pwd
import resource
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from cli.environment import Environment
from cli.errors import CliError
from cli.machine import ports
from cli.machine.memory import Allocation, available_bytes, newly_needed_bytes
from slipway.config.artifacts import REQUIREMENTS
from slipway.plan.platform import PlatformPlan
from toolchain.environments import is_complete
from toolchain.errors import ToolchainError
from toolchain.pins import tool_pins
from toolchain.prepare import environment_folder
from toolchain.resolve import report

GIB = 2**30
MIN_CORES = 2
MIN_GLIBC = (2, 35)  # what Triton's binaries are linked against
MIN_OPEN_FILES = 4096
COLD_DISK_BYTES = 20 * GIB  # with empty caches: Go's, binaries and Python environments
WARM_DISK_BYTES = 2 * GIB
ENGINE_DISK_BYTES = 8 * GIB  # vLLM's environment, 6.1 GB, and uv's downloads for it
MIN_SHARED_MEMORY_BYTES = GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    state: Literal["ok", "warn", "fail"]
    detail: str
    fix: str = ""


def require(checks: Iterable[Check]) -> None:
    """CliError with every check that failed."""
    failed = [check for check in checks if check.state == "fail"]
    if failed:
        raise CliError(
            "; ".join(f"{check.name}: {check.detail}" for check in failed)
            + "; nothing was changed",
            fix="; ".join(dict.fromkeys(check.fix for check in failed)),
        )


def operators_machine(environment: Environment) -> Iterator[Check]:
    """The checks for planning, previewing and applying a platform that runs elsewhere."""
    yield _system()
    yield _user()
    yield _c_library()
    yield _writable("cache folder", environment.cache, "set SLIPWAY_CACHE to a folder that is")
    yield _writable("checkout", environment.checkout, "use a checkout of your own")
    yield _tools(environment.cache)


def machine(environment: Environment) -> Iterator[Check]:
    """The checks for running the platform here that do not depend on a plan."""
    yield _system()
    yield _user()
    yield _c_library()
    yield _cores()
    yield _clock(environment.checkout)
    yield _cgroups()
    yield _open_files()
    yield _shared_memory()
    yield _writable("cache folder", environment.cache, "set SLIPWAY_CACHE to a folder that is")
    yield _writable("checkout", environment.checkout, "use a checkout of your own")
    yield _tools(environment.cache)
    yield from _disks(environment)


def _system() -> Check:
    found = f"{platform.system()} {platform.machine()}"
    if found == "Linux x86_64":
        return Check(name="system", state="ok", detail=found)
    return Check(
        name="system",
        state="fail",
        detail=f"{found} is not supported",
        fix="use a Linux x86-64 machine",
    )


def _user() -> Check:
    """Pulumi and Nomad's raw_exec driver look up their user by id."""
    user_id = os.getuid()
    try:
        return Check(name="user", state="ok", detail=pwd.getpwuid(user_id).pw_name)
    except KeyError:
        return Check(
            name="user",
            state="fail",
            detail=f"the user id {user_id} has no name on this machine; Nomad cannot start tasks",
            fix="run as a user that `getent passwd` lists",
        )


def _c_library() -> Check:
    name, version = platform.libc_ver()
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if name == "glibc" and numbers >= MIN_GLIBC:
        return Check(name="C library", state="ok", detail=f"{name} {version}")
    return Check(
        name="C library",
        state="fail",
        detail=f"{name or 'unknown'} {version}; glibc 2.35 or newer is needed",
        fix="use a newer distribution, for example Debian 12 or Ubuntu 22.04",
    )


def _cores() -> Check:
    cores = len(os.sched_getaffinity(0))
    if cores >= MIN_CORES:
        return Check(name="cores", state="ok", detail=f"{cores}")
    return Check(
        name="cores",
        state="warn",
        detail=f"{cores}; models load slowly below {MIN_CORES}",
        fix=f"give this machine {MIN_CORES} cores",
    )


def memory(plan: PlatformPlan, allocations: Sequence[Allocation] | None = None) -> Check:
    """Whether the memory that a plan newly needs is available on this machine.

    `allocations` are those of the environment's Nomad, None if it does not run.
    """
    needs = newly_needed_bytes(plan, allocations)
    free, need = available_bytes(), sum(needs.values())
    detail = f"{free / GIB:.1f} GiB free, {need / GIB:.1f} GiB needed"
    if needs:
        detail += f" for {', '.join(needs)}"
    if free >= need:
        return Check(name="memory", state="ok", detail=detail)
    return Check(
        name="memory",
        state="fail",
        detail=detail,
        fix="close other programs, or lower replicas.min or the models' kv_cache"
        + ("" if allocations is None else "; `surge: 0` replaces a model's replicas one by one"),
    )


def _disks(environment: Environment) -> Iterator[Check]:
    cache, checkout = _existing(environment.cache), environment.checkout
    fix = "free some disk space, or set SLIPWAY_CACHE to a folder on a larger disk"
    yield _disk(environment.cache, cache, _cache_need_bytes(environment), fix)
    if not _same_disk(checkout, cache):  # state, logs and the agents' data are beside it
        fix = "free some disk space, or use a checkout on a larger disk"
        yield _disk(checkout, checkout, WARM_DISK_BYTES, fix)


def _same_disk(one: Path, other: Path) -> bool:
    return one.stat().st_dev == other.stat().st_dev


def _disk(place: Path, existing: Path, need: int, fix: str) -> Check:
    free = shutil.disk_usage(existing).free
    detail = f"{free / GIB:.1f} GiB free for {place}, {need / GIB:.0f} GiB needed"
    if free >= need:
        return Check(name="disk", state="ok", detail=detail)
    return Check(name="disk", state="fail", detail=detail, fix=fix)


def _cache_need_bytes(environment: Environment) -> int:
    cache = environment.cache
    if any(state.state == "missing" for state in report(tool_pins(), cache)):
        return COLD_DISK_BYTES
    engine = environment.checkout / REQUIREMENTS["vllm"]
    if is_complete(engine, environment_folder("vllm", engine, cache)):
        return WARM_DISK_BYTES
    return WARM_DISK_BYTES + ENGINE_DISK_BYTES


def free_ports(plan: PlatformPlan, environment: Environment) -> Iterator[Check]:
    """A failed check for each port of the plan that a process outside the environment uses."""
    taken = ports.in_use(ports.listeners(plan))
    foreign = _foreign(taken, environment)
    # A program that restarts may end between the two questions, whether its port is free and who
    # uses it, and then seems to be another user's: what is foreign is asked about once more.
    foreign = _foreign(ports.in_use(foreign), environment)
    if foreign:
        yield from (_taken(listener, user, environment) for listener, user in foreign.items())
        return
    ours = f", {len(taken)} in use by this environment" if taken else ""
    yield Check(name="ports", state="ok", detail=f"{plan.cidr}{ours}")


def _foreign(
    taken: Mapping[ports.Listener, psutil.Process | None], environment: Environment
) -> dict[ports.Listener, psutil.Process | None]:
    return {
        listener: user
        for listener, user in taken.items()
        if user is None or not ports.belongs_to(user, environment.run)
    }


def _taken(
    listener: ports.Listener, user: psutil.Process | None, environment: Environment
) -> Check:
    return Check(
        name="ports",
        state="fail",
        detail=f"{listener} ({listener.purpose}) is in use by {_named(user)}",
        fix="end that process, or choose another slipway:network in "
        f"Pulumi.{environment.name}.yaml",
    )


def _named(user: psutil.Process | None) -> str:
    if user is None:
        return "another user's process"
    try:
        return f"{user.name()} (pid {user.pid})"
    except psutil.NoSuchProcess:
        return f"a process that has just ended (pid {user.pid})"


def _clock(checkout: Path) -> Check:
    newest = (checkout / "requirements.txt").stat().st_mtime
    if time.time() >= newest:
        return Check(
            name="clock", state="ok", detail=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        )
    return Check(
        name="clock",
        state="fail",
        detail="behind the files of this checkout; certificates and leases would be invalid",
        fix="set the clock (timedatectl set-ntp true)",
    )


def _cgroups() -> Check:
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        return Check(name="cgroups", state="ok", detail="v2")
    if (root / "memory").exists() or (root / "cpu").exists():
        return Check(name="cgroups", state="ok", detail="v1")
    return Check(
        name="cgroups",
        state="warn",
        detail="none are mounted; tasks run without their own accounting",
        fix="mount /sys/fs/cgroup",
    )


def _open_files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Agents raise their own soft limit up to the hard limit.
    limit = hard if hard != resource.RLIM_INFINITY else 2**20
    if limit >= MIN_OPEN_FILES:
        return Check(name="open files", state="ok", detail=f"{soft} (may rise to {limit})")
    return Check(
        name="open files",
        state="warn",
        detail=f"at most {limit} per process",
        fix=f"raise the hard limit to {MIN_OPEN_FILES} (ulimit -Hn)",
    )


def _shared_memory() -> Check:
    try:
        free = shutil.disk_usage("/dev/shm").free  # noqa: S108  (measured, not written)
    except OSError:
        free = 0
    detail = f"{free / GIB:.1f} GiB free in /dev/shm"
    if free >= MIN_SHARED_MEMORY_BYTES:
        return Check(name="shared memory", state="ok", detail=detail)
    return Check(
        name="shared memory",
        state="warn",
        detail=f"{detail}; Triton and vLLM pass tensors through it",
        fix="mount -o remount,size=2G /dev/shm",
    )


def _writable(name: str, folder: Path, fix: str) -> Check:
    if os.access(_existing(folder), os.W_OK | os.X_OK):
        return Check(name=name, state="ok", detail=str(folder))
    return Check(name=name, state="fail", detail=f"{folder} is not writable", fix=fix)


def _tools(cache: Path) -> Check:
    try:
        missing = [state.name for state in report(tool_pins(), cache) if state.state == "missing"]
    except ToolchainError as error:
        return Check(name="tools", state="fail", detail=error.message, fix=error.fix)
    if not missing:
        return Check(name="tools", state="ok", detail="all cached")
    return Check(
        name="tools",
        state="warn",
        detail=f"not yet in the cache: {', '.join(missing)}",
        fix="slipway up installs them, and so does slipway tools --install",
    )


def _existing(folder: Path) -> Path:
    """The folder, or its nearest existing parent."""
    return next(path for path in (folder, *folder.parents) if path.exists())
