"""The files of an environment: modes, owners, mounts, and the absence of secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.host.conftest import Environment

pytestmark = pytest.mark.live
testinfra_hosts = ["local://"]

TASK_MOUNT = re.compile(r"/nodes/[\w-]+/nomad/data/alloc/[0-9a-f-]{36}/[\w-]+/(secrets|private)")
CHUNK_BYTES = 1 << 20


def ours(host: Any, environment: Environment, kind: str) -> list[tuple[str, str, str]]:
    """(mode, owner, path) of Slipway's own files ("f") or folders ("d").

    The agents' data folders are left out: other users cannot reach them.
    """
    theirs = r"\( -name data -o -name alloc_mounts \) -prune -o"
    command = f"find %s {theirs} -type {kind} -printf '%%m %%U %%p\\n'"
    lines = host.check_output(command, str(environment.run)).splitlines()
    rows = [(mode, owner, path) for mode, owner, path in (line.split(" ", 2) for line in lines)]
    assert rows
    return rows


def test_every_folder_is_closed_to_other_users(host: Any, environment: Environment) -> None:
    assert [row for row in ours(host, environment, "d") if row[0] != "700"] == []


def test_every_file_is_closed_to_other_users(host: Any, environment: Environment) -> None:
    assert [row for row in ours(host, environment, "f") if row[0] != "600"] == []


def test_the_folder_of_all_environments_is_closed_to_other_users(
    host: Any, environment: Environment
) -> None:
    assert host.file(str(environment.run.parent)).mode == 0o700


def test_the_scratch_folder_is_closed_to_other_users(host: Any, environment: Environment) -> None:
    folder = host.file(str(environment.scratch))
    assert folder.is_directory
    assert folder.mode == 0o700
    assert folder.uid == os.getuid()


def test_everything_belongs_to_who_ran_up(host: Any, environment: Environment) -> None:
    rows = [*ours(host, environment, "f"), *ours(host, environment, "d")]
    assert {owner for _, owner, _ in rows} == {str(os.getuid())}


def test_every_host_has_its_agents_files(host: Any, environment: Environment) -> None:
    hosts = [each["name"] for each in (*environment.plan["servers"], *environment.nodes)]
    for name in hosts:
        for agent in ("consul", "nomad"):
            for file in ("config.json", "secrets.json", "program.json"):
                assert host.file(str(environment.run / "nodes" / name / agent / file)).is_file


def test_mounts_are_tasks_secrets_in_memory_and_nothing_else(
    host: Any, environment: Environment
) -> None:
    """As an ordinary user Nomad mounts nothing; as root a tmpfs that runs no program."""
    points = [
        point
        for point in host.mount_point.get_mountpoints()
        if point.path.startswith((f"{environment.run}/", f"{environment.scratch}/"))
    ]
    assert bool(points) is (os.getuid() == 0)
    for point in points:
        assert TASK_MOUNT.fullmatch(point.path.removeprefix(str(environment.run))), point.path
        assert point.filesystem == "tmpfs"
        assert "noexec" in point.options


def test_secrets_are_long_and_differ_between_hosts(environment: Environment) -> None:
    secrets = environment.secrets()
    assert {"tokens/consul", "tokens/nomad", "supervisor/password"} <= secrets.keys()
    assert min(map(len, secrets.values())) >= 16
    tokens = [
        (path.parent.parent.name, path.read_text())
        for path in environment.run.glob("nodes/*/nomad/secrets.json")
    ]
    assert len({content for _, content in tokens}) == len(tokens)


def public_files(environment: Environment) -> Iterator[Path]:
    """Everything that must not contain a secret: configurations, logs, documents, templates."""
    yield from environment.run.glob("nodes/*/*/config.json")
    yield from environment.run.glob("nodes/*/*/program.json")
    yield from environment.run.glob("supervisor/conf.d/*")
    yield from environment.run.glob("logs/*")
    yield environment.run / "plan.json"
    allocations = "nodes/*/nomad/data/alloc/*"
    yield from environment.run.glob(f"{allocations}/alloc/logs/*.std*")
    yield from environment.run.glob(f"{allocations}/*/local/*")
    yield from environment.run.glob(f"{allocations}/*/executor.out")
    home = environment.run.parent
    for folder in (home / "pulumi" / "logs", home / "state", environment.scratch):
        yield from folder.rglob("*")


def holders(paths: Iterator[Path], secrets: dict[str, str]) -> list[str]:
    """Findings as "file holds secret of file", never with the secret itself."""
    return [
        f"{path} holds what is in {origin}"
        for path in paths
        if path.is_file()
        for origin, secret in secrets.items()
        if _contains(path, secret.encode())
    ]


def _contains(path: Path, secret: bytes) -> bool:
    overlap = b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            if secret in overlap + chunk:
                return True
            overlap = chunk[-len(secret) :]
    return False


def test_no_configuration_log_or_state_holds_a_secret(environment: Environment) -> None:
    paths = [path for path in public_files(environment) if path.is_file()]
    names = {path.name for path in paths}
    assert {"config.json", "plan.json", "pulumi.log", "prometheus.yml"} <= names
    assert holders(iter(paths), environment.secrets()) == []


def test_a_file_with_a_secret_would_be_found(environment: Environment) -> None:
    secret_files = environment.run.glob("nodes/*/*/secrets.json")
    assert len(holders(secret_files, environment.secrets())) >= len(environment.nodes)


def test_no_secret_is_on_a_command_line(environment: Environment) -> None:
    secrets = environment.secrets()
    for process, kind in environment.processes().items():
        try:
            command = " ".join(process.cmdline())
        except psutil.NoSuchProcess:
            continue
        assert not [origin for origin, secret in secrets.items() if secret in command], kind


def test_no_operators_token_reaches_the_environment_of_a_process(
    environment: Environment,
) -> None:
    """A task has only the token of its own identity there."""
    operators = {
        origin: secret
        for origin, secret in environment.secrets().items()
        if "/data/alloc/" not in origin
    }
    for process, kind in environment.processes().items():
        try:
            variables = "\0".join(process.environ().values())
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        assert not [origin for origin, secret in operators.items() if secret in variables], kind
