"""The real tools of the contract tests: looked up once, agents started once."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.binaries import find
from tests.contract import kinds
from tests.contract.agents import CONSUL_ADDRESS, Agent, consul_agent, nomad_agent
from tests.contract.authority import write_authority
from tests.contract.sshd import (
    HOST_ADDRESS,
    JUMP_ADDRESS,
    SshServer,
    missing_to_run,
    ssh_server,
    unpacked,
)
from tests.contract.stack import Stack
from toolchain.language_host.install import install as install_language_host
from toolchain.settings import default_cache

CHECKOUT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what cannot run against official plugins, where those are asked for."""
    if kinds.chosen() == kinds.STAND_IN:
        return
    kinds.official_programs()
    for item in items:
        reason = kinds.why_not_official(item) if HERE in item.path.parents else None
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def pulumi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The CLI with the language host beside it, under a long path with a space."""
    folder = tmp_path_factory.mktemp("a folder with a name " + "as long as it may get" * 5)
    binary = folder / "pulumi"
    source = find("pulumi").resolve()
    try:
        os.link(source, binary)
    except OSError:
        shutil.copy2(source, binary)
    install_language_host(folder, Path(sys.executable), CHECKOUT)
    return binary


@pytest.fixture(scope="session")
def pulumi_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PULUMI_HOME with plugins of the chosen kind, under a path with a space."""
    home = tmp_path_factory.mktemp("pulumi home")
    kinds.install(kinds.chosen(), home)
    return home


@pytest.fixture(scope="session")
def empty_stack(tmp_path_factory: pytest.TempPathFactory, pulumi: Path, pulumi_home: Path) -> Path:
    """An initialised stack without resources, to copy: making one costs half a second."""
    stack = Stack(tmp_path_factory.mktemp("empty"), pulumi, pulumi_home)
    stack.initialise()
    return stack.folder


@pytest.fixture
def stack(tmp_path: Path, empty_stack: Path, pulumi: Path, pulumi_home: Path) -> Stack:
    """An empty stack."""
    shutil.copytree(empty_stack, tmp_path / "stack")
    return Stack(tmp_path / "stack", pulumi, pulumi_home)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate authority and what it has signed."""
    return write_authority(tmp_path_factory.mktemp("authority"), CONSUL_ADDRESS)


@pytest.fixture(scope="session")
def consul(tmp_path_factory: pytest.TempPathFactory, authority: Path) -> Iterator[Agent]:
    """A Consul agent shared by all tests."""
    folder = tmp_path_factory.mktemp("consul")
    with consul_agent(find("consul"), folder, authority=authority) as agent:
        yield agent


@pytest.fixture(scope="session")
def nomad(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """A Nomad agent shared by all tests."""
    with nomad_agent(find("nomad"), tmp_path_factory.mktemp("nomad")) as agent:
        yield agent


@pytest.fixture(scope="session")
def ssh_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of OpenSSH's server; skips where its package cannot be had."""
    if reason := missing_to_run():
        pytest.skip(reason)
    return unpacked(default_cache() / "hosts", tmp_path_factory.mktemp("openssh"))


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory, ssh_files: Path) -> Iterator[SshServer]:
    """A host to run commands on; it takes the variable STAGE and those with previous outputs."""
    folder, accepted = tmp_path_factory.mktemp("host"), "AcceptEnv STAGE PULUMI_COMMAND_*"
    with ssh_server(ssh_files, folder, HOST_ADDRESS, accepted) as server:
        yield server


@pytest.fixture(scope="session")
def jump_host(tmp_path_factory: pytest.TempPathFactory, ssh_files: Path) -> Iterator[SshServer]:
    """A host to reach others by, which takes no variables."""
    with ssh_server(ssh_files, tmp_path_factory.mktemp("jump"), JUMP_ADDRESS) as server:
        yield server
