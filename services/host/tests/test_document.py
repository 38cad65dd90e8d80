"""Documents from the Pulumi program, and the errors for invalid ones."""

from __future__ import annotations

import copy
import errno
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from host.document import Endpoint, Prerequisites, Unit, Units, read_agent, read_host
from host.main import run
from program.document import read_document, read_secrets
from program.errors import InputError, exit_code
from program.folders import Folders

GOLDEN = Path(__file__).parents[3] / "tests/golden/node"
FOLDERS = Folders(run=Path("/a run"), cache=Path("/cache"), scratch=Path("/scratch"))


def golden(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return document


def test_a_nodes_agents_come_in_the_order_of_their_stages() -> None:
    document = golden("cpu-0")
    document["agents"].reverse()
    host = read_host(document, FOLDERS)
    assert [agent.name for agent in host.agents] == ["consul", "nomad"]


def test_every_path_is_of_this_machine_afterwards() -> None:
    host = read_host(golden("cpu-0"), FOLDERS)
    consul, nomad = host.agents
    assert consul.command[0] == "/cache/tools/bin/consul-1.22.6/consul"
    assert consul.command[2] == "-config-file=/a run/nodes/cpu-0/consul/config.json"
    assert host.configurations["nomad"]["client"]["meta"]["runtime"] == "/cache"
    assert host.configurations["nomad"]["data_dir"] == "/a run/nodes/cpu-0/nomad/data"
    assert nomad.program == "cpu-0-nomad"
    assert "@" not in json.dumps([host.configurations, consul.command, nomad.command])


def test_only_a_nodes_nomad_client_waits_for_the_cluster() -> None:
    prerequisites = read_host(golden("cpu-0"), FOLDERS).prerequisites
    assert prerequisites == {
        "nomad": Prerequisites(
            consul="https://127.77.0.16:8501",
            consul_service="consul-agent",
            nomad=("https://127.77.0.1:4646",),
        )
    }
    assert read_host(golden("server-0-nomad"), FOLDERS).prerequisites == {}


def test_an_agent_is_the_same_after_a_round_through_its_file() -> None:
    agent = read_host(golden("cpu-0"), FOLDERS).agents[0]
    assert read_agent(json.loads(json.dumps(vars(agent)))) == agent


def test_a_document_names_the_supervisor_of_its_agents() -> None:
    document = golden("server-0-consul")
    address = document["supervisor"]["address"]
    assert read_host(document, FOLDERS).supervisor == Endpoint(address=address, port=9001)
    unit = {"user": "slipway-consul", "after": ["x"], "limits": {"open_files": 9}}
    document["supervisor"] = {"kind": "systemd", "agents": {"consul": unit}}
    assert read_host(document, FOLDERS).supervisor == Units(
        {"consul": Unit(user="slipway-consul", after=("x",), limits={"open_files": 9})}
    )


def test_a_supervisor_of_another_kind_is_refused() -> None:
    document = golden("server-0-consul")
    document["supervisor"] = {"kind": "runit", "agents": {}}
    with pytest.raises(InputError, match="runit is no supervisor"):
        read_host(document, FOLDERS)


def without(document: dict[str, Any], key: str) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    del changed["agents"][0][key]
    return changed


@pytest.mark.parametrize("key", ["name", "stage", "command", "ready_url", "configuration"])
def test_a_document_without_a_required_key_is_refused(key: str) -> None:
    with pytest.raises(InputError, match=r"node\.schema\.json"):
        read_host(without(golden("cpu-0"), key), FOLDERS)


def test_a_document_with_an_unknown_key_is_refused() -> None:
    document = golden("cpu-0")
    document["agents"][0]["nice"] = 5
    with pytest.raises(InputError, match="nice"):
        read_host(document, FOLDERS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not set"),
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ("{}", "schema_version None"),
        ('{"schema_version": 1}', "reads 2 and 3"),
        ('{"schema_version": 4}', "reads 2 and 3"),
    ],
)
def test_a_wrong_document_is_refused_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.setenv("SLIPWAY_DOCUMENT", text)
    with pytest.raises(InputError, match=said):
        read_document(3)


def test_this_version_and_the_one_before_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in (2, 3):
        monkeypatch.setenv("SLIPWAY_DOCUMENT", json.dumps({"schema_version": version}))
        assert read_document(3)["schema_version"] == version


def test_before_the_first_version_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_DOCUMENT", json.dumps({"schema_version": 0}))
    with pytest.raises(InputError, match="reads 1\\."):
        read_document(1)


def test_secrets_of_another_version_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"schema_version": 2, "agents": {}}'))
    with pytest.raises(InputError, match="standard input has schema_version 2"):
        read_secrets()


def test_a_wrong_environment_is_exit_2_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SLIPWAY_RUN", raising=False)
    assert exit_code(lambda: run(["start"])) == 2
    assert capsys.readouterr().err.startswith("SLIPWAY_RUN is ''")


def test_a_full_disk_is_told_with_the_fix_and_any_other_mistake_of_the_program_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLIPWAY_RUN", "/run/of/dev")

    def fail(number: int) -> None:
        raise OSError(number, os.strerror(number))

    assert exit_code(lambda: fail(errno.ENOSPC)) == 1
    assert capsys.readouterr().err == (
        "[Errno 28] No space left on device\n"
        "fix: make room on the disk of /run/of/dev, then run it again\n"
    )
    with pytest.raises(OSError, match="Bad file descriptor"):
        exit_code(lambda: fail(errno.EBADF))


def test_start_and_status_before_the_first_apply_say_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("RUN", "CACHE", "SCRATCH"):
        monkeypatch.setenv(f"SLIPWAY_{name}", str(tmp_path / name))
    assert exit_code(lambda: run(["start"])) == 2
    assert "slipway up" in capsys.readouterr().err
    assert exit_code(lambda: run(["status"])) == 1
    assert exit_code(lambda: run(["stop"])) == 0
