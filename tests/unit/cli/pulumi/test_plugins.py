"""Which kind of provider plugins an environment's Pulumi uses."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cli.environment import Environment
from cli.errors import CliError
from cli.lifecycle.fleet.backend import users_pulumi
from cli.lifecycle.local.backend import own_pulumi
from cli.lifecycle.local.lifecycle import LocalLifecycle
from cli.pulumi import plugins
from cli.pulumi.process import Pulumi
from tests.unit.toolchain.stand_ins import put_program
from tests.waiting import HANG_S
from toolchain.pins import tool_pin
from toolchain.plugins.install import folders
from toolchain.progress import Step, silent
from toolchain.resolve import resolve
from toolchain.settings import Settings

COMPILED = b"\x7fELF\x02"
SCRIPT = b"#!/bin/sh\nexec python"


def get_from_path(environment: Environment, folder: Path) -> None:
    """Lets the toolchain find the Pulumi in `folder`, as it does for a user who has one."""
    settings = Settings(cache=environment.cache, sources=("path",), path=str(folder))
    found = resolve(tool_pin("pulumi"), settings, Step("pulumi", silent))
    assert (found.source, found.path) == ("path", environment.cached_pulumi)


def put_release(folder: Path, host: bytes | None) -> None:
    """What a release of Pulumi unpacks to; one that was built from its module has no host."""
    put_program(folder / "pulumi", f"#!/bin/sh\necho v{tool_pin('pulumi').version}\n")
    if host is not None:
        (folder / "pulumi-language-python").write_bytes(host)


@pytest.mark.parametrize("linked", [False, True], ids=["in its own folder", "by a link"])
def test_a_release_of_pulumi_found_on_path_gets_the_official_plugins(
    linked: bool, environment: Environment, tmp_path: Path
) -> None:
    put_release(tmp_path / "release", COMPILED)
    if linked:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "pulumi").symlink_to(tmp_path / "release" / "pulumi")
    get_from_path(environment, tmp_path / ("bin" if linked else "release"))
    assert plugins.plugin_kind(environment) == "official"
    assert plugins.prepare_plugins(environment) == "official"
    assert environment.pulumi.resolve() == tmp_path / "release" / "pulumi"
    assert not environment.pulumi.with_name("pulumi-language-python").exists()
    assert not (environment.pulumi_home / "plugins").exists()
    assert plugins.plugin_variables("official") == {}


@pytest.mark.parametrize("host", [SCRIPT, None], ids=["with a script as host", "without a host"])
def test_any_other_pulumi_on_path_gets_the_registry_only_ones(
    host: bytes | None, environment: Environment, tmp_path: Path
) -> None:
    put_release(tmp_path / "bin", host)
    get_from_path(environment, tmp_path / "bin")
    assert plugins.plugin_kind(environment) == "registry-only"
    assert "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION" in plugins.plugin_variables(
        "registry-only"
    )


def test_without_any_pulumi_the_kind_is_registry_only(environment: Environment) -> None:
    assert plugins.plugin_kind(environment) == "registry-only"


def test_a_checkout_keeps_the_kind_it_began_with(environment: Environment, tmp_path: Path) -> None:
    put_release(tmp_path / "bin", None)
    get_from_path(environment, tmp_path / "bin")
    assert plugins.prepare_plugins(environment) == "registry-only"
    plugins.keep_kind(environment, environment.pulumi_home)
    made = list(
        (environment.pulumi_home / "plugins").glob("resource-nomad-v*/pulumi-resource-nomad")
    )
    assert len(made) == 1
    assert environment.pulumi.read_bytes() == environment.cached_pulumi.read_bytes()
    host = environment.pulumi.with_name("pulumi-language-python")
    assert host.read_bytes().startswith(b"#!")
    put_release(tmp_path / "bin", COMPILED)
    assert plugins.plugin_kind(environment) == "registry-only"


@pytest.mark.parametrize("content", [b"", b"offic", b"\xff"], ids=["empty", "cut off", "no text"])
def test_a_kind_that_cannot_be_read_is_never_guessed(
    content: bytes, environment: Environment
) -> None:
    environment.make_pulumi_folders()
    record = environment.pulumi_home / "plugin-kind"
    record.write_bytes(content)
    for ask in (plugins.plugin_kind, plugins.prepare_plugins):
        with pytest.raises(CliError, match="does not name a kind of provider plugins") as refused:
            ask(environment)
        assert "official or registry-only" in refused.value.fix
    assert record.read_bytes() == content


def test_a_preview_does_not_decide_for_later_commands(
    environment: Environment, tmp_path: Path
) -> None:
    put_release(tmp_path / "bin", None)
    get_from_path(environment, tmp_path / "bin")
    assert plugins.prepare_plugins(environment) == "registry-only"
    host = environment.commands / "pulumi-language-python"
    assert host.exists()
    assert not environment.pulumi.is_symlink()

    put_release(tmp_path / "bin", COMPILED)
    assert plugins.prepare_plugins(environment) == "official"
    assert not host.exists()
    assert list((environment.pulumi_home / "plugins").iterdir()) == []
    assert environment.pulumi.is_symlink()

    (tmp_path / "bin" / "pulumi-language-python").unlink()
    assert plugins.prepare_plugins(environment) == "registry-only"
    assert host.exists()
    assert not environment.pulumi.is_symlink()  # Pulumi takes the host beside its own file


def put_official_plugin(environment: Environment) -> None:
    """As Pulumi downloads it."""
    folder = folders(environment.pulumi_home, Path(sys.executable))["nomad"]
    folder.mkdir(parents=True)
    (folder / "pulumi-resource-nomad").write_bytes(COMPILED)


def test_a_failed_download_of_official_plugins_does_not_decide_and_says_what_to_do(
    environment: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_release(tmp_path / "bin", COMPILED)
    get_from_path(environment, tmp_path / "bin")
    assert plugins.prepare_plugins(environment) == "official"
    plugins.keep_kind(environment, environment.pulumi_home)
    plugins.say_what_is_missing(environment, environment.pulumi_home)
    assert "SLIPWAY_TOOL_SOURCES=wheel,module slipway up -s dev" in capsys.readouterr().err
    (tmp_path / "bin" / "pulumi-language-python").unlink()
    assert plugins.prepare_plugins(environment) == "registry-only"
    plugins.say_what_is_missing(environment, environment.pulumi_home)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("kept", [True, False], ids=["recorded", "downloaded alone"])
def test_official_plugins_without_their_release_are_refused_with_a_fix(
    kept: bool, environment: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_release(tmp_path / "bin", COMPILED)
    get_from_path(environment, tmp_path / "bin")
    put_official_plugin(environment)
    if kept:
        plugins.keep_kind(environment, environment.pulumi_home)
    plugins.say_what_is_missing(environment, environment.pulumi_home)
    assert capsys.readouterr().err == ""
    (tmp_path / "bin" / "pulumi-language-python").unlink()
    assert plugins.plugin_kind(environment) == "official"
    with pytest.raises(CliError, match="started with the official provider plugins") as refused:
        plugins.prepare_plugins(environment)
    assert f"Pulumi {tool_pin('pulumi').version} back on PATH" in refused.value.fix
    assert str(environment.home) in refused.value.fix
    assert not environment.pulumi.exists()


def test_a_pulumi_on_path_without_its_host_is_named_until_the_kind_is_kept(
    environment: Environment, tmp_path: Path
) -> None:
    put_release(tmp_path / "bin", None)
    get_from_path(environment, tmp_path / "bin")
    kind = plugins.prepare_plugins(environment)
    assert f"{tmp_path}/bin/pulumi has no pulumi-language-python" in plugins.describe(
        environment, kind
    )
    plugins.keep_kind(environment, environment.pulumi_home)
    assert plugins.describe(environment, kind) == plugins.DESCRIPTION[kind]


def test_a_pulumi_built_here_needs_no_reason(environment: Environment) -> None:
    put_program(environment.cached_pulumi, "#!/bin/sh\n")
    assert plugins.known_kind(environment) == "registry-only"
    described = plugins.describe(environment, "registry-only")
    assert described == plugins.DESCRIPTION["registry-only"]


def test_the_kind_is_not_known_before_pulumi_is_installed(environment: Environment) -> None:
    assert plugins.known_kind(environment) is None


SWITCHES = ("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "PULUMI_DISABLE_REGISTRY_RESOLVE")


def test_the_exports_turn_no_download_off_before_the_kind_is_known(
    environment: Environment, tmp_path: Path
) -> None:
    lifecycle = LocalLifecycle(environment=environment)
    assert not any(name in lifecycle.exports() for name in SWITCHES)
    put_release(tmp_path / "bin", None)
    get_from_path(environment, tmp_path / "bin")
    assert all(f"export {name}=true\n" in lifecycle.exports() for name in SWITCHES)


@pytest.mark.parametrize("pulumi_of", [own_pulumi, users_pulumi])
def test_a_shell_with_the_variables_of_the_other_kind_does_not_stop_the_download(
    environment: Environment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pulumi_of: Callable[[Environment], Pulumi],
) -> None:
    for name in SWITCHES:
        monkeypatch.setenv(name, "true")
    put_release(tmp_path / "bin", COMPILED)
    get_from_path(environment, tmp_path / "bin")
    assert not set(SWITCHES) & set(pulumi_of(environment).variables)


def test_an_official_plugin_in_the_place_of_ours_is_replaced(
    environment: Environment, tmp_path: Path
) -> None:
    put_release(tmp_path / "bin", None)
    get_from_path(environment, tmp_path / "bin")
    plugins.prepare_plugins(environment)
    plugins.keep_kind(environment, environment.pulumi_home)
    (plugin,) = (environment.pulumi_home / "plugins").glob("*nomad-v*/pulumi-resource-nomad")
    script = plugin.read_bytes()
    plugin.write_bytes(COMPILED + b"\xff")
    plugins.prepare_plugins(environment)
    assert plugin.read_bytes() == script


def test_commands_at_once_place_one_whole_pulumi_on_another_file_system(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_release(tmp_path / "bin", None)
    get_from_path(environment, tmp_path / "bin")
    copies: list[Path] = []
    lock, other_began = fcntl.flock, threading.Event()

    def lock_and_tell(descriptor: int, operation: int) -> None:
        try:
            lock(descriptor, operation)
        except BlockingIOError:
            other_began.set()
            raise

    def copy(source: Path, target: Path) -> None:
        copies.append(target)
        if len(copies) > 1:
            other_began.set()
        shutil.copyfile(source, target)
        assert other_began.wait(HANG_S)
        shutil.copystat(source, target)

    monkeypatch.setattr(Path, "hardlink_to", _fails_with(errno.EXDEV))
    monkeypatch.setattr(plugins.shutil, "copy2", copy)
    monkeypatch.setattr(fcntl, "flock", lock_and_tell)
    with ThreadPoolExecutor() as pool:
        both = [pool.submit(plugins.prepare_plugins, environment) for _ in range(2)]
        assert [each.result() for each in both] == ["registry-only"] * 2
    assert len(copies) == 1
    assert os.access(environment.pulumi, os.X_OK)
    assert environment.pulumi.read_bytes() == environment.cached_pulumi.read_bytes()


def test_a_full_disk_is_not_taken_for_another_file_system(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_release(tmp_path / "bin", None)
    get_from_path(environment, tmp_path / "bin")
    monkeypatch.setattr(Path, "hardlink_to", _fails_with(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        plugins.prepare_plugins(environment)
    assert not environment.pulumi.exists()


def _fails_with(number: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(("kind", "started"), [("registry-only", 1), ("official", 0), (None, 0)])
def test_only_registry_only_plugins_and_their_program_have_a_server(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, kind: str | None, started: int
) -> None:
    servers = list[Sequence[str]]()
    monkeypatch.setattr(plugins, "known_kind", lambda _: kind)
    monkeypatch.setattr(plugins, "fork_into_server", lambda *modules: servers.append(modules))
    program = "import pulumi\nfrom stacks.platform import Platform\nNOW = 1\nimport later\n"
    (environment.checkout / "__main__.py").write_text(program)
    plugins.fork_plugins_and_program(environment)
    first = ("pulumi", "pulumi", "stacks.platform", "toolchain.language_host.executor")
    assert [each[:4] for each in servers] == [first] * started
